// A normalisation and the convolution after it: the rows of BatchNorm and Conv, one after another.
#include <algorithm>

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

using Types = std::vector<TensorType>;

std::unique_ptr<Kernel> plan_part(Op op, const Attrs& attrs, const Types& in, const Types& out,
                                  Scratch& scratch) {
  const auto rows = reference_kernels();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const KernelRow& candidate) { return candidate.op == op; });
  return row->plan({op, attrs, in, out}, scratch);
}

void run_part(const Kernel& kernel, const KernelArgs& args, const std::vector<const void*>& in,
              const std::vector<void*>& out) {
  kernel.run({in.data(), out.data(), args.scratch});
}

/// Room for a tensor in the scratch.
class Room {
 public:
  Room(const TensorType& type, Scratch& scratch) : offset_((scratch.bytes + 63) / 64 * 64) {
    scratch.bytes = offset_ + type.bytes();
  }
  void* at(const KernelArgs& args) const { return static_cast<char*>(args.scratch) + offset_; }

 private:
  size_t offset_;
};

std::unique_ptr<Kernel> plan_norm_conv(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<NormConvAttrs>();
  const TensorType &x = node.inputs[0], &scale = node.inputs[1], &w = node.inputs[3];
  const Room y(x, scratch);
  std::shared_ptr<Kernel> norm =
      plan_part(Op::kBatchNorm, attrs.norm(), {x, scale, scale}, {x, scale, scale}, scratch);
  std::shared_ptr<Kernel> conv =
      plan_part(Op::kConv, attrs.conv(), {x, w}, {node.outputs[0]}, scratch);
  return make_kernel([=](const KernelArgs& args) {
    run_part(*norm, args, {args.in[0], args.in[1], args.in[2]},
             {y.at(args), args.out[1], args.out[2]});
    run_part(*conv, args, {y.at(args), args.in[3]}, {args.out[0]});
  });
}

std::unique_ptr<Kernel> plan_norm_conv_grad(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<NormConvAttrs>();
  const TensorType &dz = node.inputs[0], &x = node.inputs[1], &scale = node.inputs[2],
                   &w = node.inputs[6];
  const bool activation = attrs.activation != Activation::kNone;
  const Room y(x, scratch), dy(x, scratch), mean(scale, scratch), variance(scale, scratch);
  std::shared_ptr<Kernel> norm =
      plan_part(Op::kBatchNorm, attrs.norm(), {x, scale, scale}, {x, scale, scale}, scratch);
  std::shared_ptr<Kernel> data =
      plan_part(Op::kConvDataGrad, attrs.conv(x.shape), {dz, w}, {x}, scratch);
  std::shared_ptr<Kernel> weight =
      plan_part(Op::kConvWeightGrad, attrs.conv(w.shape), {x, dz}, {w}, scratch);
  Types operands = {x, x, scale, scale, scale};
  if (activation) operands.push_back(scale);
  std::shared_ptr<Kernel> norm_grad =
      plan_part(Op::kBatchNormGrad, attrs.norm(), operands, {x, scale, scale}, scratch);
  return make_kernel([=](const KernelArgs& args) {
    run_part(*norm, args, {args.in[1], args.in[2], args.in[3]},
             {y.at(args), mean.at(args), variance.at(args)});
    run_part(*data, args, {args.in[0], args.in[6]}, {dy.at(args)});
    run_part(*weight, args, {y.at(args), args.in[0]}, {args.out[3]});
    run_part(*norm_grad, args,
             {dy.at(args), args.in[1], args.in[2], args.in[4], args.in[5], args.in[3]},
             {args.out[0], args.out[1], args.out[2]});
  });
}

constexpr KernelRow kRows[] = {
    {Op::kNormConv, "reference", takes_floats, plan_norm_conv},
    {Op::kNormConvGrad, "reference", takes_floats, plan_norm_conv_grad},
};

}  // namespace

std::span<const KernelRow> reference_norm_conv_kernels() { return kRows; }

}  // namespace trainrt::reference
