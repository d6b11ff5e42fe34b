#ifndef TRAINRT_KERNELS_CUDA_DEVICE_INTERPOLATE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_INTERPOLATE_H_

namespace trainrt::cuda {

/// Cell i of the result along the axis is the sum of terms [start[i], start[i + 1]).
struct InterpolateArguments {
  const void* x;
  void* out;
  const long long* start;
  const long long* index;
  const double* weight;
  long long outer, from, to, inner;
  int half_x, half_out;  // kept as bfloat16
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_INTERPOLATE_H_
