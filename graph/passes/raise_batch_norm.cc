// BatchNorm and what follows it: y = act(norm(x) + residual) becomes one node.
#include <vector>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

size_t at(int32_t index) { return static_cast<size_t>(index); }

/// Gives BatchNorm nodes what follows them, and notes the nodes that are nothing but the identity
/// then.
class Matcher {
 public:
  explicit Matcher(Graph& graph) : graph_(graph), readers_(readers(graph)) {
    absorbed_.assign(at(graph.node_count()), -1);
    leaves_.assign(at(graph.value_count()), false);
    for (const Output& o : graph.outputs()) leaves_[at(o.value.index)] = true;
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      if (graph.node(NodeId{i}).op == Op::kBatchNorm) match(NodeId{i});
    }
  }

  bool found() const { return found_; }
  /// Which operand stands for the node's result now; -1: the node stays.
  int operand(int32_t node) const { return absorbed_[at(node)]; }

 private:
  /// The one reader of a value that nobody else needs.
  NodeId only_reader(ValueId v) const {
    const auto& list = readers_[at(v.index)];
    return list.size() == 1 && !leaves_[at(v.index)] ? list[0] : NodeId{};
  }

  void absorb(NodeId node, int operand) {
    absorbed_[at(node.index)] = operand;
    found_ = true;
  }

  void match(NodeId id) {
    Node& norm = graph_.node(id);
    auto& attrs = std::get<NormAttrs>(norm.attrs);
    if (norm.inputs.size() != 3 || attrs.activation != Activation::kNone) return;
    ValueId y = norm.outputs[0];
    NodeId next = only_reader(y);
    if (next && graph_.node(next).op == Op::kAdd && absorbed_[at(next.index)] < 0) {
      const Node& add = graph_.node(next);
      const int own = add.inputs[0] == y ? 0 : 1;
      const ValueId other = add.inputs[at(1 - own)];
      // Of two norms that are added the later one takes the other's result.
      if (graph_.value(other).producer.index < id.index && graph_.type(other) == graph_.type(y)) {
        norm.inputs.push_back(other);
        absorb(next, own);
        y = add.outputs[0];
        next = only_reader(y);
      }
    }
    if (!next) return;
    const Node& activation = graph_.node(next);
    if (activation.op == Op::kRelu) {
      attrs.activation = Activation::kRelu;
      absorb(next, 0);
    } else if (activation.op == Op::kClip && norm.inputs.size() == 3) {
      const auto& clip = std::get<ClipAttrs>(activation.attrs);
      attrs.activation = Activation::kClip;
      attrs.lo = clip.lo;
      attrs.hi = clip.hi;
      absorb(next, 0);
    }
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>> readers_;
  std::vector<int> absorbed_;
  std::vector<bool> leaves_;
  bool found_ = false;
};

class RaiseBatchNorm final : public Pass {
 public:
  std::string_view name() const override { return "raise_batch_norm"; }

  bool run(Graph& graph) override {
    const Matcher matcher(graph);
    if (!matcher.found()) return false;
    int32_t next = 0;
    return rewrite(graph, {}, [&](Builder&, const Node&, std::span<const Var> in) -> Replacement {
      const int operand = matcher.operand(next++);
      if (operand < 0) return {};
      return {{in[at(operand)]}};
    });
  }
};

}  // namespace

std::unique_ptr<Pass> make_raise_batch_norm_pass() { return std::make_unique<RaiseBatchNorm>(); }

}  // namespace trainrt
