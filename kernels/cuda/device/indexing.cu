#include "kernels/cuda/device/indexing.h"
#include "kernels/cuda/device/numbers-inl.h"
#include "kernels/cuda/device/strided-inl.h"

namespace trainrt::cuda {
namespace {

/// Index i counted from the front; -1, and a complaint, when it is out of range.
__device__ inline i64 checked_index(const IndexOperand& indices, i64 i, i64 size) {
  i64 id = indices.wide ? static_cast<const i64*>(indices.ids)[i]
                        : static_cast<i64>(static_cast<const int*>(indices.ids)[i]);
  if (id < 0) id += size;
  if (id >= 0 && id < size) return id;
  report(indices.status, indices.step);
  return -1;
}

/// Where tuple t points to, or -1.
template <bool kFar>
__device__ i64 locate(const IndexTuples& tuples, i64 t) {
  i64 at = walk_to<kFar>(tuples.walk, t);
  bool valid = true;
  for (int d = 0; d < tuples.depth; ++d) {
    const i64 id = checked_index(tuples.indices, t * tuples.depth + d, tuples.sizes[d]);
    valid = valid && id >= 0;
    at += id * tuples.strides[d];
  }
  return valid ? at : -1;
}

template <typename T, bool kFar>
__device__ void gather(const GatherArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Index<kFar> column = static_cast<Index<kFar>>(i);
    Index<kFar> k = divide(column, args.by_row, args.row);
    const i64 o = static_cast<i64>(divide(k, args.by_n, args.n));
    const i64 id = checked_index(args.indices, static_cast<i64>(k), args.size);
    const i64 from = (o * args.size + id) * args.row + static_cast<i64>(column);
    out[i] = id < 0 ? T{} : in[from];
  }
}

template <typename T, bool kFar>
__device__ void gather_tuples(const GatherTuplesArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Index<kFar> column = static_cast<Index<kFar>>(i);
    const i64 t = static_cast<i64>(divide(column, args.by_row, args.row));
    const i64 at = locate<kFar>(args.tuples, t);
    out[i] = at < 0 ? T{} : in[at + static_cast<i64>(column)];
  }
}

template <typename T, bool kFar>
__device__ void scatter_last(const ScatterLastArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.count; i += global_size()) {
    Index<kFar> column = static_cast<Index<kFar>>(i);
    const i64 t = static_cast<i64>(divide(column, args.by_row, args.row));
    const u32 key = args.keys[t];
    if (key == args.none || args.last[key] != t + 1) continue;
    out[static_cast<i64>(key) * args.row + static_cast<i64>(column)] = in[i];
  }
}

template <typename T>
__device__ T join(Join how, T a, T b) {
  switch (how) {
    case Join::kAdd:
      return add(a, b);
    case Join::kMul:
      return multiply(a, b);
    case Join::kMax:
      return MaxOf::join(a, b);
    case Join::kMin:
      return MinOf::join(a, b);
    default:
      return b;
  }
}

/// Column of all runs: its number among [outer, runs, row], cut up.
struct RunColumn {
  i64 outer, run, column;

  __device__ RunColumn(const ScatterRunsArguments& args, i64 i)
      : outer(i / args.row / args.runs), run(i / args.row % args.runs), column(i % args.row) {}
};

