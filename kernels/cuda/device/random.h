#ifndef TRAINRT_KERNELS_CUDA_DEVICE_RANDOM_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_RANDOM_H_

namespace trainrt::cuda {

/// `key` is {seed, step} on the device.
struct DropoutArguments {
  const void *x, *key;
  void* y;
  long long size;
  double scale;
  unsigned threshold, stream;  // words stay whose upper 24 bits are at least the threshold
  int x_half, y_half;
};

/// Uniform: a + b u, below `high`, which becomes `below`. Normal: a + b z.
struct RandomArguments {
  const void* key;
  void* y;
  long long size;
  double a, b, high, below;
  unsigned stream;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_RANDOM_H_
