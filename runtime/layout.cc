#include "runtime/layout.h"

#include <algorithm>

#include "graph/graph_copy.h"
#include "graph/infer.h"

namespace trainrt {
namespace {

size_t at(int32_t index) { return static_cast<size_t>(index); }

bool is_conv(Op op) {
  return op == Op::kConv || op == Op::kConvDataGrad || op == Op::kConvWeightGrad;
}

/// Operands and results of a node that could be blocked, by index.
struct Activations {
  std::vector<size_t> inputs, outputs;
};

Activations activations(const Graph& graph, const Node& node) {
  const auto image = [&](ValueId v) {
    const Shape& s = graph.type(v).shape;
    return s.size() == 4 && s[1] > 1 && s[2] * s[3] > 1;
  };
  Activations result;
  const auto take = [&](const std::vector<ValueId>& values, std::vector<size_t>& into,
                        const auto& wanted) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (image(values[i]) && wanted(i, graph.type(values[i]).shape)) into.push_back(i);
    }
  };
  const auto all = [](size_t, const Shape&) { return true; };
  const auto first = [](size_t i, const Shape&) { return i == 0; };
  switch (node.op) {
    case Op::kConv:
    case Op::kConvDataGrad:
      take(node.inputs, result.inputs, first);
      take(node.outputs, result.outputs, all);
      return result;
    case Op::kConvWeightGrad:
    case Op::kReduceSum:
    case Op::kReduceMean:
      take(node.inputs, result.inputs, all);
      return result;
    case Op::kBatchNorm:
    case Op::kBatchNormApply:
    case Op::kBatchNormGrad:
    case Op::kMaxPool:
    case Op::kMaxPoolGrad:
    case Op::kConcat:
    case Op::kSplit:
      take(node.inputs, result.inputs, all);
      take(node.outputs, result.outputs, all);
      return result;
    default:
      break;
  }
  if (!is_elementwise(node.op) || node.outputs.empty()) return result;
  Shape shape;
  for (ValueId v : node.inputs) shape = broadcast_shapes(shape, graph.type(v).shape);
  const auto full = [&](size_t, const Shape& s) { return s == shape; };
  take(node.inputs, result.inputs, full);
  take(node.outputs, result.outputs, full);
  return result;
}

class LayoutPass {
 public:
  LayoutPass(const Graph& graph, const RowTable& rows)
      : graph_(graph), rows_(rows), copy_(graph), other_(at(graph.value_count())) {}

  Graph run() {
    for (const Node& node : graph_.nodes()) place(node);
    std::vector<ValueId> outputs;
    for (const Output& o : graph_.outputs()) {
      outputs.push_back(in_layout(o.value, Layout::kPlain, graph_.producer(o.value)));
    }
    return copy_.finish(outputs);
  }

 private:
  Layout layout(ValueId old) const { return copy_.graph().type(copy_.mapped(old)).layout; }

  ValueId in_layout(ValueId old, Layout wanted, const Node& reader) {
    Graph& fresh = copy_.graph();
    const ValueId own = copy_.mapped(old);
    if (fresh.type(own).layout == wanted) return own;
    ValueId& other = other_[at(old.index)];
    if (!other || fresh.producer(other).section > reader.section) {
      TensorType type = fresh.type(own);
      type.layout = wanted;
      const NodeId id = fresh.add_node(Op::kReorder, {own}, LayoutAttrs{wanted}, {type},
                                       reader.section, reader.source);
      other = fresh.node(id).outputs[0];
    }
    return other;
  }

  struct Types {
    std::vector<TensorType> inputs, outputs;
  };

  Types plain_types(const Node& node) const {
    Types types;
    for (ValueId v : node.inputs) types.inputs.push_back(graph_.type(v));
    for (ValueId v : node.outputs) types.outputs.push_back(graph_.type(v));
    return types;
  }

  bool runs(const Node& node, const Types& types) const {
    return rows_.find({node.op, node.attrs, types.inputs, types.outputs}).row != nullptr;
  }

  /// Types with blocked activations when that is what the node should have.
  Types choose(const Node& node) const {
    const Types plain = plain_types(node);
    const Activations images = activations(graph_, node);
    if (images.inputs.empty() && images.outputs.empty()) return plain;
    size_t blocked = 0, bytes = 0;
    for (size_t i : images.inputs) {
      bytes += plain.inputs[i].bytes();
      if (layout(node.inputs[i]) == Layout::kNChw16c) blocked += plain.inputs[i].bytes();
    }
    if (!is_conv(node.op) && (blocked == 0 || 2 * blocked < bytes)) return plain;
    Types types = plain;
    for (size_t i : images.inputs) types.inputs[i].layout = Layout::kNChw16c;
    for (size_t i : images.outputs) types.outputs[i].layout = Layout::kNChw16c;
    // A first layer reads the image as it comes.
    if (is_conv(node.op) && !images.inputs.empty() && images.inputs[0] == 0 &&
        layout(node.inputs[0]) == Layout::kPlain && node.op != Op::kConvDataGrad) {
      Types first = types;
      first.inputs[0].layout = Layout::kPlain;
      if (runs(node, first)) return first;
    }
    return runs(node, types) ? types : plain;
  }

  void place(const Node& node) {
    Types types = choose(node);
    Node made = node;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      made.inputs[i] = in_layout(node.inputs[i], types.inputs[i].layout, node);
    }
    copy_.place(std::move(made), std::move(types.outputs));
  }

  const Graph& graph_;
  const RowTable& rows_;
  GraphCopy copy_;              // each value in the layout it is made in
  std::vector<ValueId> other_;  // by ValueId of the old graph: its copy in the other layout
};

}  // namespace

void assign_layouts(Graph& graph, const RowTable& rows) {
  const bool convolves = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                     [](const Node& node) { return is_conv(node.op); });
  if (convolves) graph = LayoutPass(graph, rows).run();
}

}  // namespace trainrt
