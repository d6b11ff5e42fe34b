#include "runtime/precision.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/graph_copy.h"

namespace trainrt {
namespace {

size_t at(int32_t index) { return static_cast<size_t>(index); }

bool is_recurrent(Op op) {
  return op == Op::kLstm || op == Op::kLstmGrad || op == Op::kGru || op == Op::kGruGrad;
}

bool is_product(Op op) {
  return op == Op::kMatMul || op == Op::kConv || op == Op::kConvDataGrad ||
         op == Op::kConvWeightGrad || is_recurrent(op);
}

/// Whether a product reads its k-th operand as bfloat16: both factors, or the recurrent weights.
bool is_factor(const Node& node, size_t k) {
  return is_product(node.op) && (is_recurrent(node.op) ? k == 1 : k < 2);
}

bool has_operands(const Node& node) { return node.op != Op::kInput && node.op != Op::kConstant; }

class PrecisionPass {
 public:
  PrecisionPass(const Graph& graph, const RowTable& rows)
      : graph_(graph), rows_(rows), copy_(graph), other_(at(graph.value_count())) {}

  Graph run() {
    find_roots();
    find_candidates();
    choose();
    return rewrite();
  }

 private:
  enum class Choice : uint8_t { kOpen, kFloat32, kBFloat16 };

  bool is_float32(ValueId v) const { return graph_.type(v).dtype == DType::kFloat32; }
  size_t root(ValueId v) const { return at(root_[at(v.index)]); }
  bool kept(ValueId v) const { return candidate_[root(v)]; }

  // Views share bytes with what they show: one decision for all of them.
  void find_roots() {
    root_.resize(at(graph_.value_count()));
    for (int32_t v = 0; v < graph_.value_count(); ++v) {
      const Node& node = graph_.producer(ValueId{v});
      root_[at(v)] = is_view(node.op) ? root_[at(node.inputs[0].index)] : v;
    }
  }

  void find_candidates() {
    const size_t count = at(graph_.value_count());
    // Whether a value leads to updates and outputs only, by no product: a finished gradient.
    std::vector<bool> finished(count, true), wanted(count, false), fixed(count, false);
    for (int32_t i = graph_.node_count() - 1; i >= 0; --i) {
      const Node& node = graph_.node(NodeId{i});
      const bool leads_on =
          node.section != Section::kUpdate &&
          (is_product(node.op) || std::any_of(node.outputs.begin(), node.outputs.end(),
                                              [&](ValueId v) { return !finished[at(v.index)]; }));
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (leads_on) finished[at(v.index)] = false;
        if (is_factor(node, k)) wanted[root(v)] = true;
        if (node.section == Section::kUpdate || is_state_update(node.op)) fixed[root(v)] = true;
      }
    }
    for (const Output& o : graph_.outputs()) fixed[root(o.value)] = true;
    candidate_.assign(count, false);
    for (int32_t v = 0; v < graph_.value_count(); ++v) {
      const Node& node = graph_.producer(ValueId{v});
      if (at(v) != root(ValueId{v}) || !is_float32(ValueId{v}) || fixed[at(v)]) continue;
      if (node.inputs.empty() || node.section == Section::kUpdate) continue;
      // Blocked activations pass through norms, pools and sums from one convolution to the next.
      candidate_[at(v)] = wanted[at(v)] || (is_product(node.op) && !finished[at(v)]) ||
                          graph_.type(ValueId{v}).layout == Layout::kNChw16c;
    }
  }

  /// Types of a node with bfloat16 for the candidates among its operands where asked for, and for
  /// what a product reads.
  NodeTypes types_of(const Node& node, bool product, bool inputs, bool outputs) const {
    NodeTypes types(graph_, node);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const bool half = (product && is_factor(node, k)) || (inputs && kept(node.inputs[k]));
      if (half && is_float32(node.inputs[k])) types.inputs[k].dtype = DType::kBFloat16;
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (outputs && kept(node.outputs[k])) types.outputs[k].dtype = DType::kBFloat16;
    }
    return types;
  }

  bool runs(const Node& node, const NodeTypes& types) const {
    return rows_.find(types.view(node)).row != nullptr;
  }

  void drop(const std::vector<ValueId>& values) {
    for (ValueId v : values) {
      if (!kept(v)) continue;
      candidate_[root(v)] = false;
      dropped_.push_back(root(v));
    }
  }

