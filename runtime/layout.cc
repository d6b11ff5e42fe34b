#include "runtime/layout.h"

#include <algorithm>

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
  LayoutPass(const Graph& graph, const RowTable& rows) : graph_(graph), rows_(rows) {}

  Graph run() {
    for (const SourceRef& source : graph_.sources()) fresh_.add_source(source);
    mapped_.resize(at(graph_.value_count()));
    for (const Node& node : graph_.nodes()) place(node);
    for (const Output& o : graph_.outputs()) {
      fresh_.add_output(o.name, in_layout(o.value, Layout::kPlain, graph_.producer(o.value)),
                        o.role);
    }
    return std::move(fresh_);
  }

 private:
  /// A value in the layout it was made in, and its copy in the other one.
  struct Mapped {
    ValueId own, other;
  };

  Layout layout(ValueId old) const { return fresh_.type(mapped_[at(old.index)].own).layout; }

  ValueId in_layout(ValueId old, Layout wanted, const Node& reader) {
    Mapped& m = mapped_[at(old.index)];
    if (fresh_.type(m.own).layout == wanted) return m.own;
    if (!m.other || fresh_.producer(m.other).section > reader.section) {
      TensorType type = fresh_.type(m.own);
      type.layout = wanted;
      const NodeId id = fresh_.add_node(Op::kReorder, {m.own}, LayoutAttrs{wanted}, {type},
                                        reader.section, reader.source);
      m.other = fresh_.node(id).outputs[0];
    }
    return m.other;
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
    const Types types = choose(node);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(in_layout(node.inputs[i], types.inputs[i].layout, node));
    }
    const NodeId id = fresh_.add_node(node.op, std::move(inputs), node.attrs, types.outputs,
                                      node.section, node.source);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId made = fresh_.node(id).outputs[i];
      mapped_[at(node.outputs[i].index)].own = made;
      fresh_.value(made).name = graph_.value(node.outputs[i]).name;
    }
  }

  const Graph& graph_;
  const RowTable& rows_;
  Graph fresh_;
  std::vector<Mapped> mapped_;
};

}  // namespace

void assign_layouts(Graph& graph, const RowTable& rows) {
  const bool convolves = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                     [](const Node& node) { return is_conv(node.op); });
  if (convolves) graph = LayoutPass(graph, rows).run();
}

}  // namespace trainrt
