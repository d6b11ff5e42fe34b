// BatchNorm and its gradient on blocks of 16 channels.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/batch_norm_blocks.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

/// Copies a block's part of a per-channel operand; what pads it becomes 0.
void copy_channels(const BlockedShape& s, int64_t block, const float* from, float* to) {
  const int64_t n = s.real(block);
  std::copy_n(from + block * kBlockChannels, n, to);
  std::fill(to + n, to + kBlockChannels, 0.0f);
}

BlockNorm make_norm(const NormAttrs& attrs) {
  BlockNorm norm{};
  norm.activation = attrs.activation;
  norm.lo = static_cast<float>(attrs.lo);
  norm.hi = static_cast<float>(attrs.hi);
  return norm;
}

}  // namespace

BlockNorm norm_from_moments(const BlockedShape& s, const NormAttrs& attrs, int64_t block,
                            const BlockMoments* images, const float* scale, const float* bias,
                            float* means, float* variances) {
  BlockMoments total;
  for (int64_t n = 0; n < s.batch; ++n) {
    const BlockMoments& m = images[n];
    const double count = total.count + m.count;
    for (int64_t i = 0; i < kBlockChannels; ++i) {
      const double delta = m.mean[i] - total.mean[i];
      total.squares[i] += m.squares[i] + delta * delta * total.count * m.count / count;
      total.mean[i] += delta * m.count / count;
    }
    total.count = count;
  }
  for (int64_t i = 0; i < s.real(block); ++i) {
    const int64_t c = block * kBlockChannels + i;
    means[c] = static_cast<float>(total.mean[i]);
    variances[c] = static_cast<float>(total.squares[i] / s.count());
  }
  return norm_from_statistics(s, attrs, block, scale, bias, means, variances);
}

BlockNorm norm_from_statistics(const BlockedShape& s, const NormAttrs& attrs, int64_t block,
                               const float* scale, const float* bias, const float* means,
                               const float* variances) {
  BlockNorm norm = make_norm(attrs);
  copy_channels(s, block, means, norm.mean);
  if (bias != nullptr) copy_channels(s, block, bias, norm.b);
  for (int64_t i = 0; i < s.real(block); ++i) {
    const int64_t c = block * kBlockChannels + i;
    norm.a[i] = static_cast<float>(scale[c] * (1.0 / std::sqrt(variances[c] + attrs.epsilon)));
  }
  return norm;
}

BlockNormGrad grad_from_sums(const BlockedShape& s, const NormAttrs& attrs, int64_t block,
                             const BlockSums* images, const float* scale, const float* variances,
                             float* dscale, float* dbias) {
  BlockNormGrad k{};
  for (int64_t i = 0; i < s.real(block); ++i) {
    double sum = 0, product = 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      sum += images[n].g[i];
      product += images[n].gx[i];
    }
    const int64_t c = block * kBlockChannels + i;
    const double r = 1.0 / std::sqrt(variances[c] + attrs.epsilon), a = scale[c] * r;
    k.dy[i] = static_cast<float>(a);
    k.x[i] = static_cast<float>(-a * r * r * product / s.count());
    k.constant[i] = static_cast<float>(-a * sum / s.count());
    dscale[c] = static_cast<float>(product * r);
    dbias[c] = static_cast<float>(sum);
  }
  return k;
}

