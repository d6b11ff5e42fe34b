// What device code stands on. The kernels here and the generated ones keep to what this header
// offers, so that nvcc, NVRTC and (with tests/cuda/emulator/cuda.h before it) any C++ compiler takes
// them: blocks of up to 256 threads, static __shared__ arrays, __syncthreads, full-warp shuffles,
// 32-bit integer atomics. Sums have a fixed order: no atomics on floats.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_DEVICE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_DEVICE_H_

#ifndef TRAINRT_KERNEL  // of an emulation
/// A kernel `name(Arguments args)`.
#define TRAINRT_KERNEL(name, Arguments) \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Arguments args)
#endif

/// Before a loop whose arrays are to stay in registers.
#ifdef TRAINRT_EMULATED_CUDA
#define TRAINRT_UNROLL
#else
#define TRAINRT_UNROLL _Pragma("unroll")
#endif

namespace trainrt::cuda {

using i64 = long long;
using u64 = unsigned long long;
using u32 = unsigned int;

static_assert(sizeof(i64) == 8 && sizeof(u32) == 4);

/// How bfloat16 lies in memory; arithmetic is in float.
struct bf16 {
  unsigned short bits;
};

__device__ inline float bits_to_float(u32 bits) {
#ifdef TRAINRT_EMULATED_CUDA
  return __builtin_bit_cast(float, bits);
#else
  return __uint_as_float(bits);
#endif
}
__device__ inline u32 float_to_bits(float x) {
#ifdef TRAINRT_EMULATED_CUDA
  return __builtin_bit_cast(u32, x);
#else
  return __float_as_uint(x);
#endif
}

__device__ inline float widen(bf16 x) { return bits_to_float(u32{x.bits} << 16); }
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }

/// To the nearest, ties to even; NaN stays NaN.
__device__ inline bf16 to_bf16(float x) {
  const u32 bits = float_to_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<unsigned short>((bits >> 16) | 0x40u)};
  }
  return {static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <typename T>
struct Stored {
  __device__ static T from(T x) { return x; }
};
template <>
struct Stored<bf16> {
  __device__ static bf16 from(float x) { return to_bf16(x); }
};

/// Number of this thread among all of a one-dimensional grid.
__device__ inline i64 global_index() {
  return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline i64 global_size() { return static_cast<i64>(gridDim.x) * blockDim.x; }

struct SumOf {
  template <typename T>
  __device__ static T join(T a, T b) {
    return a + b;
  }
};
struct MaxOf {  // NaN wins
  template <typename T>
  __device__ static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct MinOf {
  template <typename T>
  __device__ static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

/// Joins a value of every thread of the block, in a fixed order; all threads get the result. Every
/// thread must call it; blockDim.x is a multiple of 32, y and z are 1.
template <typename Join, typename T>
__device__ T block_join(T value, T identity) {
  __shared__ T warps[8];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // results of a call before this one have been read
  if (lane == 0) warps[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? warps[lane] : identity;
  for (int distance = 4; distance > 0; distance /= 2) {
    value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return __shfl_sync(0xffffffffu, value, 0);
}

/// Notes that the contents of this node's operands are not what it can compute with, such as an
/// index out of range; the executor throws for the first such node.
__device__ inline void report(int* status, int step) { atomicCAS(status, 0, step + 1); }

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_DEVICE_H_
