#ifndef TRAINRT_KERNELS_CUDA_DEVICE_LAYER_NORM_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_LAYER_NORM_H_

namespace trainrt::cuda {

/// Rows of `width` contiguous elements. Fields ending in _half: whether float values are kept as
/// bfloat16. RmsNorm has no means.
struct LayerNormArguments {
  const void *x, *scale, *bias;  // scale and bias may be null
  void *y, *mean, *inverse;
  long long rows, width;
  double epsilon;
  int x_half, y_half;
};

struct LayerNormGradArguments {
  const void *dy, *x, *mean, *inverse, *scale;  // scale may be null
  void* dx;
  long long rows, width;
  int dy_half, x_half, dx_half;
};

/// Sums over rows in `parts` (blockIdx.y): of column c and part p at c * parts + p.
struct LayerNormSumsArguments {
  const void *dy, *x, *mean, *inverse;
  void *dscale, *dbias;  // dbias may be null
  long long rows, width;
  int dy_half, x_half;
  unsigned lanes;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_LAYER_NORM_H_
