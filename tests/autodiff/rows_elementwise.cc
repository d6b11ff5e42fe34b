#include <limits>

#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Row with_constant_exponent(std::string name, Operand base, double exponent) {
  return {
      Op::kPow, std::move(name), {std::move(base)}, [exponent](Builder&, std::span<const Var> x) {
        return std::vector<Var>{pow(x[0], exponent)};
      }};
}

void add_unary(std::vector<Row>& rows) {
  const struct {
    Op op;
    double lo, hi;
  } smooth[] = {
      {Op::kNeg, -2, 2},       {Op::kExp, -2, 2},       {Op::kLog, 0.3, 3},
      {Op::kSqrt, 0.3, 3},     {Op::kReciprocal, 1, 3}, {Op::kSin, -3, 3},
      {Op::kCos, -3, 3},       {Op::kTan, -1, 1},       {Op::kAsin, -0.8, 0.8},
      {Op::kAcos, -0.8, 0.8},  {Op::kAtan, -3, 3},      {Op::kSinh, -2, 2},
      {Op::kCosh, -2, 2},      {Op::kAsinh, -3, 3},     {Op::kAcosh, 1.3, 3},
      {Op::kAtanh, -0.8, 0.8}, {Op::kTanh, -2, 2},      {Op::kSigmoid, -3, 3},
      {Op::kSoftplus, -3, 3},  {Op::kErf, -2, 2},       {Op::kIdentity, -2, 2},
  };
  for (const auto& [op, lo, hi] : smooth) {
    rows.push_back(node(op, "matrix", {uniform({3, 4}, lo, hi)}));
  }
  rows.push_back(node(Op::kGelu, "erf", {uniform({3, 4}, -3, 3)}, GeluAttrs{false}));
  rows.push_back(node(Op::kGelu, "tanh", {uniform({3, 4}, -3, 3)}, GeluAttrs{true}));
  rows.push_back(node(Op::kGelu, "large", {values({4}, {-40, -9, 9, 40})}, GeluAttrs{false}));
  rows.push_back(node(Op::kGelu, "large, tanh", {values({4}, {-40, -9, 9, 40})}, GeluAttrs{true}));
  rows.push_back(node(Op::kSilu, "matrix", {uniform({3, 4}, -3, 3)}));
  rows.push_back(node(Op::kSilu, "large", {values({4}, {-800, -9, 9, 800})}));
  rows.push_back(node(Op::kTanh, "rank 0", {normal({})}));
  rows.push_back(node(Op::kTanh, "empty", {normal({0, 3})}));
  rows.push_back(node(Op::kReciprocal, "negative", {uniform({5}, -3, -1)}));
  rows.push_back(node(Op::kSoftplus, "large", {values({4}, {-800, -40, 40, 800})}));
  rows.push_back(node(Op::kSigmoid, "large", {values({4}, {-800, -4, 4, 800})}));
  rows.push_back(node(Op::kAbs, "off 0", {away_from({3, 4}, {0})}));
  rows.push_back(node(Op::kRelu, "off 0", {away_from({3, 4}, {0})}));
  rows.push_back(
      node(Op::kClip, "off the bounds", {away_from({3, 4}, {-0.5, 1})}, ClipAttrs{-0.5, 1}));
  rows.push_back(node(Op::kClip, "one bound", {away_from({3, 4}, {0.5})}, ClipAttrs{0.5, kInf}));
  rows.push_back(node(Op::kCast, "same type", {normal({3})}, CastAttrs{DType::kFloat64}));
}

