// The opset-free IR: a flat list of typed nodes in execution order.
#ifndef TRAINRT_GRAPH_GRAPH_H_
#define TRAINRT_GRAPH_GRAPH_H_

#include <span>
#include <string>
#include <vector>

#include "graph/attrs.h"
#include "graph/types.h"

namespace trainrt {

/// Part of a training step a node belongs to. Nodes of a section never read values of a later one.
enum class Section : uint8_t { kForward, kBackward, kUpdate };

/// The ONNX node that an IR node came from; printed in errors, dumps and profiles.
struct SourceRef {
  std::string node, op, domain;
  int64_t opset = 0;
};

struct Value {
  TensorType type;
  NodeId producer;
  int32_t index = 0;  // which output of the producer
  std::string name;   // for printing only
};

struct Node {
  Op op = Op::kIdentity;
  Attrs attrs;
  std::vector<ValueId> inputs, outputs;
  Section section = Section::kForward;
  int32_t source = -1;  // index into Graph::sources()
};

enum class OutputRole : uint8_t { kOutput, kLoss, kGradient, kState };

/// A value that leaves the graph. For kGradient the name is that of the parameter or input.
/// kState keeps an in-place update alive; nothing is copied out.
struct Output {
  std::string name;
  ValueId value;
  OutputRole role = OutputRole::kOutput;
};

/// Owns nodes and values. Storage order is an execution order: every input of a node is produced
/// by an earlier node. Values without a type cannot exist. Not thread-safe while being changed.
class Graph {
 public:
  /// Appends a node whose outputs have the given types. The caller vouches for the types
  /// (Builder infers them; verify() checks them).
  NodeId add_node(Op op, std::vector<ValueId> inputs, Attrs attrs,
                  std::vector<TensorType> output_types, Section section = Section::kForward,
                  int32_t source = -1);

  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t value_count() const { return static_cast<int32_t>(values_.size()); }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.index)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id.index)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Node& producer(ValueId id) const { return node(value(id).producer); }
  std::span<const Node> nodes() const { return nodes_; }

  const std::vector<Output>& outputs() const { return outputs_; }
  std::vector<Output>& outputs() { return outputs_; }
  void add_output(std::string name, ValueId value, OutputRole role = OutputRole::kOutput) {
    outputs_.push_back({std::move(name), value, role});
  }
  /// Invalid id when there is none.
  ValueId find_output(std::string_view name, OutputRole role) const;

  /// Input nodes in order of appearance.
  std::vector<NodeId> inputs() const;
  std::vector<NodeId> inputs(InputRole role) const;
  /// The input node's value; an invalid id when there is none.
  ValueId find_input(std::string_view name, InputRole role) const;

  int32_t add_source(SourceRef source);
  const std::vector<SourceRef>& sources() const { return sources_; }
  /// The node's origin; an empty SourceRef when it has none.
  const SourceRef& source(const Node& node) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Output> outputs_;
  std::vector<SourceRef> sources_;
};

/// Node ids of the readers of each value, indexed by ValueId::index.
std::vector<std::vector<NodeId>> readers(const Graph& graph);
/// Operands of nodes, and outputs of the graph, that are each value, indexed by ValueId::index.
std::vector<int32_t> use_counts(const Graph& graph);

/// "'conv1' (Conv)" from the source, or "%12 = Conv" when the node has none.
std::string describe(const Graph& graph, NodeId id);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_GRAPH_H_