namespace {

bool blocked(const TensorType& t) { return t.layout == Layout::kNChw16c; }

Support takes_blocked(const NodeView& node) {
  Support s = blocks_of_one_type(node);
  if (!s.ok) return s;
  const Shape& shape = node.outputs[0].shape;
  for (const auto list : {node.inputs, node.outputs}) {
    for (const TensorType& t : list) {
      if (blocked(t) != (t.shape == shape)) return Support::no("takes activations in nChw16c");
    }
  }
  return node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

/// Shares out blocks and images for two_passes().
auto sharing(const BlockedShape& s) {
  return [s](int64_t items, const auto& f) {
    parallel_items(items, s.pixels * kBlockChannels,
                   [&](int64_t begin, int64_t end) { f(begin, end, nullptr); });
  };
}

/// y = act((x - mean) / sqrt(var + epsilon) scale + bias + residual)
template <typename T>
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch& scratch) {
  const BlockedShape s(node.inputs[0].shape);
  const NormAttrs attrs = node.attr<NormAttrs>();
  const bool residual = node.inputs.size() == 4, large = passes_by_cache(node.outputs[0]);
  const size_t parts =
      book(scratch, sizeof(BlockMoments) * static_cast<size_t>(s.blocks * s.batch));
  const size_t norms = book(scratch, sizeof(BlockNorm) * static_cast<size_t>(s.blocks));
  return make_kernel([=](const KernelArgs& args) {
    const BlockOps<T>& ops = block_ops<T>();
    const T *x = args.input<T>(0), *r = residual ? args.input<T>(3) : nullptr;
    T* y = args.output<T>(0);
    const bool stream = large && y != x && y != r;
    auto* moments = scratch_at<BlockMoments>(args, parts);
    auto* norm = scratch_at<BlockNorm>(args, norms);
    two_passes(
        s, sharing(s),
        [&](int64_t block, int64_t n, float*) {
          BlockMoments& m = moments[block * s.batch + n] = {};
          ops.moments(x + s.offset(n, block), s.pixels, m);
        },
        [&](int64_t block) {
          norm[block] =
              norm_from_moments(s, attrs, block, moments + block * s.batch, args.input<float>(1),
                                args.input<float>(2), args.output<float>(1), args.output<float>(2));
        },
        [&](int64_t block, int64_t n, float*) {
          const int64_t at = s.offset(n, block);
          ops.normalize(norm[block], x + at, r != nullptr ? r + at : nullptr, stream, y + at,
                        s.pixels);
        });
  });
}

/// With r = 1 / sqrt(var + epsilon) and g = dy where the activation lets it pass: dbias = sum g,
/// dscale = r sum g (x - mean), dx = scale r (g - dbias / count - (x - mean) r dscale / count).
template <typename T>
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
    const BlockOps<T>& ops = block_ops<T>();
    const T *dy = args.input<T>(0), *x = args.input<T>(1),
            *y = residual ? args.input<T>(5) : nullptr;
    const float *scale = args.input<float>(2), *means = args.input<float>(3),
                *variances = args.input<float>(4);
    T *dx = args.output<T>(0), *g = residual ? args.output<T>(3) : nullptr;
    auto* sums = scratch_at<BlockSums>(args, parts);
    auto* block_of = scratch_at<Block>(args, blocks);
    for (int64_t block = 0; block < s.blocks; ++block) {
      block_of[block].norm = norm_from_statistics(
          s, attrs, block, scale, from_x ? args.input<float>(5) : nullptr, means, variances);
    }
    two_passes(
        s, sharing(s),
        [&](int64_t block, int64_t n, float*) {
          const int64_t at = s.offset(n, block);
          BlockSums& sum = sums[block * s.batch + n] = {};
          ops.grad_sums(block_of[block].norm, dy + at, x + at, y != nullptr ? y + at : nullptr,
                        g != nullptr ? g + at : nullptr, s.pixels, sum);
        },
        [&](int64_t block) {
          block_of[block].grad =
              grad_from_sums(s, attrs, block, sums + block * s.batch, scale, variances,
                             args.output<float>(1), args.output<float>(2));
        },
        [&](int64_t block, int64_t n, float*) {
          const int64_t at = s.offset(n, block);
          ops.grad(block_of[block].norm, block_of[block].grad, g != nullptr,
                   (g != nullptr ? g : dy) + at, x + at, false, dx + at, s.pixels);
        });
  });
}

/// BatchNorm with statistics that are known.
template <typename T>
std::unique_ptr<Kernel> plan_apply(const NodeView& node, Scratch& scratch) {
  const BlockedShape s(node.inputs[0].shape);
  const NormAttrs attrs = node.attr<NormAttrs>();
  const bool residual = node.inputs.size() == 6, large = passes_by_cache(node.outputs[0]);
  const size_t norms = book(scratch, sizeof(BlockNorm) * static_cast<size_t>(s.blocks));
  return make_kernel([=](const KernelArgs& args) {
    const T *x = args.input<T>(0), *r = residual ? args.input<T>(5) : nullptr;
    T* y = args.output<T>(0);
    const bool stream = large && y != x && y != r;
    auto* norm = scratch_at<BlockNorm>(args, norms);
    for (int64_t block = 0; block < s.blocks; ++block) {
      norm[block] =
          norm_from_statistics(s, attrs, block, args.input<float>(1), args.input<float>(2),
                               args.input<float>(3), args.input<float>(4));
    }
    parallel_items(s.blocks * s.batch, s.pixels * kBlockChannels, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * s.pixels * kBlockChannels;
        block_ops<T>().normalize(norm[i % s.blocks], x + at, r != nullptr ? r + at : nullptr,
                                 stream, y + at, s.pixels);
      }
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kBatchNorm, "cpu.batch_norm_blocked", takes_blocked,
     plan_by_type<plan_norm<float>, plan_norm<uint16_t>>, true, true, true},
    {Op::kBatchNormApply, "cpu.batch_norm_blocked", takes_blocked,
     plan_by_type<plan_apply<float>, plan_apply<uint16_t>>, true, true, true},
    {Op::kBatchNormGrad, "cpu.batch_norm_blocked", takes_blocked,
     plan_by_type<plan_norm_grad<float>, plan_norm_grad<uint16_t>>, true, true, true},
};

}  // namespace

std::span<const KernelRow> batch_norm_blocked_rows() { return kRows; }

}  // namespace trainrt
