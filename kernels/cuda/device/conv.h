#ifndef TRAINRT_KERNELS_CUDA_DEVICE_CONV_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_CONV_H_

namespace trainrt::cuda {

/// Output o and tap t meet input cell o * stride + t * dilation - pad. Fewer than three spatial
/// dims are preceded by dims of size 1. x [batch, group, in_channels, in], y [batch, group,
/// out_channels, out], w [group, out_channels, in_channels, kernel].
struct ConvArguments {
  const void *a, *b;  // forward: x, w; gradient of the data: dy, w; of the weights: x, dy
  const void* bias;   // or null
  void* result;
  long long batch, group, in_channels, out_channels;
  long long in_volume, out_volume, taps;
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  // The gradient of the weights sums over batch and output pixels, `part` of them at a time; with
  // several parts the result is their sums [part, w].
  long long part;
  int parts;
  bool relu;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_CONV_H_
