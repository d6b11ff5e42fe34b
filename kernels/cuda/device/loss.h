#ifndef TRAINRT_KERNELS_CUDA_DEVICE_LOSS_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_LOSS_H_

namespace trainrt::cuda {

/// Positions of [outer, classes, inner] logits, one for each class id.
struct LossArguments {
  const void* dloss;   // gradients only
  const void* logits;  // not of the gradient of NllLoss
  const void* ids;
  void* out;
  int* status;
  int step;
  int id_bytes;  // 1, 2, 4, 8
  int id_signed;
  long long positions, classes, inner, ignore;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_LOSS_H_