void add_binary(std::vector<Row>& rows) {
  const struct {
    std::string name;
    Shape a, b;
  } forms[] = {
      {"same shape", {2, 3}, {2, 3}},
      {"scalar right", {2, 3}, {}},
      {"scalar left", {}, {2, 3}},
      {"row", {2, 3}, {3}},
      {"column", {2, 1}, {2, 3}},
      {"both stretched", {3, 1}, {1, 4}},
      {"lower rank left", {4}, {2, 3, 4}},
      {"middle", {2, 3, 4}, {3, 1}},
      {"both stretched, ranks differ", {2, 1, 3}, {4, 1}},
      {"ones", {1}, {1, 1}},
      {"empty", {0, 3}, {3}},
      {"empty against one", {2, 0}, {2, 1}},
  };
  for (const auto& [name, a, b] : forms) {
    rows.push_back(node(Op::kAdd, name, {normal(a), normal(b)}));
    rows.push_back(node(Op::kSub, name, {normal(a), normal(b)}));
    rows.push_back(node(Op::kMul, name, {normal(a), normal(b)}));
    rows.push_back(node(Op::kDiv, name, {normal(a), uniform(b, 0.5, 2)}));
    rows.push_back(node(Op::kChainMul, name, {normal(a), normal(b)}));
    rows.push_back(node(Op::kChainDiv, name, {normal(a), uniform(b, 0.5, 2)}));
    rows.push_back(node(Op::kPow, name, {uniform(a, 0.3, 2), uniform(b, -2, 2)}));
    rows.push_back(node(Op::kMax, name, {uniform(a, 0, 1), uniform(b, 1.1, 2)}));
    rows.push_back(node(Op::kMin, name, {uniform(a, 0, 1), uniform(b, 1.1, 2)}));
  }
  rows.push_back(node(Op::kMax, "mixed", {values({4}, {1, -2, 3, 0}), values({4}, {0, 2, 1, 5})}));
  rows.push_back(node(Op::kMin, "mixed", {values({4}, {1, -2, 3, 0}), values({4}, {0, 2, 1, 5})}));
  rows.push_back(node(Op::kDiv, "negative", {normal({3}), uniform({3}, -2, -0.5)}));
  rows.push_back(with_constant_exponent("constant 2", normal({3, 2}), 2));
  rows.push_back(with_constant_exponent("constant 2, base 0", values({3}, {0, -1.5, 2}), 2));
  rows.push_back(with_constant_exponent("constant 3, negative base", values({3}, {0, -1.5, 2}), 3));
  rows.push_back(with_constant_exponent("constant 1, base 0", values({3}, {0, -1.5, 2}), 1));
  rows.push_back(with_constant_exponent("constant 0, base 0", values({3}, {0, -1.5, 2}), 0));
  rows.push_back(with_constant_exponent("constant 1/2", uniform({4}, 0.3, 3), 0.5));
  rows.push_back(with_constant_exponent("constant -1.5", uniform({4}, 0.3, 3), -1.5));
  // Away from whole quotients, where Mod and Fmod jump.
  rows.push_back(node(Op::kMod, "signs",
                      {values({4}, {5.3, -5.3, 5.3, -5.3}), values({4}, {2, 2, -2, -2})}, {}));
  rows.push_back(node(Op::kFmod, "signs",
                      {values({4}, {5.3, -5.3, 5.3, -5.3}), values({4}, {2, 2, -2, -2})}, {}));
  rows.push_back(node(Op::kMod, "broadcast", {values({2, 1}, {5.3, -1.4}), values({2}, {2, -3})}));
  rows.push_back(node(Op::kFmod, "broadcast", {values({2, 1}, {5.3, -1.4}), values({2}, {2, -3})}));
  for (Row& row : rows) {
    if (row.op == Op::kMod || row.op == Op::kFmod) row.shareable = false;  // x mod x jumps
  }
}

}  // namespace

std::vector<Row> elementwise_rows() {
  std::vector<Row> rows;
  add_unary(rows);
  add_binary(rows);
  rows.push_back(node(Op::kWhere, "same shape",
                      {bools({2, 2}, {1, 0, 0, 1}), normal({2, 2}), normal({2, 2})}));
  rows.push_back(
      node(Op::kWhere, "all stretched", {bools({2, 1, 1}, {1, 0}), normal({3, 1}), normal({4})}));
  rows.push_back(node(Op::kWhere, "condition has the larger shape",
                      {bools({2, 3}, {1, 0, 0, 1, 1, 0}), normal({}), normal({3})}));
  rows.push_back(node(Op::kWhere, "empty", {bools({0}, {}), normal({1}), normal({0})}));
  // Differences see no steps of 2^-45.
  rows.push_back(node(Op::kRoundTo, "a fine grid", {normal({3, 4})}, RoundToAttrs{45, -20, 1e6}));
  Operand selector = away_from({3, 4}, {0});
  selector.differentiable = false;
  rows.push_back(node(Op::kReluGrad, "off 0", {normal({3, 4}), selector}));
  rows.push_back(
      node(Op::kClipGrad, "off the bounds", {normal({3, 4}), selector}, ClipAttrs{0, kInf}));
  return rows;
}

}  // namespace trainrt::test
