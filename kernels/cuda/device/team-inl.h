// Threads that work on one row or column together, and what they hold of it in registers.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_TEAM_INL_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_TEAM_INL_H_

#include "kernels/cuda/device/device.h"

#ifdef TRAINRT_EMULATED_CUDA
#define TRAINRT_UNROLL
#else
#define TRAINRT_UNROLL _Pragma("unroll")
#endif

namespace trainrt::cuda {

/// A team's threads are numbered by rank(), the teams of the grid by index(). join() joins a value
/// of every thread in a fixed order and must be called by all of them.
struct Warp {
  static constexpr int kSize = 32;
  __device__ static int rank() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static i64 index() { return global_index() / 32; }
  __device__ static i64 count() { return global_size() / 32; }
  template <typename Join, typename T>
  __device__ static T join(T value, T) {
    for (int distance = 16; distance > 0; distance /= 2) {
      value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
  }
};

struct Block {
  static constexpr int kSize = 256;
  __device__ static int rank() { return static_cast<int>(threadIdx.x); }
  __device__ static i64 index() { return blockIdx.x; }
  __device__ static i64 count() { return gridDim.x; }
  template <typename Join, typename T>
  __device__ static T join(T value, T identity) {
    return block_join<Join>(value, identity);
  }
};

/// Joins the values of the threads with the same number modulo `lanes`, a power of two; each gets
/// its lane's result. Every thread of a block of 256 must call it.
template <typename Join, typename T>
__device__ T join_lanes(T value, u32 lanes) {
  __shared__ T values[256];
  __syncthreads();  // results of a call before this one have been read
  values[threadIdx.x] = value;
  __syncthreads();
  for (u32 distance = 128; distance >= lanes; distance /= 2) {
    if (threadIdx.x < distance) {
      values[threadIdx.x] = Join::join(values[threadIdx.x], values[threadIdx.x + distance]);
    }
    __syncthreads();
  }
  return values[threadIdx.x % lanes];
}

/// Element i of T, or of bfloat16 where T is float and `half` is set.
template <typename T>
__device__ T load(const void* from, bool half, i64 i) {
  if constexpr (sizeof(T) == 4) {
    if (half) return widen(static_cast<const bf16*>(from)[i]);
  }
  return static_cast<const T*>(from)[i];
}

template <int N, typename S, typename T, typename I>
__device__ void load_stored(const S* from, I step, I limit, T (&v)[N]) {
  TRAINRT_UNROLL
  for (int k = 0; k < N; ++k) v[k] = k * step < limit ? widen(from[k * step]) : T(0);
}

/// v[k] = element offset + k * step, 0 from offset + limit on.
template <int N, typename T, typename I>
__device__ void load_items(const void* from, bool half, i64 offset, I step, I limit, T (&v)[N]) {
  if constexpr (sizeof(T) == 4) {
    if (half) return load_stored(static_cast<const bf16*>(from) + offset, step, limit, v);
  }
  load_stored(static_cast<const T*>(from) + offset, step, limit, v);
}

template <int N, typename S, typename T, typename I>
__device__ void store_as(S* to, I step, I limit, const T (&v)[N]) {
  TRAINRT_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k * step < limit) to[k * step] = Stored<S>::from(v[k]);
  }
}

template <int N, typename T, typename I>
__device__ void store_items(void* to, bool half, i64 offset, I step, I limit, const T (&v)[N]) {
  if constexpr (sizeof(T) == 4) {
    if (half) return store_as(static_cast<bf16*>(to) + offset, step, limit, v);
  }
  store_as(static_cast<T*>(to) + offset, step, limit, v);
}

__device__ inline float lowest_finite(float) { return -3.402823466e+38f; }
__device__ inline double lowest_finite(double) { return -1.7976931348623157e+308; }

/// Largest value and the sum of e^(value - largest), in one pass. Starting from a finite value
/// keeps masked scores (-inf) out of the sum; NaN, +inf and nothing but -inf give NaN in the end.
template <typename T>
struct Exponentials {
  T largest = lowest_finite(T(0));
  T sum = 0;

  __device__ void add(T x) {
    if (x > largest) {
      sum = sum * exp(largest - x) + (T(1) + (x - x));
      largest = x;
    } else {
      sum += exp(x - largest);
    }
  }
  /// The sum for another largest value.
  __device__ T sum_from(T other) const { return sum * exp(largest - other); }
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_TEAM_INL_H_
