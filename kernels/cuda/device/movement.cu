#include "kernels/cuda/device/movement.h"
#include "kernels/cuda/device/strided-inl.h"

namespace trainrt::cuda {
namespace {

template <typename T, bool kFar>
__device__ void copy(const CopyArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    i64 at[2] = {args.in_base, args.out_base};
    walk_to<kFar>(args.walk, i, at);
    out[at[1]] = in[at[0]];
  }
}

template <typename T, bool kFar>
__device__ void transpose(const TransposeArguments& args) {
  __shared__ T tile[kTile][kTile + 1];  // one more: columns lie in different banks
  const int lane = static_cast<int>(threadIdx.x % kTile);
  const int first = static_cast<int>(threadIdx.x / kTile);
  const int step = static_cast<int>(blockDim.x / kTile);
  for (i64 t = blockIdx.x; t < args.tiles; t += gridDim.x) {
    Index<kFar> column = static_cast<Index<kFar>>(t);
    Index<kFar> row = divide(column, args.by_column_tiles, args.column_tiles);
    const Index<kFar> matrix = divide(row, args.by_row_tiles, args.row_tiles);
    i64 at[2] = {0, 0};
    walk_to<kFar>(args.walk, static_cast<i64>(matrix), at);
    const i64 top = static_cast<i64>(row) * kTile, left = static_cast<i64>(column) * kTile;
    const T* in = static_cast<const T*>(args.in) + at[0];
    T* out = static_cast<T*>(args.out) + at[1];
    for (int i = first; i < kTile; i += step) {
      if (top + i < args.rows && left + lane < args.columns) {
        tile[i][lane] = in[(top + i) * args.in_row + left + lane];
      }
    }
    __syncthreads();
    for (int i = first; i < kTile; i += step) {
      if (left + i < args.columns && top + lane < args.rows) {
        out[(left + i) * args.out_column + top + lane] = tile[lane][i];
      }
    }
    __syncthreads();
  }
}

/// The kept cell that a cell outside of the kept ones repeats; -1: none.
__device__ inline i64 repeated(Border border, i64 cell, i64 kept) {
  if (kept == 0 || border == Border::kFill) return -1;
  if (border == Border::kEdge) return cell < 0 ? 0 : kept - 1;
  if (border == Border::kWrap) return (cell % kept + kept) % kept;
  if (kept == 1) return 0;
  const i64 period = 2 * (kept - 1);  // 0 1 2 3 2 1 | 0 …
  const i64 phase = (cell % period + period) % period;
  return phase < kept ? phase : period - phase;
}

template <typename T>
__device__ T filler(const PadArguments& args) {
  return static_cast<T>(args.fill[0]);
}
template <>
__device__ Chunk16 filler<Chunk16>(const PadArguments& args) {
  return {{args.fill[0], args.fill[1]}};
}

template <typename T, bool kFar>
__device__ void pad(const PadArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Index<kFar> rest = static_cast<Index<kFar>>(i);
    i64 at = 0;
    bool inside = true;
    for (int d = args.rank - 1; d >= 0; --d) {
      const PadAxis& axis = args.axes[d];
      Index<kFar> position = rest;
      rest = divide(position, axis.divisor, axis.padded);
      i64 cell = static_cast<i64>(position) - axis.before;
      if (cell < 0 || cell >= axis.kept) {
        cell = repeated(args.border, cell, axis.kept);
        inside = inside && cell >= 0;
      }
      at += (cell + axis.crop) * axis.stride;
    }
    out[i] = inside ? in[at] : filler<T>(args);
  }
}

/// Evenly spaced positions.
struct Comb {
  i64 start, step, count;
};

/// The positions of a padded axis that are or repeat kept cell c, as up to two combs.
__device__ inline void sources(const PadAxis& axis, Border border, i64 c, Comb (&combs)[2]) {
  const i64 own = axis.before + c;
  combs[0] = {own, 1, 1};
  combs[1] = {0, 1, 0};
  if (axis.kept == 1) {
    combs[0] = {0, 1, axis.padded};
  } else if (border == Border::kEdge) {
    if (c == 0) combs[0] = {0, 1, own + 1};
    if (c == axis.kept - 1) combs[0] = {own, 1, axis.padded - own};
  } else {
    const i64 period = border == Border::kWrap ? axis.kept : 2 * (axis.kept - 1);
    const auto from = [&](i64 position) {
      const i64 start = (position % period + period) % period;
      return Comb{start, period, start < axis.padded ? (axis.padded - 1 - start) / period + 1 : 0};
    };
    combs[0] = from(own);
    if (border == Border::kReflect && c != 0 && c != axis.kept - 1)
      combs[1] = from(axis.before - c);
  }
}

