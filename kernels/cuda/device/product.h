#ifndef TRAINRT_KERNELS_CUDA_DEVICE_PRODUCT_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_PRODUCT_H_

namespace trainrt::cuda {

/// out[i] = the sum over all parts of sums[part * size + i], plus bias[i / inner % columns].
struct JoinArguments {
  const void* sums;  // may be `out` where there is one part
  const void* bias;  // or null
  void* out;
  long long size, inner, columns;
  int parts;  // 0: there is nothing to sum
  bool relu;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_PRODUCT_H_
