#include "kernels/cuda/device/softmax.h"
#include "kernels/cuda/device/team-inl.h"

namespace trainrt::cuda {
namespace {

/// The chain rule's product: 0 where nothing flows in, whatever the factor is.
template <typename T>
__device__ T chain(T dy, T factor) {
  return dy == 0 ? T(0) : dy * factor;
}

/// Rows of up to N * kSize contiguous elements, held in registers.
template <typename Team, int N, typename T>
__device__ void forward_rows(const SoftmaxArguments& args) {
  const int rank = Team::rank(), limit = static_cast<int>(args.axis) - rank;
  for (i64 row = Team::index(); row < args.rows; row += Team::count()) {
    const i64 first = row * args.axis + rank;
    T v[N];
    load_items(args.x, false, first, Team::kSize, limit, v);
    T largest = lowest_finite(T(0));
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k * Team::kSize < limit) largest = MaxOf::join(largest, v[k]);
    }
    largest = Team::template join<MaxOf>(largest, lowest_finite(T(0)));
    T sum = 0;
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k * Team::kSize < limit) {
        v[k] -= largest;
        const T e = exp(v[k]);
        sum += e;
        if (!args.log) v[k] = e;
      }
    }
    sum = Team::template join<SumOf>(sum, T(0));
    const T shift = args.log ? log(sum) : T(1) / sum;
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) v[k] = args.log ? v[k] - shift : v[k] * shift;
    store_items(args.out, false, first, Team::kSize, limit, v);
  }
}

/// dx = (dy - sum dy y) y, or of the logarithm dy - e^y sum dy
template <typename T>
__device__ T gradient(bool log, T dy, T y, T sum) {
  return log ? dy - chain(sum, exp(y)) : chain(dy - sum, y);
}

template <typename Team, int N, typename T>
__device__ void backward_rows(const SoftmaxArguments& args) {
  const int rank = Team::rank(), limit = static_cast<int>(args.axis) - rank;
  for (i64 row = Team::index(); row < args.rows; row += Team::count()) {
    const i64 first = row * args.axis + rank;
    T dy[N], y[N];
    load_items(args.x, false, first, Team::kSize, limit, dy);
    load_items(args.y, false, first, Team::kSize, limit, y);
    T sum = 0;
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) sum += args.log ? dy[k] : chain(dy[k], y[k]);
    sum = Team::template join<SumOf>(sum, T(0));
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) dy[k] = gradient(args.log != 0, dy[k], y[k], sum);
    store_items(args.out, false, first, Team::kSize, limit, dy);
  }
}

/// Calls f(first element, split, splits) for each of the block's lanes; lanes beyond the last row
/// get split = axis, nothing to do, because all threads meet at barriers.
template <typename F>
__device__ void for_columns(const SoftmaxArguments& args, F f) {
  const u32 lane = threadIdx.x % args.lanes;
  const i64 split = threadIdx.x / args.lanes, splits = 256 / args.lanes;
  for (i64 begin = i64{blockIdx.x} * args.lanes; begin < args.rows;
       begin += i64{gridDim.x} * args.lanes) {
    const i64 row = begin + lane;
    const bool inside = row < args.rows;
    f(inside ? row / args.inner * args.axis * args.inner + row % args.inner : 0,
      inside ? split : args.axis, splits);
  }
}

/// Rows of any length and step: neighbouring threads on neighbouring rows.
template <typename T>
__device__ void forward_columns(const SoftmaxArguments& args) {
  for_columns(args, [&](i64 first, i64 split, i64 splits) {
    const T* x = static_cast<const T*>(args.x) + first;
    T* y = static_cast<T*>(args.out) + first;
    Exponentials<T> part;
    for (i64 i = split; i < args.axis; i += splits) part.add(x[i * args.inner]);
    const T largest = join_lanes<MaxOf>(part.largest, args.lanes);
    const T sum = join_lanes<SumOf>(part.sum_from(largest), args.lanes);
    const T shift = args.log ? log(sum) : T(1) / sum;
    for (i64 i = split; i < args.axis; i += splits) {
      const T v = x[i * args.inner] - largest;
      y[i * args.inner] = args.log ? v - shift : exp(v) * shift;
    }
  });
}

template <typename T>
__device__ void backward_columns(const SoftmaxArguments& args) {
  for_columns(args, [&](i64 first, i64 split, i64 splits) {
    const T* dy = static_cast<const T*>(args.x) + first;
    const T* y = static_cast<const T*>(args.y) + first;
    T* dx = static_cast<T*>(args.out) + first;
    T sum = 0;
    for (i64 i = split; i < args.axis; i += splits) {
      sum += args.log ? dy[i * args.inner] : chain(dy[i * args.inner], y[i * args.inner]);
    }
    sum = join_lanes<SumOf>(sum, args.lanes);
    for (i64 i = split; i < args.axis; i += splits) {
      dx[i * args.inner] = gradient(args.log != 0, dy[i * args.inner], y[i * args.inner], sum);
    }
  });
}

}  // namespace

#define SOFTMAX(direction, prefix, T, suffix)                   \
  TRAINRT_KERNEL(prefix##_warp2_##suffix, SoftmaxArguments) {   \
    direction##_rows<Warp, 2, T>(args);                         \
  }                                                             \
  TRAINRT_KERNEL(prefix##_warp8_##suffix, SoftmaxArguments) {   \
    direction##_rows<Warp, 8, T>(args);                         \
  }                                                             \
  TRAINRT_KERNEL(prefix##_warp32_##suffix, SoftmaxArguments) {  \
    direction##_rows<Warp, 32, T>(args);                        \
  }                                                             \
  TRAINRT_KERNEL(prefix##_block16_##suffix, SoftmaxArguments) { \
    direction##_rows<Block, 16, T>(args);                       \
  }                                                             \
  TRAINRT_KERNEL(prefix##_columns_##suffix, SoftmaxArguments) { direction##_columns<T>(args); }

SOFTMAX(forward, softmax, float, f32)
SOFTMAX(forward, softmax, double, f64)
SOFTMAX(backward, softmax_grad, float, f32)
SOFTMAX(backward, softmax_grad, double, f64)

}  // namespace trainrt::cuda
