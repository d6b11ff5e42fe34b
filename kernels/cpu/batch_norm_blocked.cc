// BatchNorm and its gradient on blocks of 16 channels. A block is normalised right after its
// statistics, while the cache still holds it; when there are fewer blocks than threads, all
// statistics come first and images are shared out.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/block_ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

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

bool blocked(const TensorType& t) { return t.layout == Layout::kNChw16c; }

Support takes_blocked(const NodeView& node) {
  Support s = all_float(node);
  if (!s.ok) return s;
  const Shape& shape = node.outputs[0].shape;
  for (const auto list : {node.inputs, node.outputs}) {
    for (const TensorType& t : list) {
      if (blocked(t) != (t.shape == shape)) return Support::no("takes activations in nChw16c");
    }
  }
  return node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

/// both(block) per block, or first(block, image), after all of which between(block), then
/// second(block, image).
template <typename First, typename Between, typename Second>
void two_passes(const BlockedShape& s, const First& first, const Between& between,
                const Second& second) {
  const auto all = [&](int64_t block, const auto& f) {
    for (int64_t n = 0; n < s.batch; ++n) f(block, n);
  };
  if (s.blocks >= cpu_threads() || s.batch == 1) {
    parallel_items(s.blocks, 2 * s.batch * s.pixels * kBlockChannels,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t block = begin; block < end; ++block) {
                       all(block, first);
                       between(block);
                       all(block, second);
                     }
                   });
    return;
  }
  const auto shared = [&](const auto& f) {
    parallel_items(s.blocks * s.batch, s.pixels * kBlockChannels, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i / s.batch, i % s.batch);
    });
  };
  shared(first);
  for (int64_t block = 0; block < s.blocks; ++block) between(block);
  shared(second);
}

/// Copies a block's part of a per-channel operand; what pads it becomes `pad`.
void copy_channels(const BlockedShape& s, int64_t block, const float* from, float pad, float* to) {
  const int64_t n = s.real(block);
  std::copy_n(from + block * kBlockChannels, n, to);
  std::fill(to + n, to + kBlockChannels, pad);
}

BlockNorm make_norm(const NormAttrs& attrs) {
  BlockNorm norm{};
  norm.activation = attrs.activation;
  norm.lo = static_cast<float>(attrs.lo);
  norm.hi = static_cast<float>(attrs.hi);
  return norm;
}

/// y = act((x - mean) / sqrt(var + epsilon) scale + bias + residual)
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch& scratch) {
  const BlockedShape s(node.inputs[0].shape);
  const NormAttrs attrs = node.attr<NormAttrs>();
  const bool residual = node.inputs.size() == 4;
  const size_t parts =
      book(scratch, sizeof(BlockMoments) * static_cast<size_t>(s.blocks * s.batch));
  const size_t norms = book(scratch, sizeof(BlockNorm) * static_cast<size_t>(s.blocks));
  return make_kernel([=](const KernelArgs& args) {
    const BlockOps& ops = block_ops();
    const float *x = args.input<float>(0), *scale = args.input<float>(1),
                *bias = args.input<float>(2), *r = residual ? args.input<float>(3) : nullptr;
    float *y = args.output<float>(0), *means = args.output<float>(1), *vars = args.output<float>(2);
    auto* moments = scratch_at<BlockMoments>(args, parts);
    auto* norm = scratch_at<BlockNorm>(args, norms);
    two_passes(
        s,
        [&](int64_t block, int64_t n) {
          BlockMoments& m = moments[block * s.batch + n] = {};
          ops.moments(x + s.offset(n, block), s.pixels, m);
        },
        [&](int64_t block) {
          BlockMoments total;
          for (int64_t n = 0; n < s.batch; ++n) {
            const BlockMoments& m = moments[block * s.batch + n];
            const double count = total.count + m.count;
            for (int64_t i = 0; i < kBlockChannels; ++i) {
              const double delta = m.mean[i] - total.mean[i];
              total.squares[i] += m.squares[i] + delta * delta * total.count * m.count / count;
              total.mean[i] += delta * m.count / count;
            }
            total.count = count;
          }
          norm[block] = make_norm(attrs);
          copy_channels(s, block, bias, 0, norm[block].b);
          for (int64_t i = 0; i < kBlockChannels; ++i) {
            const int64_t c = block * kBlockChannels + i;
            norm[block].mean[i] = static_cast<float>(total.mean[i]);
            norm[block].a[i] = 0;
            if (i >= s.real(block)) continue;
            const double variance = total.squares[i] / s.count();
            norm[block].a[i] = static_cast<float>(scale[c] / std::sqrt(variance + attrs.epsilon));
            means[c] = static_cast<float>(total.mean[i]);
            vars[c] = static_cast<float>(variance);
          }
        },
        [&](int64_t block, int64_t n) {
          const int64_t at = s.offset(n, block);
          ops.normalize(norm[block], x + at, r != nullptr ? r + at : nullptr, y + at, s.pixels);
        });
  });
}

