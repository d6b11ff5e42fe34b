#ifndef TRAINRT_KERNELS_CUDA_DEVICE_SOURCE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_SOURCE_H_

namespace trainrt::cuda {

/// Bytes that repeat every 8: an element of any type, as often as it fits.
struct FillArguments {
  void* y;  // 16-byte aligned
  long long bytes;
  unsigned long long pattern;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_SOURCE_H_
