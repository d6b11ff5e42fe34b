#ifndef TRAINRT_KERNELS_CUDA_DEVICE_STATE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_STATE_H_

namespace trainrt::cuda {

struct AddArguments {
  const void* state;
  const void* increment;
  void* out;
  long long size;
};

enum class UpdateRule : int { kSgd, kMomentum, kNesterov, kAdam, kAdamW };

struct UpdateArguments {
  const void* parameter;
  const void* gradient;
  const double* hyper;  // learning rate, number of this update from 1
  const void* scale;    // of the gradient: one number
  const void* slots[2];
  void* parameter_out;
  void* slots_out[2];
  long long size;
  UpdateRule rule;
  double weight_decay, momentum, dampening, beta1, beta2, epsilon;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_STATE_H_
