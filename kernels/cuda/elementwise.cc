// Elementwise nodes as programs of one instruction, and Reorder between float32 and bfloat16.
#include "kernels/cuda/codegen.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

Support takes(const NodeView& node) {
  const FusedProgram program = program_of(node);
  return takes_program({program, node.inputs, node.outputs});
}

Support takes_in_place(const NodeView& node) {
  const FusedProgram program = program_of(node);
  return takes_program_in_place({program, node.inputs, node.outputs});
}

Support takes_reorder(const NodeView& node) {
  if (computed(node.inputs[0]).dtype != DType::kFloat32) return Support::no("takes float32");
  return takes(node);
}

std::vector<KernelRow> make_rows() {
  std::vector<KernelRow> rows;
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (!is_elementwise(op) || op == Op::kFused) continue;
    rows.push_back({op, "cuda.elementwise", takes_in_place, plan_program, true, false, true});
    rows.push_back({op, "cuda.elementwise", takes, plan_program, false, false, true});
  }
  rows.push_back({Op::kReorder, "cuda.reorder", takes_reorder, plan_program, false, true, true});
  return rows;
}

}  // namespace

std::span<const KernelRow> elementwise_rows() {
  static const std::vector<KernelRow> rows = make_rows();
  return rows;
}

}  // namespace trainrt::cuda
