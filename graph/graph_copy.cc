#include "graph/graph_copy.h"

#include <utility>

namespace trainrt {

GraphCopy::GraphCopy(const Graph& old)
    : old_(old), mapped_(static_cast<size_t>(old.value_count())) {
  for (const SourceRef& source : old.sources()) fresh_.add_source(source);
}

std::vector<ValueId> GraphCopy::mapped(const std::vector<ValueId>& old) const {
  std::vector<ValueId> fresh;
  fresh.reserve(old.size());
  for (ValueId v : old) fresh.push_back(mapped(v));
  return fresh;
}

void GraphCopy::map(ValueId old, ValueId fresh) {
  std::string& name = fresh_.value(fresh).name;
  if (name.empty()) name = old_.value(old).name;
  mapped_[static_cast<size_t>(old.index)] = fresh;
}

std::vector<ValueId> GraphCopy::add(Node node) {
  std::vector<TensorType> types = types_of(node.outputs);
  return add(std::move(node), std::move(types));
}

std::vector<ValueId> GraphCopy::add(Node node, std::vector<TensorType> types) {
  const NodeId id = fresh_.add_node(node.op, std::move(node.inputs), std::move(node.attrs),
                                    std::move(types), node.section, node.source);
  std::vector<ValueId> results = fresh_.node(id).outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    fresh_.value(results[i]).name = old_.value(node.outputs[i]).name;
  }
  return results;
}

void GraphCopy::place(Node node) {
  std::vector<TensorType> types = types_of(node.outputs);
  place(std::move(node), std::move(types));
}

void GraphCopy::place(Node node, std::vector<TensorType> types) {
  const std::vector<ValueId> old = node.outputs;
  const std::vector<ValueId> fresh = add(std::move(node), std::move(types));
  for (size_t i = 0; i < old.size(); ++i) map(old[i], fresh[i]);
}

void GraphCopy::keep(const Node& node) {
  Node made = node;
  made.inputs = mapped(node.inputs);
  place(std::move(made));
}

Graph GraphCopy::finish() {
  std::vector<ValueId> outputs;
  for (const Output& o : old_.outputs()) outputs.push_back(mapped(o.value));
  return finish(outputs);
}

Graph GraphCopy::finish(const std::vector<ValueId>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& old = old_.outputs()[i];
    fresh_.add_output(old.name, outputs[i], old.role);
  }
  return std::move(fresh_);
}

std::vector<TensorType> GraphCopy::types_of(const std::vector<ValueId>& old) const {
  std::vector<TensorType> types;
  types.reserve(old.size());
  for (ValueId v : old) types.push_back(old_.type(v));
  return types;
}

}  // namespace trainrt
