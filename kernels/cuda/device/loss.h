#ifndef TRAINRT_KERNELS_CUDA_DEVICE_LOSS_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_LOSS_H_

namespace trainrt::cuda {

/// Positions of [outer, classes, inner] with a class id each, int64 or (wide = 0) int32.
struct LossArguments {
  const void *dloss, *x, *ids;  // dloss: of gradients
  void* out;
  int* status;
  int step, wide;
  long long positions, classes, inner, ignored;
  unsigned lanes;  // of the kernels on columns: neighbours that a block takes side by side
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_LOSS_H_
