#include "runtime/partitioner.h"

#include "kernels/blocked_view.h"

namespace trainrt {

KernelLists kernel_lists(bool reference) {
  if (reference) return {reference_kernels()};
  return {cpu_kernels(), reference_kernels()};
}

KernelLists gpu_kernel_lists() { return {cuda_kernels()}; }

NodeTypes::NodeTypes(const Graph& graph, const Node& node) {
  inputs.reserve(node.inputs.size());
  outputs.reserve(node.outputs.size());
  for (ValueId v : node.inputs) inputs.push_back(graph.type(v));
  for (ValueId v : node.outputs) outputs.push_back(graph.type(v));
}

RowTable::RowTable(const KernelLists& lists) {
  for (const auto& list : lists) {
    for (const KernelRow& row : list) by_op_[static_cast<size_t>(row.op)].push_back(&row);
  }
}

Assignment RowTable::find(const NodeView& node, const KernelRow* after) const {
  Assignment result;
  for (const KernelRow* row : by_op_[static_cast<size_t>(node.op)]) {
    if (after != nullptr) {
      if (row == after) after = nullptr;
      continue;
    }
    Support support = row_support(*row, node);
    if (support.ok) {
      result.row = row;
      break;
    }
    result.refusals.push_back({row->name, std::move(support.reason)});
  }
  return result;
}

std::vector<Assignment> partition(const Graph& graph, const KernelLists& lists,
                                  Diagnostics& problems) {
  const RowTable rows(lists);
  std::vector<Assignment> result(static_cast<size_t>(graph.node_count()));
  for (int32_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.op == Op::kInput || node.op == Op::kConstant) continue;
    Assignment& assignment = result[static_cast<size_t>(i)];
    const NodeTypes types(graph, node);
    assignment = rows.find(types.view(node));
    if (assignment.row != nullptr || is_view(node.op)) continue;
    problems.add(no_kernel(graph, NodeId{i}, assignment, "no kernel"));
  }
  return result;
}

Problem no_kernel(const Graph& graph, NodeId id, const Assignment& assignment,
                  const std::string& what) {
  const Node& node = graph.node(id);
  std::string reason = what + " runs " + std::string(op_info(node.op).name) + " on";
  for (const TensorType& t : NodeTypes(graph, node).inputs) reason += " " + to_string(t);
  for (const Refusal& r : assignment.refusals) {
    reason += "; " + std::string(r.row) + ": " + r.reason;
  }
  const SourceRef& source = graph.source(node);
  return {source.node.empty() ? describe(graph, id) : source.node,
          source.op.empty() ? std::string(op_info(node.op).name) : source.op,
          source.domain,
          source.opset,
          "no_kernel",
          std::move(reason)};
}

}  // namespace trainrt
