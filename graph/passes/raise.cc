#include "graph/passes/raise.h"

#include "graph/passes/passes.h"

namespace trainrt {

RaiseContext::RaiseContext(const Graph& graph)
    : graph_(graph), uses_(use_counts(graph)), vars_(static_cast<size_t>(graph.value_count())) {}

const Node* RaiseContext::inner(ValueId v, Op op, int32_t uses) const {
  const Node& node = producer(v);
  return node.op == op && this->uses(v) == uses ? &node : nullptr;
}

std::optional<double> RaiseContext::uniform(ValueId v) const {
  const Node& node = producer(v);
  if (node.op == Op::kFill) return std::get<FillAttrs>(node.attrs).value;
  if (node.op != Op::kConstant) return std::nullopt;
  const Tensor& t = std::get<ConstantAttrs>(node.attrs).value;
  if (t.size() != 1 || !is_float(t.dtype())) return std::nullopt;
  return t.to(DType::kFloat64).item();
}

void RaiseContext::note(const Node& node, std::span<const Var> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    vars_[static_cast<size_t>(node.inputs[i].index)] = inputs[i];
  }
}

namespace {

class Raise final : public Pass {
 public:
  explicit Raise(Evaluator evaluator) : evaluator_(std::move(evaluator)) {
    for (const auto family : {raise_activation_rules, raise_norm_rules, raise_attention_rules,
                              raise_patch_rules, raise_table_rules}) {
      const auto rules = family();
      rules_.insert(rules_.end(), rules.begin(), rules.end());
    }
  }
  std::string_view name() const override { return "raise"; }

  // A pattern may hold what another one is raised to, and counts uses: rounds, without dead nodes.
  bool run(Graph& graph) override {
    const auto dead_code = make_dead_code_pass();
    bool changed = dead_code->run(graph);
    while (round(graph)) {
      changed = true;
      dead_code->run(graph);
    }
    return changed;
  }

 private:
  bool round(Graph& graph) const {
    RaiseContext context(graph);
    return rewrite(graph, evaluator_,
                   [&](Builder& b, const Node& node, std::span<const Var> inputs) {
                     context.note(node, inputs);
                     for (const RaiseRule& rule : rules_) {
                       if (Replacement r = rule.match(b, node, inputs, context)) return r;
                     }
                     return Replacement();
                   });
  }

  Evaluator evaluator_;
  std::vector<RaiseRule> rules_;
};

}  // namespace

std::unique_ptr<Pass> make_raise_pass(Evaluator evaluator) {
  return std::make_unique<Raise>(std::move(evaluator));
}

}  // namespace trainrt
