// LayerNorm, RmsNorm and Softmax from their formulas.
#include <algorithm>

#include "graph/passes/raise.h"

namespace trainrt {
namespace {

/// The operand of `op` over the axes from the result on, which keeps its dims; axis is set.
std::optional<ValueId> reduced(const RaiseContext& c, ValueId v, Op op, int64_t* axis) {
  const Node* node = c.inner(v, op);
  if (node == nullptr) return std::nullopt;
  const auto& attrs = std::get<ReduceAttrs>(node->attrs);
  const int64_t rank = c.type(node->inputs[0]).rank();
  const std::vector<int64_t>& axes = attrs.axes;
  if (!attrs.keepdims || axes.empty()) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != axes[0] + static_cast<int64_t>(i)) return std::nullopt;
  }
  if (op == Op::kReduceMean && axes.back() != rank - 1) return std::nullopt;
  if (op != Op::kReduceMean && axes.size() != 1) return std::nullopt;
  *axis = axes[0];
  return node->inputs[0];
}

bool is_square(const RaiseContext& c, ValueId v, ValueId x) {
  const Node* mul = c.inner(v, Op::kMul);
  if (mul != nullptr) return mul->inputs[0] == x && mul->inputs[1] == x;
  const Node* pow = c.inner(v, Op::kPow);
  return pow != nullptr && pow->inputs[0] == x && c.uniform(pow->inputs[1]) == 2.0;
}

/// x / sqrt(m + epsilon): x and m.
struct Quotient {
  ValueId x, m;
  double epsilon;
};

std::optional<Quotient> sum_with_epsilon(const RaiseContext& c, ValueId x, ValueId sum) {
  const Node* add = c.inner(sum, Op::kAdd);
  if (add == nullptr) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const auto epsilon = c.uniform(add->inputs[i]);
    if (epsilon && *epsilon >= 0) return Quotient{x, add->inputs[1 - i], *epsilon};
  }
  return std::nullopt;
}

/// x divided by the root v.
std::optional<Quotient> over_root(const RaiseContext& c, ValueId x, ValueId v) {
  const Node* root = c.inner(v, Op::kSqrt);
  if (root != nullptr) return sum_with_epsilon(c, x, root->inputs[0]);
  const Node* pow = c.inner(v, Op::kPow);
  if (pow == nullptr || c.uniform(pow->inputs[1]) != 0.5) return std::nullopt;
  return sum_with_epsilon(c, x, pow->inputs[0]);
}

std::optional<Quotient> quotient_of(const RaiseContext& c, const Node& node) {
  if (node.op == Op::kDiv) return over_root(c, node.inputs[0], node.inputs[1]);
  if (node.op != Op::kMul) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = node.inputs[i], inverse = node.inputs[1 - i];
    const Node *reciprocal = c.inner(inverse, Op::kReciprocal), *div = c.inner(inverse, Op::kDiv),
               *pow = c.inner(inverse, Op::kPow);
    std::optional<Quotient> result;
    if (reciprocal != nullptr) result = over_root(c, x, reciprocal->inputs[0]);
    if (div != nullptr && c.uniform(div->inputs[0]) == 1.0) {
      result = over_root(c, x, div->inputs[1]);
    }
    if (pow != nullptr && c.uniform(pow->inputs[1]) == -0.5) {
      result = sum_with_epsilon(c, x, pow->inputs[0]);
    }
    if (result) return result;
  }
  return std::nullopt;
}

