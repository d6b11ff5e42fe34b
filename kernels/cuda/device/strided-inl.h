// Device code for strided.h. `kFar`: numbers of elements may be 2^31 and more.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_STRIDED_INL_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_STRIDED_INL_H_

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/strided.h"

namespace trainrt::cuda {

template <bool kFar>
struct IndexOf {
  using type = u32;
};
template <>
struct IndexOf<true> {
  using type = i64;
};
template <bool kFar>
using Index = typename IndexOf<kFar>::type;

/// n / size, leaving the remainder in n.
__device__ inline u32 divide(u32& n, const Divisor& by, i64) {
  const u32 quotient = (__umulhi(n, by.multiplier) + n) >> by.shift;
  n -= quotient * by.divisor;
  return quotient;
}
__device__ inline i64 divide(i64& n, const Divisor&, i64 size) {
  const i64 quotient = n / size;
  n -= quotient * size;
  return quotient;
}

/// Adds to `at` the offsets of element `index` of the walk.
template <bool kFar, int kOperands>
__device__ void walk_to(const Walk<kOperands>& walk, i64 index, i64 (&at)[kOperands]) {
  Index<kFar> rest = static_cast<Index<kFar>>(index);
  for (int d = walk.rank - 1; d > 0; --d) {
    Index<kFar> position = rest;
    rest = divide(position, walk.divisors[d], walk.sizes[d]);
    for (int k = 0; k < kOperands; ++k) {
      at[k] += static_cast<i64>(position) * walk.strides[k][d];
    }
  }
  if (walk.rank > 0) {
    for (int k = 0; k < kOperands; ++k) at[k] += static_cast<i64>(rest) * walk.strides[k][0];
  }
}

template <bool kFar>
__device__ i64 walk_to(const Walk<1>& walk, i64 index) {
  i64 at[1] = {0};
  walk_to<kFar>(walk, index, at);
  return at[0];
}

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_STRIDED_INL_H_
