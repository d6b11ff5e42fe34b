#ifndef TRAINRT_KERNELS_CUDA_DEVICE_ROI_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_ROI_H_

namespace trainrt::cuda {

enum class RoiKind : int { kAverage, kMax, kCellMax };

struct RoiArguments {
  const void* dy;  // gradients only
  const void* x;   // [batch, channels, rows, columns]
  const void* rois;
  const void* images;
  void* out;
  int* status;
  int step;
  int wide_images;  // int64, otherwise int32
  RoiKind kind;
  int half_pixel;
  double scale;
  long long batch, channels, rows, columns, count, height, width, sampling_ratio;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_ROI_H_
