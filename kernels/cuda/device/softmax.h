#ifndef TRAINRT_KERNELS_CUDA_DEVICE_SOFTMAX_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_SOFTMAX_H_

namespace trainrt::cuda {

/// Rows of [outer, axis, inner] along the middle; rows = outer * inner.
struct SoftmaxArguments {
  const void* x;  // gradients: dy
  const void* y;  // gradients only
  void* out;
  long long rows, axis, inner;
  unsigned lanes;  // of the kernels on columns: neighbours that a block takes side by side
  int log;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_SOFTMAX_H_
