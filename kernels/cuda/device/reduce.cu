#include "kernels/cuda/device/numbers-inl.h"
#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/device/strided-inl.h"

namespace trainrt::cuda {
namespace {

// Reductions of elements T. join() must be given earlier threads' values first only as far as bits
// of equal values (0 and -0, several NaN) matter.

template <typename T>
struct Sum {
  using Acc = Wide<T>;
  using Out = Value<T>;
  __device__ static Acc start() { return Acc(0); }
  __device__ static Acc lift(T x, i64) { return static_cast<Acc>(value_of(x)); }
  __device__ static Acc join(Acc a, Acc b, bool) { return a + b; }
  __device__ static Acc exchange(Acc a, int distance) {
    return __shfl_xor_sync(0xffffffffu, a, distance);
  }
  __device__ static Out finish(Acc a, i64) { return static_cast<Out>(a); }
};

template <typename T>
struct Mean : Sum<T> {
  using typename Sum<T>::Acc;
  using typename Sum<T>::Out;
  __device__ static Out finish(Acc a, i64 count) {
    if constexpr (NumberOf<T>::kFloat) {
      return static_cast<Out>(a / static_cast<double>(count));
    } else if constexpr (NumberOf<T>::kNegative) {
      return count == 0 ? Out(0) : static_cast<Out>(static_cast<i64>(a) / count);
    } else {
      return count == 0 ? Out(0) : static_cast<Out>(a / static_cast<u64>(count));
    }
  }
};

template <typename T>
struct Prod : Sum<T> {
  using typename Sum<T>::Acc;
  __device__ static Acc start() { return Acc(1); }
  __device__ static Acc join(Acc a, Acc b, bool) { return a * b; }
};

template <typename T, bool kLargest>
struct Extreme {
  using Acc = Value<T>;
  using Out = Value<T>;
  __device__ static Acc start() {
    return kLargest ? NumberOf<T>::lowest() : NumberOf<T>::largest();
  }
  __device__ static Acc lift(T x, i64) { return value_of(x); }
  __device__ static Acc join(Acc a, Acc b, bool) {
    return kLargest ? MaxOf::join(a, b) : MinOf::join(a, b);
  }
  __device__ static Acc exchange(Acc a, int distance) {
    return static_cast<Acc>(__shfl_xor_sync(0xffffffffu, a, distance));
  }
  __device__ static Out finish(Acc a, i64) { return a; }
};
template <typename T>
using Largest = Extreme<T, true>;
template <typename T>
using Smallest = Extreme<T, false>;

template <typename T>
struct Candidate {
  T value;
  i64 index;  // -1: none
};

template <typename T, bool kLargest>
struct ArgExtreme {
  using Acc = Candidate<T>;
  using Out = i64;
  __device__ static Acc start() { return {T(0), -1}; }
  __device__ static Acc lift(T x, i64 index) { return {x, index}; }
  __device__ static bool better(T a, T b) {
    if (a != a || b != b) return a != a && b == b;
    return kLargest ? a > b : a < b;
  }
  __device__ static Acc join(Acc a, Acc b, bool last) {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (better(a.value, b.value)) return a;
    if (better(b.value, a.value)) return b;
    return (a.index < b.index) != last ? a : b;
  }
  __device__ static Acc exchange(Acc a, int distance) {
    return {static_cast<T>(__shfl_xor_sync(0xffffffffu, a.value, distance)),
            __shfl_xor_sync(0xffffffffu, a.index, distance)};
  }
  __device__ static Out finish(Acc a, i64) { return a.index; }
};
template <typename T>
using ArgLargest = ArgExtreme<T, true>;
template <typename T>
using ArgSmallest = ArgExtreme<T, false>;

/// Joins the values of `lanes` neighbouring threads of the block, a power of two.
template <typename R>
__device__ typename R::Acc join_along(typename R::Acc value, int lanes, bool last) {
  __shared__ typename R::Acc warps[8];
  for (int distance = 1; distance < 32 && distance < lanes; distance *= 2) {
    const typename R::Acc other = R::exchange(value, distance);
    const bool upper = (threadIdx.x & static_cast<u32>(distance)) != 0;
    value = upper ? R::join(other, value, last) : R::join(value, other, last);
  }
  if (lanes <= 32) return value;
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  const int first = static_cast<int>(threadIdx.x) / lanes * (lanes / 32);
  value = warps[first];
  for (int w = 1; w < lanes / 32; ++w) value = R::join(value, warps[first + w], last);
  return value;
}

/// Joins the values of `lanes` threads that are `apart` from each other; the first has the result.
template <typename R>
__device__ typename R::Acc join_across(typename R::Acc value, int lanes, int apart, bool last) {
  __shared__ typename R::Acc values[256];
  if (lanes == 1) return value;
  __syncthreads();
  values[threadIdx.x] = value;
  const int lane = static_cast<int>(threadIdx.x) / apart;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      values[threadIdx.x] = R::join(values[threadIdx.x], values[threadIdx.x + half * apart], last);
    }
  }
  return values[threadIdx.x];
}

