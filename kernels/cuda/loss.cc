// Cross entropy and negative log-likelihood with their gradients.
#include "kernels/cuda/device/loss.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

bool gradient(Op op) { return op == Op::kCrossEntropyGrad || op == Op::kNllLossGrad; }

Support takes_loss(const NodeView& node) {
  const DType ids = node.inputs.back().dtype;
  if (ids != DType::kInt32 && ids != DType::kInt64) {
    return Support::no("takes int32 and int64 class ids");
  }
  return all_float({node.op, node.attrs, node.inputs.first(node.inputs.size() - 1), node.outputs});
}

LossArguments shape_of(const NodeView& node) {
  const auto& attrs = node.attr<LossAttrs>();
  const bool made = gradient(node.op);
  const Shape& logits = made ? node.outputs[0].shape : node.inputs[0].shape;
  const auto axis = static_cast<size_t>(attrs.class_axis);
  LossArguments args{};
  args.inner = size_of(logits, axis + 1, logits.size());
  args.positions = size_of(logits, 0, axis) * args.inner;
  args.classes = logits[axis];
  args.ignored = attrs.ignore_index;
  args.wide = node.inputs.back().dtype == DType::kInt64;
  return args;
}

std::unique_ptr<Kernel> plan_launch(const NodeView& node, LossArguments shaped, gpu::Size3 grid,
                                    const gpu::Function* f, bool into_zeros = false) {
  return make_kernel([=, op = node.op, last = node.inputs.size() - 1,
                      bytes = node.outputs[0].bytes()](const KernelArgs& k) {
    LossArguments args = shaped;
    if (into_zeros) k.stream->zero(k.out[0], bytes);
    if (args.positions == 0) return;
    args.dloss = gradient(op) ? k.in[0] : nullptr;
    args.x = gradient(op) ? k.in[last - 1] : k.in[0];
    args.ids = k.in[last];
    args.out = k.out[0];
    args.status = k.status;
    args.step = k.step;
    k.stream->launch(f, grid, kThreads, args);
  });
}

std::unique_ptr<Kernel> plan_cross_entropy(const NodeView& node, Scratch& scratch) {
  LossArguments args = shape_of(node);
  const bool backward = gradient(node.op);
  const RowTeam team = row_team(args.positions, args.classes);
  // What a warp takes, the loss has no reason to hold in registers.
  const bool rows =
      args.inner == 1 && (backward ? team.name != kNoTeam : args.classes <= kMaxWarpRow);
  gpu::Size3 grid = team.grid;
  std::string name = backward ? "cross_entropy_grad_" : "cross_entropy_";
  if (!rows) {
    args.lanes = lanes_for(args.inner, args.classes);
    grid = blocks_of((args.positions + args.lanes - 1) / args.lanes);
  }
  name += !rows ? "columns" : backward ? team.name : "rows";
  return plan_launch(node, args, grid, function(scratch, name, node.outputs[0].dtype));
}

std::unique_ptr<Kernel> plan_nll(const NodeView& node, Scratch& scratch) {
  const LossArguments args = shape_of(node);
  const bool backward = gradient(node.op);
  return plan_launch(node, args, blocks_for(args.positions),
                     function(scratch, backward ? "nll_grad" : "nll", node.outputs[0].dtype),
                     backward);
}

constexpr KernelRow kRows[] = {
    {Op::kCrossEntropy, "cuda.cross_entropy", takes_loss, plan_cross_entropy},
    {Op::kCrossEntropyGrad, "cuda.cross_entropy", takes_loss, plan_cross_entropy, true},
    {Op::kNllLoss, "cuda.nll_loss", takes_loss, plan_nll},
    {Op::kNllLossGrad, "cuda.nll_loss", takes_loss, plan_nll},
};

}  // namespace

std::span<const KernelRow> loss_rows() { return kRows; }

}  // namespace trainrt::cuda
