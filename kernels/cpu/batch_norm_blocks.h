// What BatchNorm on blocks of 16 channels consists of, alone or before a depthwise convolution.
#ifndef TRAINRT_KERNELS_CPU_BATCH_NORM_BLOCKS_H_
#define TRAINRT_KERNELS_CPU_BATCH_NORM_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/block_ops.h"
#include "kernels/cpu/threads.h"

namespace trainrt {

struct BlockedShape {
  int64_t batch, channels, blocks, pixels;

  explicit BlockedShape(const Shape& x)
      : batch(x[0]), channels(x[1]), blocks((x[1] + 15) / 16), pixels(x[2] * x[3]) {}
  double count() const { return static_cast<double>(batch * pixels); }
  int64_t offset(int64_t image, int64_t block) const {
    return (image * blocks + block) * pixels * kBlockChannels;
  }
  /// Channels of a block that are no padding.
  int64_t real(int64_t block) const {
    return std::min(kBlockChannels, channels - block * kBlockChannels);
  }
};

/// From the moments of a block's images; writes the block's means and variances.
BlockNorm norm_from_moments(const BlockedShape& s, const NormAttrs& attrs, int64_t block,
                            const BlockMoments* images, const float* scale, const float* bias,
                            float* means, float* variances);
/// From given means and variances; bias may be null.
BlockNorm norm_from_statistics(const BlockedShape& s, const NormAttrs& attrs, int64_t block,
                               const float* scale, const float* bias, const float* means,
                               const float* variances);
/// From the sums of a block's images; writes the block's dscale and dbias.
BlockNormGrad grad_from_sums(const BlockedShape& s, const NormAttrs& attrs, int64_t block,
                             const BlockSums* images, const float* scale, const float* variances,
                             float* dscale, float* dbias);

/// first(block, image, own) for all images of a block, then between(block), then
/// second(block, image, own), while the cache still holds the block. Blocks that do not go evenly
/// among the threads are shared out image by image. share(items, f) calls f(begin, end, own) for
/// ranges of items on several threads.
template <typename Share, typename First, typename Between, typename Second>
void two_passes(const BlockedShape& s, const Share& share, const First& first,
                const Between& between, const Second& second) {
  const int64_t whole = s.batch == 1 ? s.blocks : s.blocks / cpu_threads() * cpu_threads();
  if (whole > 0) {
    share(whole, [&](int64_t begin, int64_t end, float* own) {
      for (int64_t block = begin; block < end; ++block) {
        for (int64_t n = 0; n < s.batch; ++n) first(block, n, own);
        between(block);
        // Backwards: of a large block the cache holds the last images.
        for (int64_t n = s.batch; n-- > 0;) second(block, n, own);
      }
    });
  }
  if (whole == s.blocks) return;
  const auto images = [&](const auto& f) {
    share((s.blocks - whole) * s.batch, [&](int64_t begin, int64_t end, float* own) {
      for (int64_t i = begin; i < end; ++i) f(whole + i / s.batch, i % s.batch, own);
    });
  };
  images(first);
  for (int64_t block = whole; block < s.blocks; ++block) between(block);
  images(second);
}

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_BATCH_NORM_BLOCKS_H_
