#include "runtime/quantization.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "autodiff/rule.h"

namespace trainrt {
namespace {

bool quantizes(const SourceRef& source) {
  static const std::set<std::string_view> kOps = {"ConvInteger",
                                                  "DynamicQuantizeLinear",
                                                  "DynamicQuantizeMatMul",
                                                  "MatMulInteger",
                                                  "QGemm",
                                                  "QLinearAdd",
                                                  "QLinearAveragePool",
                                                  "QLinearConcat",
                                                  "QLinearConv",
                                                  "QLinearGlobalAveragePool",
                                                  "QLinearLeakyRelu",
                                                  "QLinearMatMul",
                                                  "QLinearMul",
                                                  "QLinearSigmoid",
                                                  "QLinearSoftmax",
                                                  "QuantizeLinear"};
  return kOps.contains(source.op);
}

/// Which nodes lie on paths, where quantizing nodes are taken to be differentiable (`through`) or
/// not.
class Paths {
 public:
  Paths(const Graph& graph, std::span<const ValueId> ends, std::span<const ValueId> wrt,
        bool through)
      : graph_(graph), through_(through), from_(size()), to_(size()) {
    for (ValueId id : wrt) from_[at(id)] = true;
    for (ValueId id : ends) to_[at(id)] = true;
    const std::span<const Node> nodes = graph.nodes();
    for (const Node& n : nodes) walk(n, from_, to_, false);
    for (size_t i = nodes.size(); i-- > 0;) walk(nodes[i], from_, to_, true);
  }

  bool hold(const Node& n) const {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      for (ValueId output : n.outputs) {
        if (from_[at(n.inputs[i])] && to_[at(output)] && edge(n, i, output)) return true;
      }
    }
    return false;
  }

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id.index); }
  size_t size() const { return static_cast<size_t>(graph_.value_count()); }
  bool is_real(ValueId id) const { return is_float(graph_.type(id).dtype); }

  /// Integers carry what a quantizing node made of a float, nothing else.
  bool edge(const Node& n, size_t i, ValueId output) const {
    if (through_ && n.source >= 0 && quantizes(graph_.source(n))) return true;
    const GradRow& row = grad_row(n.op);
    if (row.kind == GradKind::kNone || (row.no_gradient_inputs >> std::min<size_t>(i, 31) & 1)) {
      return false;
    }
    return is_real(n.inputs[i]) ? is_real(output) : through_;
  }

  void walk(const Node& n, std::vector<bool>& from, std::vector<bool>& to, bool backwards) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      for (ValueId output : n.outputs) {
        if (!edge(n, i, output)) continue;
        if (backwards && to[at(output)]) to[at(n.inputs[i])] = true;
        if (!backwards && from[at(n.inputs[i])]) from[at(output)] = true;
      }
    }
  }

  const Graph& graph_;
  bool through_;
  std::vector<bool> from_, to_;  // reached from `wrt`; leading to `ends`
};

std::string reason_of(const SourceRef& source, bool straight_through) {
  const std::string advice = "train the float model and quantize the result";
  if (source.op != "QuantizeLinear") return "quantized arithmetic has no gradient: " + advice;
  if (!straight_through) return "rounding has no gradient: give --straight-through, or " + advice;
  return "no DequantizeLinear takes its integers, so that no gradient comes back: " + advice;
}

}  // namespace

void report_quantization(const Graph& graph, std::span<const ValueId> ends,
                         std::span<const ValueId> wrt, bool straight_through,
                         Diagnostics& problems) {
  const Paths all(graph, ends, wrt, true), real(graph, ends, wrt, false);
  std::set<int32_t> met, open;  // sources
  for (const Node& n : graph.nodes()) {
    if (n.source < 0 || !quantizes(graph.source(n)) || !all.hold(n)) continue;
    met.insert(n.source);
    if (real.hold(n)) open.insert(n.source);
  }
  for (int32_t s : met) {
    if (open.contains(s)) continue;
    const SourceRef& source = graph.sources()[static_cast<size_t>(s)];
    problems.add({source.node, source.op, source.domain, source.opset, "no_gradient",
                  reason_of(source, straight_through)});
  }
}

void report_quantized_weights(const Graph& graph, Diagnostics& problems) {
  for (const SourceRef& source : graph.sources()) {
    if (!quantizes(source) && source.op != "DequantizeLinear") continue;
    problems.add({source.node, source.op, source.domain, source.opset, "no_gradient",
                  "the file is quantized and has no float weights: train the float model and "
                  "quantize the result"});
  }
}

}  // namespace trainrt
