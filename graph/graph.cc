#include "graph/graph.h"

#include "trainrt/error.h"

namespace trainrt {

NodeId Graph::add_node(Op op, std::vector<ValueId> inputs, Attrs attrs,
                       std::vector<TensorType> output_types, Section section, int32_t source) {
  const NodeId id{node_count()};
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.section = section;
  node.source = source;
  for (ValueId input : node.inputs) {
    TRAINRT_CHECK(input.index >= 0 && input.index < value_count(), "input value does not exist");
  }
  for (size_t i = 0; i < output_types.size(); ++i) {
    node.outputs.push_back(ValueId{value_count()});
    values_.push_back({std::move(output_types[i]), id, static_cast<int32_t>(i), {}});
  }
  nodes_.push_back(std::move(node));
  return id;
}

ValueId Graph::find_output(std::string_view name, OutputRole role) const {
  for (const Output& output : outputs_) {
    if (output.role == role && output.name == name) return output.value;
  }
  return {};
}

std::vector<NodeId> Graph::inputs() const {
  std::vector<NodeId> found;
  for (int32_t i = 0; i < node_count(); ++i) {
    if (node(NodeId{i}).op == Op::kInput) found.push_back(NodeId{i});
  }
  return found;
}

std::vector<NodeId> Graph::inputs(InputRole role) const {
  std::vector<NodeId> found;
  for (NodeId id : inputs()) {
    if (std::get<InputAttrs>(node(id).attrs).role == role) found.push_back(id);
  }
  return found;
}

ValueId Graph::find_input(std::string_view name, InputRole role) const {
  for (NodeId id : inputs(role)) {
    if (std::get<InputAttrs>(node(id).attrs).name == name) return node(id).outputs[0];
  }
  return {};
}

int32_t Graph::add_source(SourceRef source) {
  sources_.push_back(std::move(source));
  return static_cast<int32_t>(sources_.size()) - 1;
}

const SourceRef& Graph::source(const Node& node) const {
  static const SourceRef kNone;
  return node.source < 0 ? kNone : sources_[static_cast<size_t>(node.source)];
}

std::vector<std::vector<NodeId>> readers(const Graph& graph) {
  std::vector<std::vector<NodeId>> result(static_cast<size_t>(graph.value_count()));
  for (int32_t i = 0; i < graph.node_count(); ++i) {
    for (ValueId input : graph.node(NodeId{i}).inputs) {
      auto& list = result[static_cast<size_t>(input.index)];
      if (list.empty() || list.back().index != i) list.push_back(NodeId{i});
    }
  }
  return result;
}

std::vector<int32_t> use_counts(const Graph& graph) {
  std::vector<int32_t> counts(static_cast<size_t>(graph.value_count()));
  for (const Node& node : graph.nodes()) {
    for (ValueId v : node.inputs) ++counts[static_cast<size_t>(v.index)];
  }
  for (const Output& o : graph.outputs()) ++counts[static_cast<size_t>(o.value.index)];
  return counts;
}

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const SourceRef& source = graph.source(node);
  if (!source.node.empty()) return "'" + source.node + "' (" + source.op + ")";
  const std::string output =
      node.outputs.empty() ? std::string("-") : "%" + std::to_string(node.outputs[0].index);
  return output + " = " + std::string(op_info(node.op).name);
}

}  // namespace trainrt
