// GELU and SiLU.
#include <cmath>
#include <numbers>

#include "graph/passes/raise.h"

namespace trainrt {
namespace {

/// Equal up to the working type's rounding. In float64, constants that were written in float32 give
/// other values than the op, which the checks in float64 would see.
bool near(double a, double b, DType working) {
  return std::abs(a - b) <= (working == DType::kFloat64 ? 1e-15 : 2e-7) * std::abs(b);
}

/// factor times the values of `rest`.
struct Product {
  double factor = 1;
  std::vector<ValueId> rest;
};

/// Appends v to the product, taken apart when it is one itself that nothing else reads.
void multiply(const RaiseContext& c, ValueId v, Product& p);

void multiply_parts(const RaiseContext& c, const Node& node, Product& p) {
  if (node.op == Op::kMul) {
    multiply(c, node.inputs[0], p);
    multiply(c, node.inputs[1], p);
    return;
  }
  multiply(c, node.inputs[0], p);
  const double right = *c.uniform(node.inputs[1]);
  if (node.op == Op::kDiv) {
    p.factor /= right;
  } else {
    p.rest.insert(p.rest.end(), static_cast<size_t>(right) - 1, p.rest.back());
  }
}

bool is_product(const RaiseContext& c, const Node& node) {
  if (node.op == Op::kMul) return true;
  if (node.op != Op::kDiv && node.op != Op::kPow) return false;
  const auto right = c.uniform(node.inputs[1]);
  if (!right) return false;
  return node.op == Op::kDiv || ((right == 2.0 || right == 3.0) && !c.uniform(node.inputs[0]) &&
                                 !is_product(c, c.producer(node.inputs[0])));
}

void multiply(const RaiseContext& c, ValueId v, Product& p) {
  const Node& node = c.producer(v);
  if (const auto value = c.uniform(v)) {
    p.factor *= *value;
  } else if (is_product(c, node) && c.uses(v) == 1) {
    multiply_parts(c, node, p);
  } else {
    p.rest.push_back(v);
  }
}

/// The other operand when v is one of two.
std::optional<ValueId> other(const std::vector<ValueId>& two, ValueId v) {
  if (two.size() != 2) return std::nullopt;
  if (two[0] == v) return two[1];
  if (two[1] == v) return two[0];
  return std::nullopt;
}

/// The summand of `1 + v`, read by the pattern only.
std::optional<ValueId> above_one(const RaiseContext& c, ValueId v) {
  const Node* add = c.inner(v, Op::kAdd);
  if (add == nullptr) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (c.uniform(add->inputs[i]) == 1.0) return add->inputs[1 - i];
  }
  return std::nullopt;
}

/// Whether v is x / sqrt 2.
bool is_erf_argument(const RaiseContext& c, ValueId v, ValueId x) {
  Product p;
  multiply(c, v, p);
  return p.rest == std::vector{x} && near(p.factor, std::numbers::sqrt2 / 2, c.type(x).dtype);
}

/// Whether v is sqrt(2 / pi) (x + 0.044715 x^3), or with x drawn out of the bracket.
bool is_tanh_argument(const RaiseContext& c, ValueId v, ValueId x) {
  constexpr double kCubic = 0.044715;
  Product p;
  multiply(c, v, p);
  const DType working = c.type(x).dtype;
  if (!near(p.factor, std::sqrt(2 * std::numbers::inv_pi), working)) return false;
  const auto is_power = [&](ValueId term, size_t n) {
    Product q;
    multiply(c, term, q);
    return near(q.factor, kCubic, working) && q.rest == std::vector<ValueId>(n, x);
  };
  if (const auto bracket = other(p.rest, x)) {
    const auto term = above_one(c, *bracket);
    return term && is_power(*term, 2);
  }
  if (p.rest.size() != 1) return false;
  const Node* add = c.inner(p.rest[0], Op::kAdd);
  if (add == nullptr) return false;
  const auto term = other(add->inputs, x);
  return term && is_power(*term, 3);
}

// x (1 + erf(x / sqrt 2)) / 2, x (1 + tanh(…)) / 2
Replacement match_gelu(Builder& b, const Node& node, std::span<const Var>, const RaiseContext& c) {
  if (!is_product(c, node) || node.op == Op::kPow) return {};
  Product p;
  multiply_parts(c, node, p);
  if (p.rest.size() != 2 || p.factor != 0.5) return {};
  for (const ValueId x : p.rest) {
    if (c.type(x) != c.type(node.outputs[0])) continue;
    const auto function = above_one(c, *other(p.rest, x));
    if (!function) continue;
    const Node* erf = c.inner(*function, Op::kErf);
    const Node* tanh = c.inner(*function, Op::kTanh);
    if ((erf != nullptr && is_erf_argument(c, erf->inputs[0], x)) ||
        (tanh != nullptr && is_tanh_argument(c, tanh->inputs[0], x))) {
      return {{b.add(Op::kGelu, {c.var(x)}, GeluAttrs{tanh != nullptr})}};
    }
  }
  return {};
}

// x sigmoid(x)
Replacement match_silu(Builder& b, const Node& node, std::span<const Var>, const RaiseContext& c) {
  if (node.op != Op::kMul) return {};
  for (const ValueId x : node.inputs) {
    const Node* sigmoid = c.inner(*other(node.inputs, x), Op::kSigmoid);
    if (sigmoid != nullptr && sigmoid->inputs[0] == x) return {{b.add(Op::kSilu, {c.var(x)})}};
  }
  return {};
}

constexpr RaiseRule kRules[] = {{"gelu", match_gelu}, {"silu", match_silu}};

}  // namespace

std::span<const RaiseRule> raise_activation_rules() { return kRules; }

}  // namespace trainrt
