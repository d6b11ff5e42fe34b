#include <algorithm>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

bool is_foldable(Op op) {
  return op != Op::kInput && op != Op::kConstant && op != Op::kFill && op != Op::kDropout &&
         op != Op::kRandom && !has_effects(op);
}

class Fold final : public Pass {
 public:
  explicit Fold(Evaluator evaluator) : evaluator_(std::move(evaluator)) {}
  std::string_view name() const override { return "fold"; }

  bool run(Graph& graph) override {
    if (!evaluator_) return false;
    return rewrite(graph, {}, [&](Builder& b, const Node& node, std::span<const Var> inputs) {
      Replacement result;
      if (!is_foldable(node.op) ||
          !std::all_of(inputs.begin(), inputs.end(), [&](Var v) { return b.is_constant(v); })) {
        return result;
      }
      std::vector<TensorType> types;
      size_t bytes = 0;
      for (ValueId v : node.outputs) {
        types.push_back(graph.type(v));
        bytes += types.back().bytes();
      }
      if (bytes > Builder::kFoldLimit) return result;
      std::vector<Tensor> operands;
      for (Var v : inputs) operands.push_back(*b.constant_value(v));
      std::vector<Tensor> values;
      try {
        values = evaluator_(node.op, node.attrs, operands, types);
      } catch (const Error&) {
        // It fails when it runs, with its name, unless nothing needs it.
        return result;
      }
      result.emplace();
      for (Tensor& value : values) result->push_back(b.constant(std::move(value)));
      return result;
    });
  }

 private:
  Evaluator evaluator_;
};

}  // namespace

std::unique_ptr<Pass> make_fold_pass(Evaluator evaluator) {
  return std::make_unique<Fold>(std::move(evaluator));
}

}  // namespace trainrt
