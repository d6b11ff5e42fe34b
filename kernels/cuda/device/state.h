#ifndef TRAINRT_KERNELS_CUDA_DEVICE_STATE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_STATE_H_

namespace trainrt::cuda {

/// Outputs may lie on operands.
struct AssignAddArguments {
  const void *state, *increment;
  void* out;
  long long size;
};

/// `hyper` is {learning rate, step} and `scale` the gradient's factor, both on the device.
struct UpdateArguments {
  const void *w, *g, *hyper, *scale, *slot0, *slot1;
  void *w_out, *slot0_out, *slot1_out;
  long long size;
  double weight_decay, momentum, dampening, beta1, beta2, epsilon;
  int kind;  // graph/attrs.h: 0 sgd, 1 momentum, 2 nesterov, 3 adam, 4 adamw
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_STATE_H_
