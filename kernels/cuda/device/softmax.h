#ifndef TRAINRT_KERNELS_CUDA_DEVICE_SOFTMAX_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_SOFTMAX_H_

namespace trainrt::cuda {

/// Rows of [outer, axis, inner] along the middle, one for each block.
struct SoftmaxArguments {
  const void* x;   // gradients: dy
  const void* y;   // gradients only
  void* out;
  long long rows, axis, inner;  // rows = outer * inner
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_SOFTMAX_H_