/// With r = 1 / sqrt(var + epsilon) and g = dy where the activation lets it pass: dbias = sum g,
/// dscale = r sum g (x - mean), dx = scale r (g - dbias / count - (x - mean) r dscale / count).
std::unique_ptr<Kernel> plan_norm_grad(const NodeView& node, Scratch& scratch) {
  const BlockedShape s(node.inputs[0].shape);
  const NormAttrs attrs = node.attr<NormAttrs>();
  const bool residual = node.outputs.size() == 4, from_x = node.inputs.size() == 6 && !residual;
  struct Block {
    BlockNorm norm;
    BlockNormGrad grad;
  };
  const size_t parts = book(scratch, sizeof(BlockSums) * static_cast<size_t>(s.blocks * s.batch));
  const size_t blocks = book(scratch, sizeof(Block) * static_cast<size_t>(s.blocks));
  return make_kernel([=](const KernelArgs& args) {
    const BlockOps& ops = block_ops();
    const float *dy = args.input<float>(0), *x = args.input<float>(1),
                *scale = args.input<float>(2), *means = args.input<float>(3),
                *vars = args.input<float>(4), *y = residual ? args.input<float>(5) : nullptr;
    float *dx = args.output<float>(0), *dscale = args.output<float>(1),
          *dbias = args.output<float>(2), *g = residual ? args.output<float>(3) : nullptr;
    auto* sums = scratch_at<BlockSums>(args, parts);
    auto* block_of = scratch_at<Block>(args, blocks);
    const auto inverse = [&](int64_t c) { return 1.0 / std::sqrt(vars[c] + attrs.epsilon); };
    for (int64_t block = 0; block < s.blocks; ++block) {
      BlockNorm& norm = block_of[block].norm = make_norm(attrs);
      copy_channels(s, block, means, 0, norm.mean);
      if (from_x) copy_channels(s, block, args.input<float>(5), 0, norm.b);
      for (int64_t i = 0; i < kBlockChannels; ++i) {
        const int64_t c = block * kBlockChannels + i;
        norm.a[i] = i < s.real(block) ? static_cast<float>(scale[c] * inverse(c)) : 0;
      }
    }
    two_passes(
        s,
        [&](int64_t block, int64_t n) {
          const int64_t at = s.offset(n, block);
          BlockSums& sum = sums[block * s.batch + n] = {};
          ops.grad_sums(block_of[block].norm, dy + at, x + at, y != nullptr ? y + at : nullptr,
                        g != nullptr ? g + at : nullptr, s.pixels, sum);
        },
        [&](int64_t block) {
          BlockNormGrad& k = block_of[block].grad = {};
          for (int64_t i = 0; i < s.real(block); ++i) {
            double sum = 0, product = 0;
            for (int64_t n = 0; n < s.batch; ++n) {
              sum += sums[block * s.batch + n].g[i];
              product += sums[block * s.batch + n].gx[i];
            }
            const int64_t c = block * kBlockChannels + i;
            const double r = inverse(c), a = scale[c] * r;
            k.dy[i] = static_cast<float>(a);
            k.x[i] = static_cast<float>(-a * r * r * product / s.count());
            k.constant[i] = static_cast<float>(-a * sum / s.count());
            dscale[c] = static_cast<float>(product * r);
            dbias[c] = static_cast<float>(sum);
          }
        },
        [&](int64_t block, int64_t n) {
          const int64_t at = s.offset(n, block);
          ops.grad(block_of[block].norm, block_of[block].grad, g != nullptr,
                   (g != nullptr ? g : dy) + at, x + at, dx + at, s.pixels);
        });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kBatchNorm, "cpu.batch_norm_blocked", takes_blocked, plan_norm, true, true},
    {Op::kBatchNormGrad, "cpu.batch_norm_blocked", takes_blocked, plan_norm_grad, true, true},
};

}  // namespace

std::span<const KernelRow> batch_norm_blocked_rows() { return kRows; }

}  // namespace trainrt
