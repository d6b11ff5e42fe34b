// Losses by class ids and their gradients: a warp for each position.
#include "kernels/cuda/device/loss.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

/// Number of the input with the class ids.
size_t ids_of(Op op) { return op == Op::kCrossEntropyGrad ? 2 : 1; }

Support takes_loss(const NodeView& node) {
  const DType type = node.outputs[0].dtype;
  if (type != DType::kFloat32 && type != DType::kFloat64) {
    return Support::no("takes no " + std::string(dtype_name(type)));
  }
  if (is_float(node.inputs[ids_of(node.op)].dtype)) return Support::no("class ids are integers");
  return Support::yes();
}

std::string_view function_name(Op op) {
  switch (op) {
    case Op::kCrossEntropy:
      return "cross_entropy";
    case Op::kCrossEntropyGrad:
      return "cross_entropy_grad";
    case Op::kNllLoss:
      return "nll";
    default:
      return "nll_grad";
  }
}

bool is_signed(DType type) {
  return type == DType::kInt8 || type == DType::kInt16 || type == DType::kInt32 ||
         type == DType::kInt64;
}

std::unique_ptr<Kernel> plan_loss(const NodeView& node, Scratch& scratch) {
  const bool gradient = node.op == Op::kCrossEntropyGrad || node.op == Op::kNllLossGrad;
  const bool logits = node.op != Op::kNllLossGrad;
  const LossAttrs& attrs = node.attr<LossAttrs>();
  const TensorType& x = gradient ? node.outputs[0] : node.inputs[0];
  const TensorType& ids = node.inputs[ids_of(node.op)];
  const auto axis = static_cast<size_t>(attrs.class_axis);
  LossArguments shaped{};
  shaped.id_bytes = static_cast<int>(dtype_size(ids.dtype));
  shaped.id_signed = is_signed(ids.dtype);
  shaped.inner = size_of(x.shape, axis + 1, x.shape.size());
  shaped.classes = x.shape[axis];
  shaped.positions = size_of(x.shape, 0, axis) * shaped.inner;
  shaped.ignore = attrs.ignore_index;
  return make_kernel([shaped, gradient, logits, op = node.op, bytes = node.outputs[0].bytes(),
                      f = function(scratch, function_name(node.op), x.dtype)](const KernelArgs& k) {
    if (op == Op::kNllLossGrad && bytes > 0) k.stream->zero(k.out[0], bytes);
    if (shaped.positions == 0 || bytes == 0) return;
    LossArguments args = shaped;
    args.dloss = gradient ? k.in[0] : nullptr;
    args.logits = logits ? k.in[gradient ? 1 : 0] : nullptr;
    args.ids = k.in[ids_of(op)];
    args.out = k.out[0];
    args.status = k.status;
    args.step = k.step;
    const bool warps = op == Op::kCrossEntropy || op == Op::kCrossEntropyGrad;
    k.stream->launch(f, blocks_for(args.positions * (warps ? 32 : 1)), kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kCrossEntropy, "cuda.cross_entropy", takes_loss, plan_loss},
    {Op::kCrossEntropyGrad, "cuda.cross_entropy", takes_loss, plan_loss},
    {Op::kNllLoss, "cuda.nll_loss", takes_loss, plan_loss},
    {Op::kNllLossGrad, "cuda.nll_loss", takes_loss, plan_loss},
};

}  // namespace

std::span<const KernelRow> loss_rows() { return kRows; }

}  // namespace trainrt::cuda