  /// Settles how a node runs with the candidates as they are, or drops some of them.
  void settle(const Node& node, Choice& choice) {
    const bool touches =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return kept(v); }) ||
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return kept(v); });
    if (is_product(node.op) && choice != Choice::kFloat32) {
      bool float32 = true;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        float32 &= !is_factor(node, k) || is_float32(node.inputs[k]);
      }
      if (float32 && runs(node, types_of(node, true, true, true))) {
        choice = Choice::kBFloat16;
        return;
      }
      if (float32 && touches && runs(node, types_of(node, true, true, false))) {
        choice = Choice::kBFloat16;
        return drop(node.outputs);
      }
      if (float32 && touches && runs(node, types_of(node, true, false, false))) {
        choice = Choice::kBFloat16;
        for (size_t k = 0; k < node.inputs.size(); ++k) {
          if (!is_factor(node, k)) drop({node.inputs[k]});
        }
        return drop(node.outputs);
      }
      choice = Choice::kFloat32;
    }
    if (!touches || runs(node, types_of(node, false, true, true))) return;
    if (runs(node, types_of(node, false, true, false))) return drop(node.outputs);
    if (runs(node, types_of(node, false, false, true))) return drop(node.inputs);
    drop(node.inputs);
    drop(node.outputs);
  }

  void choose() {
    choice_.assign(at(graph_.node_count()), Choice::kOpen);
    std::vector<std::vector<int32_t>> touching(at(graph_.value_count()));  // nodes, by root
    std::vector<int32_t> open;
    for (int32_t i = graph_.node_count() - 1; i >= 0; --i) {
      const Node& node = graph_.node(NodeId{i});
      if (!has_operands(node) || is_view(node.op)) continue;
      open.push_back(i);
      for (const auto* list : {&node.inputs, &node.outputs}) {
        for (ValueId v : *list) touching[root(v)].push_back(i);
      }
    }
    while (!open.empty()) {
      const int32_t i = open.back();
      open.pop_back();
      dropped_.clear();
      settle(graph_.node(NodeId{i}), choice_[at(i)]);
      for (size_t v : dropped_) open.insert(open.end(), touching[v].begin(), touching[v].end());
    }
  }

  // Building the new graph.

  ValueId in_dtype(ValueId old, DType wanted, const Node& reader) {
    Graph& fresh = copy_.graph();
    const ValueId own = copy_.mapped(old);
    if (fresh.type(own).dtype == wanted) return own;
    const ValueId other = other_[at(old.index)];
    if (other && fresh.producer(other).section <= reader.section) return other;
    TensorType type = fresh.type(own);
    type.dtype = wanted;
    const Node& producer = graph_.producer(old);
    NodeId id;
    if (is_view(producer.op)) {
      const ValueId shown = in_dtype(producer.inputs[0], wanted, reader);
      id = fresh.add_node(producer.op, {shown}, producer.attrs, {type}, reader.section,
                          producer.source);
    } else {
      id = fresh.add_node(Op::kReorder, {own}, LayoutAttrs{type.layout}, {type}, reader.section,
                          reader.source);
    }
    return other_[at(old.index)] = fresh.node(id).outputs[0];
  }

  Graph rewrite() {
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      NodeTypes types = types_of(node, choice_[at(i)] == Choice::kBFloat16, true, true);
      Node made = node;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        made.inputs[k] = in_dtype(node.inputs[k], types.inputs[k].dtype, node);
      }
      copy_.place(std::move(made), std::move(types.outputs));
    }
    return copy_.finish();
  }

  const Graph& graph_;
  const RowTable& rows_;
  std::vector<int32_t> root_;    // by ValueId
  std::vector<bool> candidate_;  // by root: kept as bfloat16 so far
  std::vector<size_t> dropped_;  // roots that the node at hand does not take
  std::vector<Choice> choice_;   // of products, by NodeId
  GraphCopy copy_;               // each value in the precision it is made in
  std::vector<ValueId> other_;   // by ValueId of the old graph: its copy in the other precision
};

}  // namespace

void assign_bfloat16(Graph& graph, const RowTable& rows) {
  graph = PrecisionPass(graph, rows).run();
}

}  // namespace trainrt
