// Values that must be known while a plan is built: found, computed from weights, or asked for.
#include <algorithm>

#include "frontend/specializer.h"

namespace trainrt {
namespace {

constexpr uint64_t kMaxFolded = uint64_t{2} << 30;     // bytes of constants computed for one graph
constexpr uint64_t kMaxEvaluated = uint64_t{2} << 30;  // bytes of values computed on the way
constexpr int64_t kMaxBoundInput = 64;                 // elements

}  // namespace

Evaluator bounded_evaluator(const Evaluator& evaluator) {
  if (!evaluator) return {};
  return [evaluator, total = uint64_t{0}](Op op, const Attrs& attrs, std::span<const Tensor> inputs,
                                          std::span<const TensorType> outputs) mutable {
    for (const TensorType& t : outputs) total += t.bytes();
    if (total > kMaxFolded) {
      throw Error(ErrorCode::kMemory,
                  "constants computed from the model's shapes and weights "
                  "take more than 2 GiB");
    }
    return evaluator(op, attrs, inputs, outputs);
  };
}

/// The nodes that v is computed from and that were not evaluated before, in order; Input nodes are
/// among them. `varying`: whether it also depends on evaluated values that may differ in another
/// call.
std::vector<NodeId> Specializer::ancestors(Var v, bool* varying) const {
  std::set<NodeId> seen;
  std::vector<NodeId> open;
  auto visit = [&](ValueId value) {
    if (known_.contains(value)) {
      *varying |= varying_.contains(value);
      return;
    }
    const NodeId producer = result.graph.value(value).producer;
    if (seen.insert(producer).second) open.push_back(producer);
  };
  visit(v.id());
  while (!open.empty()) {
    const Node& n = result.graph.node(open.back());
    open.pop_back();
    for (ValueId input : n.inputs) visit(input);
  }
  return {seen.begin(), seen.end()};
}

Tensor Specializer::constant_of(Var v, const std::string& what) {
  if (const std::optional<Tensor> known = b.constant_value(v)) return *known;
  if (const auto known = decided_.find(v.id()); known != decided_.end()) return known->second;
  bool varying = false;
  const std::vector<NodeId> nodes = ancestors(v, &varying);
  std::vector<std::string> wanted, computed;  // inputs whose value would do, and those of floats
  int64_t wanted_size = 0;
  for (NodeId id : nodes) {
    const Node& n = result.graph.node(id);
    if (n.op != Op::kInput) continue;
    const InputAttrs& input = std::get<InputAttrs>(n.attrs);
    if (input.role == InputRole::kRng) computed.push_back("random numbers");
    varying |= input.role == InputRole::kParameter || input.role == InputRole::kBuffer;
    if (input.role != InputRole::kData) continue;
    (is_float(input.dtype) ? computed : wanted).push_back(input.name);
    if (!is_float(input.dtype)) wanted_size += element_count(input.shape);
  }
  // Values of small integer inputs become part of the graph, which folds everything behind them.
  if (contents && (!computed.empty() || varying || wanted_size > kMaxBoundInput)) {
    // A copy: it may be an input or a weight itself, which the next call finds with other contents.
    const Tensor value = evaluate(v, nodes, what).clone();
    decided_.emplace(v.id(), value);
    result.decisions.push_back({v.id(), value});
    return value;
  }
  if (!computed.empty()) {
    std::string names;
    for (const std::string& name : computed) names += (names.empty() ? "" : ", ") + name;
    throw LowerError{"dynamic", what +
                                    " must be known when the plan is built, but depends on the "
                                    "contents of " +
                                    names};
  }
  if (!wanted.empty()) {
    for (std::string& name : wanted) {
      auto& list = result.needs_value;
      if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(std::move(name));
    }
    throw Poisoned{};
  }
  return evaluate(v, nodes, what);
}

Tensor Specializer::input_contents(const InputAttrs& input) const {
  // A copy: the caller may write to its tensors, and steps to the weights, while the plan lives.
  if (contents) return contents.of(input).clone();
  return stored_by_name_.at(input.name)->stored.value.to(options.working);
}

Tensor Specializer::evaluate(Var v, const std::vector<NodeId>& nodes, const std::string& what) {
  const Evaluator& compute = contents ? contents.evaluator : evaluator;
  for (NodeId id : nodes) {
    const Node& n = result.graph.node(id);
    if (n.op == Op::kInput) {
      known_[n.outputs[0]] = input_contents(std::get<InputAttrs>(n.attrs));
      varying_.insert(n.outputs[0]);
      continue;
    }
    if (const auto constant = b.constant_value(b.wrap(n.outputs[0]))) {
      known_[n.outputs[0]] = *constant;
      continue;
    }
    std::vector<Tensor> inputs;
    bool varying = false;
    for (ValueId input : n.inputs) {
      inputs.push_back(known_.at(input));
      varying |= varying_.contains(input);
    }
    std::vector<TensorType> types;
    for (ValueId output : n.outputs) {
      types.push_back(result.graph.type(output));
      known_bytes_ += types.back().bytes();
    }
    if (!compute || known_bytes_ > kMaxEvaluated) {
      throw LowerError{"dynamic", what +
                                      " must be known when the plan is built, but is too costly to "
                                      "compute then"};
    }
    // Hooks see the run of the step only.
    const std::vector<Tensor> outputs =
        n.op == Op::kHook ? inputs : compute(n.op, n.attrs, inputs, types);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      known_[n.outputs[k]] = outputs[k];
      if (varying) varying_.insert(n.outputs[k]);
    }
  }
  return known_.at(v.id());
}

}  // namespace trainrt
