// Depthwise convolutions, and their gradients, on a plane: one image's block of 16 channels.
#ifndef TRAINRT_KERNELS_CPU_DEPTHWISE_H_
#define TRAINRT_KERNELS_CPU_DEPTHWISE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/block_ops.h"

namespace trainrt {

/// Filters are square, 3x3 or 5x5, strides 1 or 2, pads smaller than the filter.
struct DepthwiseShape {
  int64_t height, width, out_height, out_width;  // of x and y
  int64_t kernel, stride, pad_top, pad_left;

  int64_t taps() const { return kernel * kernel; }
  int64_t in() const { return height * width * kBlockChannels; }
  int64_t out() const { return out_height * out_width * kBlockChannels; }
  /// Floats of a thread's buffer: a row of x, as many padded rows as a filter has, and one of
  /// zeros.
  int64_t buffer() const {
    const int64_t row = std::max(pad_left + width, out_width * stride) + 2 * kernel;
    return (width + (kernel + 1) * row) * kBlockChannels;
  }
};

/// Weights and their gradients are [tap][16]. `norm`: x is the operand of a BatchNorm, whose result
/// is what is convolved; null where there is none. `stream`: the result passes by the cache.
/// Activations are float32, or bfloat16 (T = uint16_t) that is computed on as float32.
template <typename T>
struct DepthwiseOps {
  void (*forward)(const DepthwiseShape& s, const T* x, const BlockNorm* norm, const float* w,
                  bool stream, float* buffer, T* y);
  void (*data_grad)(const DepthwiseShape& s, const T* dy, const float* w, bool stream,
                    float* buffer, T* dx);
  void (*weight_grad)(const DepthwiseShape& s, const T* x, const BlockNorm* norm, const T* dy,
                      float* buffer, float* dw);

  // With g = what norm's activation lets pass of the gradient to its result:
  /// Adds the sums of g and g (x - mean); g is stored unless that is null.
  void (*norm_grad_sums)(const DepthwiseShape& s, const T* dy, const float* w,
                         const BlockNorm& norm, const T* x, float* buffer, T* g, BlockSums& sums);
  /// The gradient to x, which passes by the cache.
  void (*norm_grad)(const DepthwiseShape& s, const T* dy, const float* w, const BlockNorm& norm,
                    const BlockNormGrad& k, const T* x, float* buffer, T* dx);
};

/// For the best target of this processor.
template <typename T>
const DepthwiseOps<T>& depthwise_ops();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_DEPTHWISE_H_
