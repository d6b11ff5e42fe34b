// Raising: groups of nodes that together are one op are replaced by that op. Private to passes/.
#ifndef TRAINRT_GRAPH_PASSES_RAISE_H_
#define TRAINRT_GRAPH_PASSES_RAISE_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/passes/pass.h"

namespace trainrt {

/// The graph that is searched, and where its values are in the one being built. Patterns are
/// matched on the old graph; a replacement is built from var().
class RaiseContext {
 public:
  explicit RaiseContext(const Graph& graph);

  const Graph& graph() const { return graph_; }
  const Node& producer(ValueId v) const { return graph_.producer(v); }
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Shape& shape(ValueId v) const { return graph_.type(v).shape; }
  /// Operands of nodes, and outputs of the graph, that are v.
  int32_t uses(ValueId v) const { return uses_[static_cast<size_t>(v.index)]; }
  /// v's producer when that is an `op` and v has `uses` uses, all inside the pattern; else null.
  const Node* inner(ValueId v, Op op, int32_t uses = 1) const;
  /// The one value of all elements, when it is known.
  std::optional<double> uniform(ValueId v) const;
  /// The new value of an operand of the node being matched, or of any node before it.
  Var var(ValueId v) const { return vars_[static_cast<size_t>(v.index)]; }

  void note(const Node& node, std::span<const Var> inputs);

 private:
  const Graph& graph_;
  std::vector<int32_t> uses_;
  std::vector<Var> vars_;
};

/// Tries to end a pattern at a node: its replacement, or nothing. What the pattern leaves unread is
/// removed afterwards.
struct RaiseRule {
  std::string_view name;
  Replacement (*match)(Builder&, const Node&, std::span<const Var>, const RaiseContext&);
};

std::span<const RaiseRule> raise_activation_rules();
std::span<const RaiseRule> raise_norm_rules();
std::span<const RaiseRule> raise_attention_rules();
std::span<const RaiseRule> raise_patch_rules();
std::span<const RaiseRule> raise_table_rules();

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_PASSES_RAISE_H_
