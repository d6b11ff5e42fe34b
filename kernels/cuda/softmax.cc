// Softmax and LogSoftmax with their gradients: rows in registers, by a warp or a block, longer ones
// and those along an axis in the middle by columns; cuDNN after that.
#include "kernels/cuda/device/softmax.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

Support takes_softmax(const NodeView& node) {
  Support s = all_float(node);
  return s.ok && node.outputs[0].rank() == 0 ? Support::no("takes rank 1 or more") : s;
}

SoftmaxArguments shape_of(const NodeView& node) {
  const Shape& shape = node.outputs[0].shape;
  const auto axis = static_cast<size_t>(node.attr<AxisAttrs>().axis);
  const int64_t inner = size_of(shape, axis + 1, shape.size());
  SoftmaxArguments args{};
  args.rows = size_of(shape, 0, axis) * inner;
  args.axis = shape[axis];
  args.inner = inner;
  args.log = node.op == Op::kLogSoftmax || node.op == Op::kLogSoftmaxGrad;
  return args;
}

std::unique_ptr<Kernel> plan_softmax(const NodeView& node, Scratch& scratch) {
  SoftmaxArguments shaped = shape_of(node);
  const bool gradient = node.inputs.size() > 1;
  const RowTeam team = row_team(shaped.rows, shaped.inner == 1 ? shaped.axis : kMaxTeamRow + 1);
  gpu::Size3 grid = team.grid;
  if (team.name == kNoTeam) {
    shaped.lanes = lanes_for(shaped.inner, shaped.axis);
    grid = blocks_of((shaped.rows + shaped.lanes - 1) / shaped.lanes);
  }
  const std::string name = std::string(gradient ? "softmax_grad_" : "softmax_") +
                           std::string(team.name == kNoTeam ? "columns" : team.name);
  return make_kernel([shaped, gradient, grid,
                      f = function(scratch, name, node.outputs[0].dtype)](const KernelArgs& k) {
    SoftmaxArguments args = shaped;
    if (args.rows * args.axis == 0) return;
    args.x = k.in[0];
    args.y = gradient ? k.in[1] : nullptr;
    args.out = k.out[0];
    k.stream->launch(f, grid, kThreads, args);
  });
}

Support takes_library(const NodeView& node) {
  Support s = takes_softmax(node);
  return s.ok && node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

std::unique_ptr<Kernel> plan_library(const NodeView& node, Scratch& scratch) {
  const SoftmaxArguments s = shape_of(node);
  std::unique_ptr<gpu::LibraryCall> call;
  if (scratch.device != nullptr) {
    std::string why;
    call = scratch.device->softmax({node.inputs.size() > 1, s.log != 0, s.rows / s.inner, s.axis,
                                    s.inner, node.outputs[0].dtype},
                                   &why);
    if (!call) return nullptr;
  }
  const size_t workspace = book(scratch, call ? call->workspace_bytes() : 0);
  return make_kernel([call = std::move(call), workspace](const KernelArgs& k) {
    call->run(*k.stream, k.in, k.out, scratch_at<void>(k, workspace));
  });
}

// cuDNN's kernels come last: which is faster has not been measured.
constexpr KernelRow kRows[] = {
    {Op::kSoftmax, "cuda.softmax", takes_softmax, plan_softmax, true},
    {Op::kSoftmaxGrad, "cuda.softmax", takes_softmax, plan_softmax, true},
    {Op::kLogSoftmax, "cuda.softmax", takes_softmax, plan_softmax, true},
    {Op::kLogSoftmaxGrad, "cuda.softmax", takes_softmax, plan_softmax, true},
    {Op::kSoftmax, "cudnn.softmax", takes_library, plan_library},
    {Op::kSoftmaxGrad, "cudnn.softmax", takes_library, plan_library},
    {Op::kLogSoftmax, "cudnn.softmax", takes_library, plan_library},
    {Op::kLogSoftmaxGrad, "cudnn.softmax", takes_library, plan_library},
};

}  // namespace

std::span<const KernelRow> softmax_rows() { return kRows; }

}  // namespace trainrt::cuda
