// What the rows share that run depthwise convolutions, alone or with the BatchNorm before them.
#ifndef TRAINRT_KERNELS_CPU_CONV_DEPTHWISE_H_
#define TRAINRT_KERNELS_CPU_CONV_DEPTHWISE_H_

#include <cstdint>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {

/// Whether DepthwiseOps take the convolution from x to y.
Support takes_depthwise(const TensorType& x, const TensorType& w, const TensorType& y,
                        const ConvAttrs& attrs);

/// Planes of a depthwise convolution, shared out over threads that have a buffer each.
class DepthwisePlan {
 public:
  DepthwisePlan(const TensorType& x, const TensorType& w, const TensorType& y,
                const ConvAttrs& attrs, Scratch& scratch);

  const DepthwiseShape& shape() const { return shape_; }
  int64_t x_at(int64_t image, int64_t block) const {
    return (image * blocks_ + block) * shape_.in();
  }
  int64_t y_at(int64_t image, int64_t block) const {
    return (image * blocks_ + block) * shape_.out();
  }

  /// Copies the weights to where weights() finds them.
  void load_weights(const KernelArgs& args, const FloatInput& w) const;
  const float* weights(const KernelArgs& args, int64_t block) const {
    return scratch_at<float>(args, weights_) + block * filter();
  }

  /// Gradients of the weights are made plane by plane and summed for each block.
  float* weight_part(const KernelArgs& args, int64_t image, int64_t block) const {
    return scratch_at<float>(args, parts_) + (block * batch_ + image) * filter();
  }
  void sum_weight_parts(const KernelArgs& args, int64_t block, float* dw) const;

  /// share(items, f) calls f(begin, end, thread's buffer) for ranges of items.
  auto sharing(const KernelArgs& args) const {
    return [this, &args](int64_t items, const auto& f) {
      float* buffers = scratch_at<float>(args, buffers_);
      parallel_ranges(threads_, 1, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
          f(items * t / threads_, items * (t + 1) / threads_, buffers + t * shape_.buffer());
        }
      });
    };
  }
  /// f(block, image, buffer)
  template <typename F>
  void for_each_plane(const KernelArgs& args, const F& f) const {
    sharing(args)(batch_ * blocks_, [&](int64_t begin, int64_t end, float* buffer) {
      for (int64_t i = begin; i < end; ++i) f(i % blocks_, i / blocks_, buffer);
    });
  }
  template <typename F>
  void for_each_block(const KernelArgs& args, const F& f) const {
    sharing(args)(blocks_, [&](int64_t begin, int64_t end, float*) {
      for (int64_t block = begin; block < end; ++block) f(block);
    });
  }

 private:
  int64_t filter() const { return shape_.taps() * kBlockChannels; }

  DepthwiseShape shape_;
  int64_t batch_, channels_, blocks_, threads_;
  size_t buffers_, weights_, parts_;
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_CONV_DEPTHWISE_H_