template <typename T, bool kFar>
__device__ void fold(const PadArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Comb combs[kMaxWalkRank][2];
    Index<kFar> rest = static_cast<Index<kFar>>(i);
    i64 terms = 1;
    for (int d = args.rank - 1; d >= 0; --d) {
      const PadAxis& axis = args.axes[d];
      Index<kFar> position = rest;
      rest = divide(position, axis.divisor, axis.whole);
      const i64 cell = static_cast<i64>(position) - axis.crop;
      if (cell < 0 || cell >= axis.kept) {
        terms = 0;
        break;
      }
      sources(axis, args.border, cell, combs[d]);
      terms *= combs[d][0].count + combs[d][1].count;
    }
    double sum = 0;
    for (i64 t = 0; t < terms; ++t) {
      i64 number = t, at = 0;
      for (int d = args.rank - 1; d >= 0; --d) {
        const i64 choices = combs[d][0].count + combs[d][1].count;
        i64 k = 0;
        if (choices > 1) {
          k = number % choices;
          number /= choices;
        }
        const bool second = k >= combs[d][0].count;
        const Comb& comb = combs[d][second ? 1 : 0];
        at += (comb.start + (second ? k - combs[d][0].count : k) * comb.step) * args.axes[d].stride;
      }
      sum += static_cast<double>(in[at]);
    }
    out[i] = static_cast<T>(sum);
  }
}

template <typename T, bool kFar, bool kSplit>
__device__ void move_parts(const PartsArguments& args) {
  T* whole = static_cast<T*>(args.whole);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Index<kFar> index = static_cast<Index<kFar>>(i);
    const i64 row = static_cast<i64>(divide(index, args.by_width, args.width));
    const i64 column = static_cast<i64>(index);
    int low = 0, high = args.number - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (column < args.ends[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const i64 begin = low == 0 ? 0 : args.ends[low - 1];
    T* part = static_cast<T*>(args.parts[low]) + row * (args.ends[low] - begin) + column - begin;
    T* there = whole + row * args.row + column;
    if (kSplit) {
      *part = *there;
    } else {
      *there = *part;
    }
  }
}

template <typename T, bool kFar>
__device__ void trilu(const TriluArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Index<kFar> column = static_cast<Index<kFar>>(i);
    Index<kFar> row = divide(column, args.by_columns, args.columns);
    divide(row, args.by_rows, args.rows);
    const i64 diagonal = static_cast<i64>(column) - static_cast<i64>(row);
    const bool keeps = args.upper ? diagonal >= args.k : diagonal <= args.k;
    out[i] = keeps ? in[i] : T(0);
  }
}

}  // namespace

#define MOVES(T, suffix)                                                                     \
  TRAINRT_KERNEL(copy_b##suffix, CopyArguments) { copy<T, false>(args); }                    \
  TRAINRT_KERNEL(copy_far_b##suffix, CopyArguments) { copy<T, true>(args); }                 \
  TRAINRT_KERNEL(pad_b##suffix, PadArguments) { pad<T, false>(args); }                       \
  TRAINRT_KERNEL(pad_far_b##suffix, PadArguments) { pad<T, true>(args); }                    \
  TRAINRT_KERNEL(concat_b##suffix, PartsArguments) { move_parts<T, false, false>(args); }    \
  TRAINRT_KERNEL(concat_far_b##suffix, PartsArguments) { move_parts<T, true, false>(args); } \
  TRAINRT_KERNEL(split_b##suffix, PartsArguments) { move_parts<T, false, true>(args); }      \
  TRAINRT_KERNEL(split_far_b##suffix, PartsArguments) { move_parts<T, true, true>(args); }

#define ELEMENT_MOVES(T, suffix)                                                            \
  TRAINRT_KERNEL(transpose_b##suffix, TransposeArguments) { transpose<T, false>(args); }    \
  TRAINRT_KERNEL(transpose_far_b##suffix, TransposeArguments) { transpose<T, true>(args); } \
  TRAINRT_KERNEL(trilu_b##suffix, TriluArguments) { trilu<T, false>(args); }                \
  TRAINRT_KERNEL(trilu_far_b##suffix, TriluArguments) { trilu<T, true>(args); }

MOVES(unsigned char, 1)
MOVES(unsigned short, 2)
MOVES(u32, 4)
MOVES(u64, 8)
MOVES(Chunk16, 16)
ELEMENT_MOVES(unsigned char, 1)
ELEMENT_MOVES(unsigned short, 2)
ELEMENT_MOVES(u32, 4)
ELEMENT_MOVES(u64, 8)

TRAINRT_KERNEL(fold_f32, PadArguments) { fold<float, false>(args); }
TRAINRT_KERNEL(fold_far_f32, PadArguments) { fold<float, true>(args); }
TRAINRT_KERNEL(fold_f64, PadArguments) { fold<double, false>(args); }
TRAINRT_KERNEL(fold_far_f64, PadArguments) { fold<double, true>(args); }

}  // namespace trainrt::cuda
