#ifndef TRAINRT_KERNELS_CUDA_DEVICE_RANDOM_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_RANDOM_H_

namespace trainrt::cuda {

/// Elements of a Philox stream (kernels/philox.h).
struct RandomArguments {
  const void* x;         // of Dropout
  const long long* rng;  // seed, step
  void* out;
  long long size;
  unsigned stream;
  int half_x, half_out;  // kept as bfloat16
  double a, b;           // Dropout: the ratio and what the rest is multiplied by
  double below;          // of uniform numbers: the largest below b
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_RANDOM_H_
