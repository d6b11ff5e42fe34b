#include <algorithm>
#include <array>
#include <set>

#include "autodiff/autodiff.h"
#include "autodiff/rule.h"
#include "graph/call.h"

namespace trainrt {
namespace {

bool is_float_value(const Graph& graph, ValueId id) { return is_float(graph.type(id).dtype); }

/// Whether a gradient may flow from the outputs of a node of this op to its input i.
bool edge(const Graph& graph, const Node& node, size_t i) {
  const GradRow& row = grad_row(node.op);
  return row.kind != GradKind::kNone &&
         (row.no_gradient_inputs >> std::min<size_t>(i, 31) & 1) == 0 &&
         is_float_value(graph, node.inputs[i]);
}

/// Values that a differentiable path leads to from one of `from`.
std::vector<bool> downstream(const Graph& graph, std::span<const ValueId> from) {
  std::vector<bool> reached(static_cast<size_t>(graph.value_count()));
  for (ValueId id : from) {
    reached[static_cast<size_t>(id.index)] = is_float_value(graph, id);
  }
  for (const Node& node : graph.nodes()) {
    bool hit = false;
    for (size_t i = 0; i < node.inputs.size() && !hit; ++i) {
      hit = reached[static_cast<size_t>(node.inputs[i].index)] && edge(graph, node, i);
    }
    if (!hit) continue;
    for (ValueId id : node.outputs) {
      if (is_float_value(graph, id)) reached[static_cast<size_t>(id.index)] = true;
    }
  }
  return reached;
}

/// Values from which a differentiable path leads to one of `to`.
std::vector<bool> upstream(const Graph& graph, std::span<const ValueId> to) {
  std::vector<bool> reached(static_cast<size_t>(graph.value_count()));
  for (ValueId id : to) reached[static_cast<size_t>(id.index)] = is_float_value(graph, id);
  const std::span<const Node> nodes = graph.nodes();
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = nodes[n];
    const bool hit = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return reached[static_cast<size_t>(id.index)];
    });
    for (size_t i = 0; hit && i < node.inputs.size(); ++i) {
      if (edge(graph, node, i)) reached[static_cast<size_t>(node.inputs[i].index)] = true;
    }
  }
  return reached;
}

Problem no_gradient(const Graph& graph, NodeId id) {
  const SourceRef& source = graph.source(graph.node(id));
  const Node& node = graph.node(id);
  const auto* call = std::get_if<CallAttrs>(&node.attrs);
  const std::string name =
      call != nullptr ? find_call(call->function)->name : std::string(op_info(node.op).name);
  Problem problem;
  problem.node = source.node.empty() ? describe(graph, id) : source.node;
  problem.op = source.op.empty() ? name : source.op;
  problem.domain = source.domain;
  problem.opset = source.opset;
  problem.kind = "no_gradient";
  problem.reason = "the loss depends on it, and " + name +
                   " has no gradient rule; freeze the parameters before it, or take a loss that "
                   "does not pass through it";
  return problem;
}