// (x - mean x) / sqrt(mean (x - mean x)^2 + eps), x / sqrt(mean x^2 + eps)
Replacement match_norm(Builder& b, const Node& node, std::span<const Var>, const RaiseContext& c) {
  const auto q = quotient_of(c, node);
  if (!q) return {};
  int64_t axis = 0, mean_axis = 0;
  const auto squares = reduced(c, q->m, Op::kReduceMean, &axis);
  if (!squares || !is_square(c, *squares, q->x)) return {};
  if (c.type(q->x) != c.type(node.outputs[0])) return {};
  const NormAttrs attrs{axis, q->epsilon};
  const int32_t uses = c.producer(*squares).op == Op::kMul ? 3 : 2;
  if (const Node* sub = c.inner(q->x, Op::kSub, uses)) {
    const ValueId x = sub->inputs[0];
    if (reduced(c, sub->inputs[1], Op::kReduceMean, &mean_axis) == x && mean_axis == axis) {
      return {{b.add_all(Op::kLayerNorm, std::vector{c.var(x)}, attrs)[0]}};
    }
  }
  return {{b.add_all(Op::kRmsNorm, std::vector{c.var(q->x)}, attrs)[0]}};
}

/// The other operand where v is one operand of a Mul or Add, y, of a norm without a scale.
struct Scaled {
  const Node* norm;
  ValueId scale;
};

std::optional<Scaled> scaled_norm(const RaiseContext& c, const Node& mul, Op op) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* norm = c.inner(mul.inputs[i], op);
    if (norm == nullptr || norm->inputs.size() != 1 || norm->outputs[0] != mul.inputs[i]) continue;
    if (std::any_of(norm->outputs.begin() + 1, norm->outputs.end(),
                    [&](ValueId v) { return c.uses(v) != 0; })) {
      continue;
    }
    const Shape& x = c.shape(norm->inputs[0]);
    const Shape wanted(x.begin() + std::get<NormAttrs>(norm->attrs).axis, x.end());
    if (c.shape(mul.inputs[1 - i]) == wanted) return Scaled{norm, mul.inputs[1 - i]};
  }
  return std::nullopt;
}

// RmsNorm(x) scale; LayerNorm(x) scale + bias
Replacement match_scaled_norm(Builder& b, const Node& node, std::span<const Var>,
                              const RaiseContext& c) {
  if (node.op == Op::kMul) {
    const auto s = scaled_norm(c, node, Op::kRmsNorm);
    if (!s) return {};
    const std::vector<Var> operands = {c.var(s->norm->inputs[0]), c.var(s->scale)};
    return {{b.add_all(Op::kRmsNorm, operands, s->norm->attrs)[0]}};
  }
  if (node.op != Op::kAdd) return {};
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node* mul = c.inner(node.inputs[i], Op::kMul);
    if (mul == nullptr) continue;
    const auto s = scaled_norm(c, *mul, Op::kLayerNorm);
    const ValueId bias = node.inputs[1 - i];
    if (!s || c.shape(bias) != c.shape(s->scale)) continue;
    const std::vector<Var> operands = {c.var(s->norm->inputs[0]), c.var(s->scale), c.var(bias)};
    return {{b.add_all(Op::kLayerNorm, operands, s->norm->attrs)[0]}};
  }
  return {};
}

// e^(x - max x) / sum of e^(x - max x)
Replacement match_softmax(Builder& b, const Node& node, std::span<const Var>,
                          const RaiseContext& c) {
  if (node.op != Op::kDiv) return {};
  int64_t axis = 0, peak_axis = 0;
  const auto e = reduced(c, node.inputs[1], Op::kReduceSum, &axis);
  if (!e || *e != node.inputs[0]) return {};
  const Node* exp = c.inner(*e, Op::kExp, 2);
  const Node* sub = exp == nullptr ? nullptr : c.inner(exp->inputs[0], Op::kSub);
  if (sub == nullptr) return {};
  const ValueId x = sub->inputs[0];
  const Node* stop = c.inner(sub->inputs[1], Op::kStopGradient);
  const ValueId peak = stop == nullptr ? sub->inputs[1] : stop->inputs[0];
  if (reduced(c, peak, Op::kReduceMax, &peak_axis) != x || peak_axis != axis) return {};
  return {{b.add(Op::kSoftmax, {c.var(x)}, AxisAttrs{axis})}};
}

constexpr RaiseRule kRules[] = {
    {"norm", match_norm}, {"scaled norm", match_scaled_norm}, {"softmax", match_softmax}};

}  // namespace

std::span<const RaiseRule> raise_norm_rules() { return kRules; }

}  // namespace trainrt