template <typename In>
__device__ void runs(const ScatterRunsArguments& args) {
  using T = Value<In>;
  const i64 count = args.outer * args.runs * args.row;
  for (i64 i = global_index(); i < count; i += global_size()) {
    const RunColumn at(args, i);
    const In* in = static_cast<const In*>(args.in) + at.outer * args.n * args.row + at.column;
    T* out = static_cast<T*>(args.out) + at.outer * args.size * args.row + at.column;
    const i64 begin = at.run * kRun, end = min(begin + kRun, args.n);
    u32 key = args.keys[begin];
    bool inherited = begin > 0 && args.keys[begin - 1] == key;
    bool fresh = true;
    T sum = T(0);
    for (i64 s = begin; s < end; ++s) {
      const u32 next = args.keys[s];
      if (next != key) {
        if (inherited) {
          static_cast<T*>(args.heads)[i] = sum;
        } else {
          out[static_cast<i64>(key) * args.row] = sum;
        }
        key = next;
        inherited = false;
        fresh = true;
      }
      if (key == args.none) break;  // so are all that follow
      const T x = value_of(in[static_cast<i64>(args.order[s]) * args.row]);
      if (!fresh) {
        sum = join(args.join, sum, x);
      } else if (inherited) {
        sum = x;
      } else {
        sum = join(args.join, args.from_zero ? T(0) : out[static_cast<i64>(key) * args.row], x);
      }
      fresh = false;
    }
    if (key == args.none) continue;
    if (inherited) {
      static_cast<T*>(args.heads)[i] = sum;
    } else if (end < args.n && args.keys[end] == key) {
      static_cast<T*>(args.tails)[i] = sum;
    } else {
      out[static_cast<i64>(key) * args.row] = sum;
    }
  }
}

template <typename T>
__device__ void ends(const ScatterRunsArguments& args) {
  const i64 count = args.outer * args.runs * args.row;
  for (i64 i = global_index(); i < count; i += global_size()) {
    const RunColumn at(args, i);
    const i64 begin = at.run * kRun;
    i64 end = begin + kRun;
    if (end >= args.n) continue;
    const u32 key = args.keys[end];
    const bool began = args.keys[end - 1] == key && (begin == 0 || args.keys[begin - 1] != key);
    if (!began || key == args.none) continue;
    T sum = static_cast<const T*>(args.tails)[i];
    const T* head = static_cast<const T*>(args.heads) + i;
    for (; end < args.n && args.keys[end] == key; end += kRun) {
      head += args.row;
      sum = join(args.join, sum, *head);
    }
    static_cast<T*>(args.out)[(at.outer * args.size + key) * args.row + at.column] = sum;
  }
}

template <bool kFar>
__device__ void keys(const KeysArguments& args) {
  for (i64 t = global_index(); t < args.count; t += global_size()) {
    const i64 at = locate<kFar>(args.tuples, t);
    args.keys[t] = at < 0 ? args.none : static_cast<u32>(at);
    if (at >= 0 && args.last != nullptr) atomicMax(&args.last[at], static_cast<int>(t + 1));
  }
}

}  // namespace

#define MOVES(T, suffix)                                                                         \
  TRAINRT_KERNEL(gather_b##suffix, GatherArguments) { gather<T, false>(args); }                  \
  TRAINRT_KERNEL(gather_far_b##suffix, GatherArguments) { gather<T, true>(args); }               \
  TRAINRT_KERNEL(gather_tuples_b##suffix, GatherTuplesArguments) {                               \
    gather_tuples<T, false>(args);                                                               \
  }                                                                                              \
  TRAINRT_KERNEL(gather_tuples_far_b##suffix, GatherTuplesArguments) {                           \
    gather_tuples<T, true>(args);                                                                \
  }                                                                                              \
  TRAINRT_KERNEL(scatter_last_b##suffix, ScatterLastArguments) { scatter_last<T, false>(args); } \
  TRAINRT_KERNEL(scatter_last_far_b##suffix, ScatterLastArguments) { scatter_last<T, true>(args); }

MOVES(unsigned char, 1)
MOVES(unsigned short, 2)
MOVES(u32, 4)
MOVES(u64, 8)
MOVES(Chunk16, 16)

TRAINRT_KERNEL(scatter_keys, KeysArguments) { keys<false>(args); }

#define SCATTERS(T, suffix)                                                      \
  TRAINRT_KERNEL(scatter_runs_##suffix, ScatterRunsArguments) { runs<T>(args); } \
  TRAINRT_KERNEL(scatter_ends_##suffix, ScatterRunsArguments) { ends<T>(args); }

TRAINRT_FOR_NUMBERS(SCATTERS)
TRAINRT_KERNEL(scatter_runs_bf16, ScatterRunsArguments) { runs<bf16>(args); }

}  // namespace trainrt::cuda
