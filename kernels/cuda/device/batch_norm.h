#ifndef TRAINRT_KERNELS_CUDA_DEVICE_BATCH_NORM_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_BATCH_NORM_H_

namespace trainrt::cuda {

/// [batch, channels, spatial]; fields ending in _half: whether float values are kept as bfloat16.
struct BatchNormShape {
  long long batch, channels, spatial;
  double epsilon;
  double lo, hi;   // of the clip
  int activation;  // graph/attrs.h: 0 none, 1 ReLU, 2 clip
};

/// First stage of mean and variance, or of the gradient's two sums: parts of a channel's elements
/// (blockIdx.y) for `lanes` channels each. Of channel c and part p at c * parts + p.
struct BatchNormSumsArguments {
  BatchNormShape shape;
  const void* x;
  // The gradient's only: `result` for the mask (its residual's form), otherwise `bias` or neither.
  const void *dy, *scale, *mean, *variance, *bias, *result;
  void *out0,
      *out1;  // mean and sum of squared deviations (or variance, of one part); dscale, dbias
  int x_half, dy_half, result_half;
  unsigned lanes;
};

/// Second stage of mean and variance.
struct BatchNormJoinArguments {
  const void *means, *squares;
  void *mean, *variance;
  long long channels, elements;
  int parts;
};

/// Planes of `spatial` elements in pieces, each by `lanes` threads.
struct BatchNormArguments {
  BatchNormShape shape;
  const void *x, *scale, *bias, *mean, *variance, *residual;  // residual may be null
  void* y;
  int x_half, residual_half, y_half;
  unsigned lanes;
  int pieces;
};

struct BatchNormGradArguments {
  BatchNormShape shape;
  const void *dy, *x, *scale, *mean, *variance, *bias, *result, *dscale, *dbias;
  void *dx, *dresidual;  // dresidual may be null
  int dy_half, x_half, result_half, dx_half, dresidual_half;
  unsigned lanes;
  int pieces;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_BATCH_NORM_H_
