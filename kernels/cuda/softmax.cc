// Softmax and LogSoftmax with their gradients: a block for each row.
#include "kernels/cuda/device/softmax.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

Support takes_softmax(const NodeView& node) {
  Support s = all_float(node);
  return s.ok && node.outputs[0].rank() == 0 ? Support::no("takes rank 1 or more") : s;
}

std::string_view function_name(Op op) {
  switch (op) {
    case Op::kSoftmax:
      return "softmax";
    case Op::kLogSoftmax:
      return "log_softmax";
    case Op::kSoftmaxGrad:
      return "softmax_grad";
    default:
      return "log_softmax_grad";
  }
}

std::unique_ptr<Kernel> plan_softmax(const NodeView& node, Scratch& scratch) {
  const Shape& shape = node.outputs[0].shape;
  const auto axis = static_cast<size_t>(node.attr<AxisAttrs>().axis);
  const int64_t inner = size_of(shape, axis + 1, shape.size());
  const SoftmaxArguments shaped{nullptr, nullptr, nullptr, size_of(shape, 0, axis) * inner,
                                shape[axis], inner};
  return make_kernel([shaped, gradient = node.inputs.size() > 1,
                      f = function(scratch, function_name(node.op), node.outputs[0].dtype)](
                         const KernelArgs& k) {
    SoftmaxArguments args = shaped;
    if (args.rows * args.axis == 0) return;
    args.x = k.in[0];
    args.y = gradient ? k.in[1] : nullptr;
    args.out = k.out[0];
    k.stream->launch(f, blocks_of(args.rows), kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kSoftmax, "cuda.softmax", takes_softmax, plan_softmax},
    {Op::kSoftmaxGrad, "cuda.softmax", takes_softmax, plan_softmax},
    {Op::kLogSoftmax, "cuda.softmax", takes_softmax, plan_softmax},
    {Op::kLogSoftmaxGrad, "cuda.softmax", takes_softmax, plan_softmax},
};

}  // namespace

std::span<const KernelRow> softmax_rows() { return kRows; }

}  // namespace trainrt::cuda
