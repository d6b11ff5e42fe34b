// Sorting and scanning within a block.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_SORT_INL_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_SORT_INL_H_

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/sort.h"

namespace trainrt::cuda {

/// Bitonic sort in shared memory: each run of `width` of the `slots`, both powers of two, by key,
/// then by order. Every thread of the block must call it; barriers before and after are included.
template <typename Key>
__device__ void sort_slots(Key* keys, u32* order, u32 slots, u32 width) {
  for (u32 size = 2; size <= width; size *= 2) {
    for (u32 stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (u32 pair = threadIdx.x; pair < slots / 2; pair += blockDim.x) {
        const u32 i = ((pair & ~(stride - 1)) << 1) | (pair & (stride - 1)), j = i + stride;
        const bool ascending = size == width || (i & size) == 0;
        const Key a = keys[i], b = keys[j];
        const u32 p = order[i], q = order[j];
        const bool swapped = b < a || (b == a && q < p);
        if (swapped == ascending) {
          keys[i] = b;
          keys[j] = a;
          order[i] = q;
          order[j] = p;
        }
      }
    }
  }
  __syncthreads();
}

/// Sum or other join of the values of this lane and those before it.
template <typename Join, typename T>
__device__ T warp_scan(T value) {
  const u32 lane = threadIdx.x % 32;
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const T before = __shfl_sync(0xffffffffu, value, (lane - distance) % 32);
    if (lane >= distance) value = Join::join(before, value);
  }
  return value;
}

/// The same over the block; `all` becomes the join of all threads' values. Every thread must call
/// it; blockDim.x is a multiple of 32.
template <typename Join, typename T>
__device__ T block_scan(T value, T& all) {
  __shared__ T warps[8];
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, count = blockDim.x / 32;
  value = warp_scan<Join>(value);
  __syncthreads();  // results of a call before this one have been read
  if (lane == 31) warps[warp] = value;
  __syncthreads();
  T before = warps[0];
  all = warps[0];
  for (u32 w = 1; w < count; ++w) {
    if (w < warp) before = Join::join(before, warps[w]);
    all = Join::join(all, warps[w]);
  }
  return warp == 0 ? value : Join::join(before, value);
}

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_SORT_INL_H_
