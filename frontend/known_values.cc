// Values that must be known while a plan is built: found, computed from weights, or asked for.
#include <algorithm>

#include "frontend/specializer.h"

namespace trainrt {
namespace {

constexpr uint64_t kMaxFolded = uint64_t{2} << 30;     // bytes of constants computed for one graph
constexpr uint64_t kMaxEvaluated = uint64_t{1} << 30;  // bytes for one value

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

/// The nodes that v is computed from, by index; Input nodes are among them.
std::vector<bool> Specializer::ancestors(Var v) const {
  std::vector<bool> seen(index(result.graph.node_count()), false);
  std::vector<NodeId> open = {result.graph.value(v.id()).producer};
  seen[index(open[0].index)] = true;
  while (!open.empty()) {
    const Node& n = result.graph.node(open.back());
    open.pop_back();
    for (ValueId input : n.inputs) {
      const NodeId producer = result.graph.value(input).producer;
      if (seen[index(producer.index)]) continue;
      seen[index(producer.index)] = true;
      open.push_back(producer);
    }
  }
  return seen;
}

Tensor Specializer::constant_of(Var v, const std::string& what) {
  if (const std::optional<Tensor> known = b.constant_value(v)) return *known;
  const std::vector<bool> nodes = ancestors(v);
  std::vector<std::string> wanted, contents;  // inputs whose value would do, and those of floats
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i]) continue;
    const Node& n = result.graph.nodes()[i];
    if (n.op != Op::kInput) continue;
    const InputAttrs& input = std::get<InputAttrs>(n.attrs);
    if (input.role == InputRole::kRng) contents.push_back("random numbers");
    if (input.role != InputRole::kData) continue;
    (is_float(input.dtype) ? contents : wanted).push_back(input.name);
  }
  if (!contents.empty()) {
    std::string names;
    for (const std::string& name : contents) names += (names.empty() ? "" : ", ") + name;
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

/// v from the stored weights.
Tensor Specializer::evaluate(Var v, const std::vector<bool>& nodes, const std::string& what) {
  std::map<ValueId, Tensor> values;
  uint64_t bytes = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i]) continue;
    const Node& n = result.graph.nodes()[i];
    if (n.op == Op::kInput) {
      const ImportedWeight* w = stored_by_name_.at(std::get<InputAttrs>(n.attrs).name);
      values[n.outputs[0]] = w->stored.value.to(options.working);
    } else if (const auto known = b.constant_value(b.wrap(n.outputs[0]))) {
      values[n.outputs[0]] = *known;
    } else {
      std::vector<Tensor> inputs;
      for (ValueId input : n.inputs) inputs.push_back(values.at(input));
      std::vector<TensorType> types;
      for (ValueId output : n.outputs) {
        types.push_back(result.graph.type(output));
        bytes += types.back().bytes();
      }
      if (!evaluator || bytes > kMaxEvaluated) {
        throw LowerError{"dynamic", what +
                                        " must be known when the plan is built, but is too "
                                        "costly to compute then"};
      }
      const std::vector<Tensor> outputs = evaluator(n.op, n.attrs, inputs, types);
      for (size_t k = 0; k < outputs.size(); ++k) values[n.outputs[k]] = outputs[k];
    }
  }
  return values.at(v.id());
}

}  // namespace trainrt
