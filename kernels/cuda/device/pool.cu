#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/pool.h"

namespace trainrt::cuda {
namespace {

struct Position {
  i64 plane;
  int at[3];
};

__device__ int volume(const int* dims) { return dims[0] * dims[1] * dims[2]; }

__device__ Position position_of(i64 index, const int* dims) {
  const u32 size = static_cast<u32>(volume(dims));
  const i64 plane = index / size;
  u32 rest = static_cast<u32>(index - plane * size);
  Position p;
  p.plane = plane;
  p.at[2] = static_cast<int>(rest % static_cast<u32>(dims[2]));
  rest /= static_cast<u32>(dims[2]);
  p.at[1] = static_cast<int>(rest % static_cast<u32>(dims[1]));
  p.at[0] = static_cast<int>(rest / static_cast<u32>(dims[1]));
  return p;
}

/// Taps [first, last) of output o that lie in [0, size) along a dim.
struct Taps {
  int first, last;
};
__device__ Taps taps_inside(const PoolArguments& args, int d, int o, int pad, int size) {
  const int begin = o * args.stride[d] - pad, dilation = args.dilation[d];
  const int first = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
  int last = begin < size ? (size - 1 - begin) / dilation + 1 : 0;
  if (last > args.kernel[d]) last = args.kernel[d];
  return {first, last > first ? last : first};
}

/// Calls f(offset in the plane) for the window's cells, in row-major order.
template <typename F>
__device__ void for_each_cell(const PoolArguments& args, const int* o, F f) {
  Taps r[3];
  int begin[3];
  for (int d = 0; d < 3; ++d) {
    r[d] = taps_inside(args, d, o[d], args.pad[d], args.in[d]);
    begin[d] = o[d] * args.stride[d] - args.pad[d];
  }
  for (int t0 = r[0].first; t0 < r[0].last; ++t0) {
    for (int t1 = r[1].first; t1 < r[1].last; ++t1) {
      const int row =
          ((begin[0] + t0 * args.dilation[0]) * args.in[1] + begin[1] + t1 * args.dilation[1]) *
          args.in[2];
      for (int t2 = r[2].first; t2 < r[2].last; ++t2) f(row + begin[2] + t2 * args.dilation[2]);
    }
  }
}

/// Calls f(offset in the plane) for the outputs whose windows have a cell, in row-major order.
template <typename F>
__device__ void for_each_window(const PoolArguments& args, const int* cell, F f) {
  for (int t0 = args.kernel[0]; t0-- > 0;) {
    const int v0 = cell[0] + args.pad[0] - t0 * args.dilation[0];
    if (v0 < 0 || v0 % args.stride[0] != 0 || v0 / args.stride[0] >= args.outs[0]) continue;
    for (int t1 = args.kernel[1]; t1-- > 0;) {
      const int v1 = cell[1] + args.pad[1] - t1 * args.dilation[1];
      if (v1 < 0 || v1 % args.stride[1] != 0 || v1 / args.stride[1] >= args.outs[1]) continue;
      for (int t2 = args.kernel[2]; t2-- > 0;) {
        const int v2 = cell[2] + args.pad[2] - t2 * args.dilation[2];
        if (v2 < 0 || v2 % args.stride[2] != 0 || v2 / args.stride[2] >= args.outs[2]) continue;
        const int o[3] = {v0 / args.stride[0], v1 / args.stride[1], v2 / args.stride[2]};
        f(o);
      }
    }
  }
}

template <typename T>
struct Plain {
  __device__ static T read(const void* x, int, i64 i) { return static_cast<const T*>(x)[i]; }
  __device__ static void write(void* y, int, i64 i, T v) { static_cast<T*>(y)[i] = v; }
};
struct Floats {
  __device__ static float read(const void* x, int half, i64 i) { return load<float>(x, half, i); }
  __device__ static void write(void* y, int half, i64 i, float v) { store<float>(y, half, i, v); }
};

/// The window's first maximum (NaN is the largest value), or -1 for a window without cells.
template <typename T, typename Access>
__device__ int first_maximum(const PoolArguments& args, const Position& p, T* value) {
  const i64 base = p.plane * volume(args.in);
  int best = -1;
  for_each_cell(args, p.at, [&](int i) {
    const T v = Access::read(args.x, args.half_x, base + i);
    if (best < 0 || v > *value || (v != v && *value == *value)) {
      best = i;
      *value = v;
    }
  });
  return best;
}

template <typename T, typename Access>
__device__ void max_pool(const PoolArguments& args, T lowest) {
  const i64 count = args.planes * volume(args.outs);
  for (i64 i = global_index(); i < count; i += global_size()) {
    T value = lowest;
    first_maximum<T, Access>(args, position_of(i, args.outs), &value);
    Access::write(args.out, args.half_out, i, value);
  }
}

template <typename T, typename Access>
__device__ void max_pool_indices(const PoolArguments& args) {
  const i64 count = args.planes * volume(args.outs);
  for (i64 i = global_index(); i < count; i += global_size()) {
    const Position p = position_of(i, args.outs);
    T value = 0;
    int best = first_maximum<T, Access>(args, p, &value);
    if (best >= 0 && args.column_major) {
      const int i2 = best % args.in[2], i1 = best / args.in[2] % args.in[1];
      best = best / (args.in[2] * args.in[1]) + args.in[0] * (i1 + args.in[1] * i2);
    }
    static_cast<i64*>(args.out)[i] = best < 0 ? -1 : p.plane * volume(args.in) + best;
  }
}

template <typename T, typename Access>
__device__ void find_maxima(const PoolArguments& args) {
  const i64 count = args.planes * volume(args.outs);
  for (i64 i = global_index(); i < count; i += global_size()) {
    T value = 0;
    args.maxima[i] = first_maximum<T, Access>(args, position_of(i, args.outs), &value);
  }
}

__device__ i64 output_offset(const PoolArguments& args, i64 plane, const int* o) {
  return plane * volume(args.outs) + (o[0] * args.outs[1] + o[1]) * args.outs[2] + o[2];
}

/// Each input cell takes the gradients of the windows whose maximum it is.
template <typename T, typename Access>
__device__ void max_pool_grad(const PoolArguments& args) {
  const i64 count = args.planes * volume(args.in);
  for (i64 i = global_index(); i < count; i += global_size()) {
    const Position p = position_of(i, args.in);
    const int own = static_cast<int>(i - p.plane * volume(args.in));
    T sum = 0;
    for_each_window(args, p.at, [&](const int* o) {
      const i64 at = output_offset(args, p.plane, o);
      if (args.maxima[at] == own) sum += Access::read(args.dy, args.half_dy, at);
    });
    Access::write(args.out, args.half_out, i, sum);
  }
}

/// Cells by which a mean divides.
template <typename T>
__device__ T divisor(const PoolArguments& args, const int* o) {
  T cells = 1;
  for (int d = 0; d < 3; ++d) {
    const Taps r = args.count_pads
                       ? taps_inside(args, d, o[d], 0, args.pad[d] + args.in[d] + args.pad_end[d])
                       : taps_inside(args, d, o[d], args.pad[d], args.in[d]);
    cells *= static_cast<T>(r.last - r.first);
  }
  return cells;
}

template <typename T, typename Access>
__device__ void average_pool(const PoolArguments& args) {
  const i64 count = args.planes * volume(args.outs);
  for (i64 i = global_index(); i < count; i += global_size()) {
    const Position p = position_of(i, args.outs);
    const i64 base = p.plane * volume(args.in);
    T sum = 0;
    for_each_cell(args, p.at,
                  [&](int cell) { sum += Access::read(args.x, args.half_x, base + cell); });
    Access::write(args.out, args.half_out, i, sum / divisor<T>(args, p.at));
  }
}

template <typename T, typename Access>
__device__ void average_pool_grad(const PoolArguments& args) {
  const i64 count = args.planes * volume(args.in);
  for (i64 i = global_index(); i < count; i += global_size()) {
    const Position p = position_of(i, args.in);
    T sum = 0;
    for_each_window(args, p.at, [&](const int* o) {
      sum += Access::read(args.dy, args.half_dy, output_offset(args, p.plane, o)) /
             divisor<T>(args, o);
    });
    Access::write(args.out, args.half_out, i, sum);
  }
}

}  // namespace

#define POOLS(T, Access, suffix)                                                            \
  TRAINRT_KERNEL(max_pool_maxima_##suffix, PoolArguments) { find_maxima<T, Access>(args); } \
  TRAINRT_KERNEL(max_pool_grad_##suffix, PoolArguments) { max_pool_grad<T, Access>(args); } \
  TRAINRT_KERNEL(average_pool_##suffix, PoolArguments) { average_pool<T, Access>(args); }   \
  TRAINRT_KERNEL(average_pool_grad_##suffix, PoolArguments) { average_pool_grad<T, Access>(args); }

#define MAX_POOLS(T, Access, lowest, suffix)                                              \
  TRAINRT_KERNEL(max_pool_##suffix, PoolArguments) { max_pool<T, Access>(args, lowest); } \
  TRAINRT_KERNEL(max_pool_indices_##suffix, PoolArguments) { max_pool_indices<T, Access>(args); }

POOLS(float, Floats, f32)
POOLS(double, Plain<double>, f64)
MAX_POOLS(float, Floats, -INFINITY, f32)
MAX_POOLS(double, Plain<double>, -static_cast<double>(INFINITY), f64)
MAX_POOLS(signed char, Plain<signed char>, -128, i8)
MAX_POOLS(unsigned char, Plain<unsigned char>, 0, u8)
MAX_POOLS(int, Plain<int>, -2147483647 - 1, i32)
MAX_POOLS(i64, Plain<i64>, -9223372036854775807LL - 1, i64)

}  // namespace trainrt::cuda