template <typename T, template <typename> class Reduction, bool kFar>
__device__ void reduce(const ReduceArguments& args) {
  using R = Reduction<T>;
  using Acc = typename R::Acc;
  const T* in = static_cast<const T*>(args.in);
  const int width = static_cast<int>(blockDim.x) / args.lanes;  // results of a block
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = args.along ? thread % args.lanes : thread / width;
  const int own = args.along ? thread / args.lanes : thread % width;
  const i64 tiles = (args.results + width - 1) / width;
  const bool dense = args.reduced.rank <= 1;
  const i64 stride = args.reduced.rank == 1 ? args.reduced.strides[0][0] : 0;
  for (i64 task = blockIdx.x; task < tiles * args.parts; task += gridDim.x) {
    const i64 part = task / tiles, result = task % tiles * width + own;
    Acc value = R::start();
    if (result < args.results) {
      const T* x = in + walk_to<kFar>(args.kept, result);
      const i64 begin = part * args.part, end = min(begin + args.part, args.count);
      if (dense) {
#pragma unroll 4
        for (i64 i = begin + lane; i < end; i += args.lanes) {
          value = R::join(value, R::lift(x[i * stride], i), args.last);
        }
      } else {
#pragma unroll 4
        for (i64 i = begin + lane; i < end; i += args.lanes) {
          value = R::join(value, R::lift(x[walk_to<kFar>(args.reduced, i)], i), args.last);
        }
      }
    }
    value = args.along ? join_along<R>(value, args.lanes, args.last)
                       : join_across<R>(value, args.lanes, width, args.last);
    if (lane != 0 || result >= args.results) continue;
    if (args.parts > 1) {
      static_cast<Acc*>(args.partials)[part * args.results + result] = value;
    } else {
      static_cast<typename R::Out*>(args.out)[result] = R::finish(value, args.count);
    }
  }
}

/// A warp for each result.
template <typename T, template <typename> class Reduction>
__device__ void finish(const ReduceArguments& args) {
  using R = Reduction<T>;
  using Acc = typename R::Acc;
  const Acc* partials = static_cast<const Acc*>(args.partials);
  const i64 lane = threadIdx.x % 32, warps = global_size() / 32;
  for (i64 result = global_index() / 32; result < args.results; result += warps) {
    Acc value = R::start();
    for (i64 p = lane; p < args.parts; p += 32) {
      value = R::join(value, partials[p * args.results + result], args.last);
    }
    value = join_along<R>(value, 32, args.last);
    if (lane == 0) {
      static_cast<typename R::Out*>(args.out)[result] = R::finish(value, args.count);
    }
  }
}

}  // namespace

// Floats count in 32 bits where they can, integers always in 64: they are rare.
#define NEAR(T, suffix, name, R) \
  TRAINRT_KERNEL(name##_##suffix, ReduceArguments) { reduce<T, R, false>(args); }
#define FAR(T, suffix, name, R)                                                      \
  TRAINRT_KERNEL(name##_far_##suffix, ReduceArguments) { reduce<T, R, true>(args); } \
  TRAINRT_KERNEL(name##_finish_##suffix, ReduceArguments) { finish<T, R>(args); }

#define REDUCTIONS(M, T, suffix)    \
  M(T, suffix, reduce_sum, Sum)     \
  M(T, suffix, reduce_mean, Mean)   \
  M(T, suffix, reduce_prod, Prod)   \
  M(T, suffix, reduce_max, Largest) \
  M(T, suffix, reduce_min, Smallest)
#define SEARCHES(M, T, suffix)      \
  M(T, suffix, arg_max, ArgLargest) \
  M(T, suffix, arg_min, ArgSmallest)

#define ALL_FAR(T, suffix)   \
  REDUCTIONS(FAR, T, suffix) \
  SEARCHES(FAR, T, suffix)

TRAINRT_FOR_NUMBERS(ALL_FAR)
REDUCTIONS(NEAR, float, f32)
REDUCTIONS(NEAR, double, f64)
SEARCHES(NEAR, float, f32)
SEARCHES(NEAR, double, f64)
REDUCTIONS(NEAR, bf16, bf16)
REDUCTIONS(FAR, bf16, bf16)

}  // namespace trainrt::cuda
