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
  /// Floats of a thread's buffer: as many padded rows as a filter has, and one of zeros.
  int64_t buffer() const {
    const int64_t row = std::max(pad_left + width, out_width * stride) + 2 * kernel;
    return (kernel + 1) * row * kBlockChannels;
  }
};

/// Weights and their gradients are [tap][16]. `norm`, unless null: x is the operand of a
/// BatchNorm, whose result is what is convolved.
struct DepthwiseOps {
  /// `stream`: y passes by the cache.
  void (*forward)(const DepthwiseShape& s, const float* x, const BlockNorm* norm, const float* w,
                  bool stream, float* buffer, float* y);
  /// dx; with `norm` what its activation lets pass of it, which is added to `sums` too.
  void (*data_grad)(const DepthwiseShape& s, const float* dy, const float* w, const BlockNorm* norm,
                    const float* x, bool stream, float* buffer, float* dx, BlockSums* sums);
  void (*weight_grad)(const DepthwiseShape& s, const float* x, const BlockNorm* norm,
                      const float* dy, float* buffer, float* dw);
};

/// For the best target of this processor.
const DepthwiseOps& depthwise_ops();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_DEPTHWISE_H_
