// BatchNorm with its activation and the depthwise convolution after it, on blocks of 16 channels.
// What is between them is never stored: the convolution normalises the rows it reads, its gradient
// makes them again.
#include "kernels/cpu/batch_norm_blocks.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/conv_depthwise.h"
#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

// Bytes of a block of all images that the second pass still finds in the cache. The gradient of a
// larger one is made twice rather than written, read and written again.
constexpr size_t kCached = size_t{1} << 20;

Support takes_norm_conv(const NodeView& node) {
  Support s = blocks_of_one_type(node);
  if (!s.ok) return s;
  const ConvAttrs attrs = node.attr<NormConvAttrs>().conv();
  const auto& in = node.inputs;
  if (node.op == Op::kNormConv) return takes_depthwise(in[0], in[3], node.outputs[0], attrs);
  if (node.outputs[0].layout != in[1].layout) return Support::no("takes one layout of x and dx");
  return takes_depthwise(in[1], in[6], in[0], attrs);
}

template <typename T>
std::unique_ptr<Kernel> plan_norm_conv(const NodeView& node, Scratch& scratch) {
  const TensorType &x = node.inputs[0], &w = node.inputs[3], &z = node.outputs[0];
  const auto& attrs = node.attr<NormConvAttrs>();
  const BlockedShape s(x.shape);
  const DepthwisePlan plan(x, w, z, attrs.conv(), scratch);
  const bool stream = passes_by_cache(z);
  const size_t parts =
      book(scratch, sizeof(BlockMoments) * static_cast<size_t>(s.blocks * s.batch));
  const size_t norms = book(scratch, sizeof(BlockNorm) * static_cast<size_t>(s.blocks));
  return make_kernel([=, norm_attrs = attrs.norm()](const KernelArgs& args) {
    const T* from = args.input<T>(0);
    auto* moments = scratch_at<BlockMoments>(args, parts);
    auto* norm = scratch_at<BlockNorm>(args, norms);
    plan.load_weights(args, {args.in[3], false});
    two_passes(
        s, plan.sharing(args),
        [&](int64_t block, int64_t n, float*) {
          BlockMoments& m = moments[block * s.batch + n] = {};
          block_ops<T>().moments(from + s.offset(n, block), s.pixels, m);
        },
        [&](int64_t block) {
          norm[block] = norm_from_moments(s, norm_attrs, block, moments + block * s.batch,
                                          args.input<float>(1), args.input<float>(2),
                                          args.output<float>(1), args.output<float>(2));
        },
        [&](int64_t block, int64_t n, float* buffer) {
          depthwise_ops<T>().forward(plan.shape(), from + s.offset(n, block), &norm[block],
                                     plan.weights(args, block), stream, buffer,
                                     args.output<T>(0) + plan.y_at(n, block));
        });
  });
}

template <typename T>
std::unique_ptr<Kernel> plan_norm_conv_grad(const NodeView& node, Scratch& scratch) {
  const TensorType &dz = node.inputs[0], &x = node.inputs[1], &w = node.inputs[6];
  const auto& attrs = node.attr<NormConvAttrs>();
  const BlockedShape s(x.shape);
  const DepthwisePlan plan(x, w, dz, attrs.conv(), scratch);
  // As bfloat16 it would be rounded twice on its way to dx.
  const bool cached = !is_bf16(x) && x.bytes() / static_cast<size_t>(s.blocks) <= kCached;
  struct Block {
    BlockNorm norm;
    BlockNormGrad grad;
  };
  const size_t parts = book(scratch, sizeof(BlockSums) * static_cast<size_t>(s.blocks * s.batch));
  const size_t blocks = book(scratch, sizeof(Block) * static_cast<size_t>(s.blocks));
  return make_kernel([=, norm_attrs = attrs.norm()](const KernelArgs& args) {
    const T *dz_at = args.input<T>(0), *from = args.input<T>(1);
    const float *scale = args.input<float>(2), *variances = args.input<float>(5);
    T* dx = args.output<T>(0);
    auto* sums = scratch_at<BlockSums>(args, parts);
    auto* block_of = scratch_at<Block>(args, blocks);
    for (int64_t block = 0; block < s.blocks; ++block) {
      block_of[block].norm = norm_from_statistics(s, norm_attrs, block, scale, args.input<float>(3),
                                                  args.input<float>(4), variances);
    }
    plan.load_weights(args, {args.in[6], false});
    two_passes(
        s, plan.sharing(args),
        [&](int64_t block, int64_t n, float* buffer) {
          const int64_t at = s.offset(n, block);
          const T* gradient = dz_at + plan.y_at(n, block);
          const BlockNorm& norm = block_of[block].norm;
          BlockSums& sum = sums[block * s.batch + n] = {};
          depthwise_ops<T>().weight_grad(plan.shape(), from + at, &norm, gradient, buffer,
                                         plan.weight_part(args, n, block));
          depthwise_ops<T>().norm_grad_sums(plan.shape(), gradient, plan.weights(args, block), norm,
                                            from + at, buffer, cached ? dx + at : nullptr, sum);
        },
        [&](int64_t block) {
          block_of[block].grad =
              grad_from_sums(s, norm_attrs, block, sums + block * s.batch, scale, variances,
                             args.output<float>(1), args.output<float>(2));
          plan.sum_weight_parts(args, block, args.output<float>(3));
        },
        [&](int64_t block, int64_t n, float* buffer) {
          const int64_t at = s.offset(n, block);
          const BlockNorm& norm = block_of[block].norm;
          const BlockNormGrad& k = block_of[block].grad;
          if (cached) {
            block_ops<T>().grad(norm, k, true, dx + at, from + at, false, dx + at, s.pixels);
          } else {
            depthwise_ops<T>().norm_grad(plan.shape(), dz_at + plan.y_at(n, block),
                                         plan.weights(args, block), norm, k, from + at, buffer,
                                         dx + at);
          }
        });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kNormConv, "cpu.norm_conv", takes_norm_conv,
     plan_by_type<plan_norm_conv<float>, plan_norm_conv<uint16_t>>, false, true, true},
    {Op::kNormConvGrad, "cpu.norm_conv", takes_norm_conv,
     plan_by_type<plan_norm_conv_grad<float>, plan_norm_conv_grad<uint16_t>>, false, true, true},
};

}  // namespace

std::span<const KernelRow> norm_conv_rows() { return kRows; }

}  // namespace trainrt