/// Section and origin of new nodes, put back at the end.
class Scope {
 public:
  explicit Scope(Builder& builder)
      : builder_(builder), section_(builder.section()), source_(builder.source()) {
    builder.set_section(Section::kBackward);
  }
  ~Scope() {
    builder_.set_section(section_);
    builder_.set_source(source_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
  Section section_;
  int32_t source_;
};

/// The gradient as the input wants it: what broadcasting stretched is summed.
Var fitted(const Graph& graph, NodeId id, size_t i, Var gradient) {
  const Node& node = graph.node(id);
  const TensorType want = graph.type(node.inputs[i]);
  if (is_elementwise(node.op)) gradient = sum_to_shape(gradient, want.shape);
  TRAINRT_CHECK(gradient.type() == want, "the gradient rule of " + describe(graph, id) + " gave " +
                                             to_string(gradient.type()) + " for input " +
                                             std::to_string(i) + ", which is " + to_string(want));
  return gradient;
}

}  // namespace

const GradRow& grad_row(Op op) {
  static const auto table = [] {
    std::array<const GradRow*, kOpCount> rows{};
    for (const auto& list : {elementwise_rules(), shape_rules(), reduction_rules(), linear_rules(),
                             norm_rules(), recurrent_rules(), other_rules()}) {
      for (const GradRow& row : list) rows[static_cast<size_t>(row.op)] = &row;
    }
    return rows;
  }();
  const GradRow* row = table[static_cast<size_t>(op)];
  TRAINRT_CHECK(row != nullptr, "no gradient row for " + std::string(op_info(op).name));
  return *row;
}

std::vector<bool> depends_differentiably(const Graph& graph, std::span<const ValueId> outputs,
                                         std::span<const ValueId> wrt) {
  const std::vector<bool> leads = upstream(graph, outputs);
  std::vector<bool> result;
  result.reserve(wrt.size());
  for (ValueId id : wrt) result.push_back(leads[static_cast<size_t>(id.index)]);
  return result;
}

std::vector<Var> differentiate(Builder& builder, std::span<const Seed> seeds,
                               std::span<const Var> wrt, Diagnostics& problems) {
  Graph& graph = builder.graph();
  std::vector<ValueId> sources, sinks;
  for (Var v : wrt) sources.push_back(v.id());
  for (const Seed& seed : seeds) sinks.push_back(seed.value.id());
  const std::vector<bool> needed = downstream(graph, sources);
  const std::vector<bool> leads = upstream(graph, sinks);

  // Nodes with a needed input and an output on the way to a seed: exactly those to be
  // differentiated. The graph grows below, so ids are kept, not references.
  std::vector<NodeId> active;
  std::set<int32_t> reported;
  bool complete = true;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId{n});
    bool wanted = false;
    for (size_t i = 0; i < node.inputs.size() && !wanted; ++i) {
      wanted = needed[static_cast<size_t>(node.inputs[i].index)] && edge(graph, node, i);
    }
    if (!wanted || std::none_of(node.outputs.begin(), node.outputs.end(),
                                [&](ValueId id) { return leads[static_cast<size_t>(id.index)]; })) {
      continue;
    }
    active.push_back(NodeId{n});
    const GradRow& row = grad_row(node.op);
    if (row.kind == GradKind::kUnsupported ||
        (row.has_gradient != nullptr && !row.has_gradient(node))) {
      complete = false;
      if (node.source < 0 || reported.insert(node.source).second) {
        problems.add(no_gradient(graph, NodeId{n}));
      }
    }
  }
  if (!complete) return std::vector<Var>(wrt.size());

  const Scope scope(builder);
  std::vector<Var> gradients(needed.size());
  const auto accumulate = [&](ValueId id, Var gradient) {
    Var& sum = gradients[static_cast<size_t>(id.index)];
    sum = sum ? sum + gradient : gradient;
  };
  for (const Seed& seed : seeds) {
    TRAINRT_CHECK(seed.gradient.type() == seed.value.type(),
                  "a seed of type " + to_string(seed.gradient.type()) + " for a value of type " +
                      to_string(seed.value.type()));
    if (needed[static_cast<size_t>(seed.value.id().index)]) {
      accumulate(seed.value.id(), seed.gradient);
    }
  }

  for (size_t n = active.size(); n-- > 0;) {
    const Node node = graph.node(active[n]);
    std::vector<Var> x, y, dy;
    bool any = false;
    for (ValueId id : node.outputs) {
      y.push_back(builder.wrap(id));
      dy.push_back(gradients[static_cast<size_t>(id.index)]);
      any |= static_cast<bool>(dy.back());
    }
    if (!any) continue;
    std::vector<bool> wanted;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      x.push_back(builder.wrap(node.inputs[i]));
      wanted.push_back(needed[static_cast<size_t>(node.inputs[i].index)] && edge(graph, node, i));
    }
    builder.set_source(node.source);
    const Grads grads = grad_row(node.op).rule(GradArgs(builder, node, x, y, dy, wanted));
    TRAINRT_CHECK(grads.size() <= node.inputs.size(), "more gradients than inputs");
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i] && wanted[i]) accumulate(node.inputs[i], fitted(graph, active[n], i, grads[i]));
    }
  }

  std::vector<Var> result;
  result.reserve(wrt.size());
  for (Var v : wrt) {
    const auto i = static_cast<size_t>(v.id().index);
    result.push_back(i < gradients.size() ? gradients[i] : Var());
  }
  return result;
}

}  // namespace trainrt
