#ifndef TRAINRT_KERNELS_CUDA_DEVICE_POOL_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_POOL_H_

namespace trainrt::cuda {

/// Windows over planes of up to three spatial dims, fewer are preceded by dims of size 1. Output o
/// and tap t meet input cell o * stride + t * dilation - pad.
struct PoolArguments {
  const void* x;
  const void* dy;
  void* out;
  int* maxima;  // of each output: the cell, or -1
  long long planes;
  int in[3], outs[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
  int half_x, half_dy, half_out;  // kept as bfloat16
  int count_pads, column_major;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_POOL_H_
