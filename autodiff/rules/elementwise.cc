#include <algorithm>
#include <cmath>
#include <numbers>

#include "autodiff/rule.h"

namespace trainrt {
namespace {

/// Whether a factor is known to be a number everywhere.
bool is_finite(Builder& b, Var v) {
  const std::optional<Tensor> value = b.constant_value(v);
  if (!value) return false;
  const Tensor doubles = value->to(DType::kFloat64);
  const std::span<const double> data = doubles.data<double>();
  return std::all_of(data.begin(), data.end(), [](double d) { return std::isfinite(d); });
}

// Where nothing flows in nothing flows on, however steep the function is there or if it is none at
// all: Where, Clip, Relu and others cut off values that may be out of a function's domain.
Var chain(Var dy, Var factor) {
  if (is_finite(dy.builder(), factor)) return dy * factor;
  return dy.builder().add(Op::kChainMul, {dy, factor});
}
Var chain_div(Var dy, Var divisor) {
  const std::optional<Tensor> value = dy.builder().constant_value(divisor);
  if (is_finite(dy.builder(), divisor) && value->size() == 1 && value->item() != 0) {
    return dy / divisor;
  }
  return dy.builder().add(Op::kChainDiv, {dy, divisor});
}

// y = -x  =>  dx = -dy
Grads neg_grad(const GradArgs& a) { return {-a.dy()}; }

// y = |x|  =>  dx = dy sign x, 0 at 0
Grads abs_grad(const GradArgs& a) { return {chain(a.dy(), sign(a.x()))}; }

// y = e^x  =>  dx = dy y
Grads exp_grad(const GradArgs& a) { return {chain(a.dy(), a.y())}; }

// y = log x  =>  dx = dy / x
Grads log_grad(const GradArgs& a) { return {chain_div(a.dy(), a.x())}; }

// y = sqrt x  =>  dx = dy / 2y
Grads sqrt_grad(const GradArgs& a) { return {chain_div(0.5 * a.dy(), a.y())}; }

// y = 1/x  =>  dx = -dy y^2
Grads reciprocal_grad(const GradArgs& a) { return {-chain(a.dy(), square(a.y()))}; }

// y = sin x  =>  dx = dy cos x
Grads sin_grad(const GradArgs& a) { return {chain(a.dy(), unary(Op::kCos, a.x()))}; }

// y = cos x  =>  dx = -dy sin x
Grads cos_grad(const GradArgs& a) { return {-chain(a.dy(), unary(Op::kSin, a.x()))}; }

// y = tan x  =>  dx = dy (1 + y^2)
Grads tan_grad(const GradArgs& a) { return {chain(a.dy(), 1.0 + square(a.y()))}; }

// y = asin x  =>  dx = dy / sqrt(1 - x^2)
Grads asin_grad(const GradArgs& a) { return {chain_div(a.dy(), sqrt(1.0 - square(a.x())))}; }

// y = acos x  =>  dx = -dy / sqrt(1 - x^2)
Grads acos_grad(const GradArgs& a) { return {-chain_div(a.dy(), sqrt(1.0 - square(a.x())))}; }

// y = atan x  =>  dx = dy / (1 + x^2)
Grads atan_grad(const GradArgs& a) { return {chain_div(a.dy(), 1.0 + square(a.x()))}; }

// y = sinh x  =>  dx = dy cosh x
Grads sinh_grad(const GradArgs& a) { return {chain(a.dy(), unary(Op::kCosh, a.x()))}; }

// y = cosh x  =>  dx = dy sinh x
Grads cosh_grad(const GradArgs& a) { return {chain(a.dy(), unary(Op::kSinh, a.x()))}; }

// y = asinh x  =>  dx = dy / sqrt(x^2 + 1)
Grads asinh_grad(const GradArgs& a) { return {chain_div(a.dy(), sqrt(square(a.x()) + 1.0))}; }

// y = acosh x  =>  dx = dy / sqrt((x - 1)(x + 1))
Grads acosh_grad(const GradArgs& a) {
  return {chain_div(a.dy(), sqrt((a.x() - 1.0) * (a.x() + 1.0)))};
}

// y = atanh x  =>  dx = dy / (1 - x^2)
Grads atanh_grad(const GradArgs& a) { return {chain_div(a.dy(), 1.0 - square(a.x()))}; }

// y = tanh x  =>  dx = dy (1 - y^2)
Grads tanh_grad(const GradArgs& a) { return {chain(a.dy(), 1.0 - square(a.y()))}; }

// y = sigmoid x  =>  dx = dy y (1 - y)
Grads sigmoid_grad(const GradArgs& a) { return {chain(a.dy(), a.y() * (1.0 - a.y()))}; }

// y = log(1 + e^x)  =>  dx = dy sigmoid x
Grads softplus_grad(const GradArgs& a) { return {chain(a.dy(), sigmoid(a.x()))}; }

// y = erf x  =>  dx = dy 2/sqrt(pi) e^(-x^2)
Grads erf_grad(const GradArgs& a) {
  return {chain(a.dy() * (2.0 * std::numbers::inv_sqrtpi), exp(-square(a.x())))};
}

// y = max(x, 0)  =>  dx = dy where y > 0
Grads relu_grad(const GradArgs& a) { return {a.builder().add(Op::kReluGrad, {a.dy(), a.y()})}; }

// z = dy where y > 0: linear in dy
Grads relu_grad_grad(const GradArgs& a) {
  return {a.builder().add(Op::kReluGrad, {a.dy(), a.x(1)})};
}

// y = min(max(x, lo), hi)  =>  dx = dy where lo <= x <= hi
Grads clip_grad(const GradArgs& a) {
  return {a.builder().add(Op::kClipGrad, {a.dy(), a.x()}, a.attr<ClipAttrs>())};
}

// z = dy where lo <= x <= hi: linear in dy
Grads clip_grad_grad(const GradArgs& a) {
  return {a.builder().add(Op::kClipGrad, {a.dy(), a.x(1)}, a.attr<ClipAttrs>())};
}

// y = x  =>  dx = dy
Grads identity_grad(const GradArgs& a) { return {a.dy()}; }

Grads cast_grad(const GradArgs& a) { return {cast(a.dy(), a.x().dtype())}; }

// The nearest value of a coarser grid is taken for x itself  =>  dx = dy
Grads round_to_grad(const GradArgs& a) { return {a.dy()}; }

// c = a + b  =>  da = db = dc
Grads add_grad(const GradArgs& a) { return {a.dy(), a.dy()}; }

// c = a - b  =>  da = dc, db = -dc
Grads sub_grad(const GradArgs& a) {
  return {a.dy(), a.want(1, [&] { return -a.dy(); })};
}

// c = a b  =>  da = dc b, db = dc a
Grads mul_grad(const GradArgs& a) {
  return {a.want(0, [&] { return chain(a.dy(), a.x(1)); }),
          a.want(1, [&] { return chain(a.dy(), a.x(0)); })};
}

// c = a / b  =>  da = dc / b, db = -dc c / b
Grads div_grad(const GradArgs& a) {
  return {a.want(0, [&] { return chain_div(a.dy(), a.x(1)); }),
          a.want(1, [&] { return -chain_div(chain(a.dy(), a.y()), a.x(1)); })};
}

/// The value that all elements of a constant share.
std::optional<double> uniform_value(const GradArgs& a, Var v) {
  if (v.type().size() == 0) return std::nullopt;
  const std::optional<Tensor> value = a.builder().constant_value(v);
  if (!value) return std::nullopt;
  const Tensor doubles = value->to(DType::kFloat64);
  const std::span<const double> data = doubles.data<double>();
  for (double d : data) {
    if (d != data[0]) return std::nullopt;
  }
  return data[0];
}

/// b a^(b-1) dc; 0 where b = 0, for a = 0 would make it 0 * inf. Common constant exponents spare
/// the power.
Var pow_base_grad(const GradArgs& a) {
  const Var base = a.x(0), exponent = a.x(1);
  if (const auto b = uniform_value(a, exponent)) {
    if (*b == 0) return full_like(a.dy(), 0);
    if (*b == 1) return a.dy();
    if (*b == 2) return chain(2.0 * a.dy(), base);
    if (*b == 0.5) return chain_div(0.5 * a.dy(), a.y());
    return chain(*b * a.dy(), pow(base, *b - 1));
  }
  const Var zero = full_like(exponent, 0);
  return where(equal(exponent, zero), 0.0, chain(a.dy(), exponent * pow(base, exponent - 1.0)));
}

// c = a^b  =>  da = dc b a^(b-1), db = dc c log a where a > 0, else 0
Grads pow_grad(const GradArgs& a) {
  return {a.want(0, [&] { return pow_base_grad(a); }), a.want(1, [&] {
            const Var positive = greater(a.x(0), 0.0);
            return where(positive, chain(a.dy(), a.y() * log(where(positive, a.x(0), 1.0))), 0.0);
          })};
}

// c = a - b floor(a / b)  =>  da = dc, db = -dc floor(a / b)
Grads mod_grad(const GradArgs& a) {
  return {a.dy(), a.want(1, [&] { return -chain(a.dy(), unary(Op::kFloor, a.x(0) / a.x(1))); })};
}

// c = a - b trunc(a / b)  =>  da = dc, db = -dc trunc(a / b)
Grads fmod_grad(const GradArgs& a) {
  return {a.dy(), a.want(1, [&] {
            const Var q = a.x(0) / a.x(1);
            return -chain(a.dy(), sign(q) * unary(Op::kFloor, abs(q)));
          })};
}

/// dc to the operand that wins, half of it to each when they tie.
Var winner(Var dy, Var wins, Var ties) { return where(wins, dy, where(ties, 0.5 * dy, 0.0)); }

// c = max(a, b)  =>  da = dc where a > b, dc/2 where a = b, else 0; db likewise
Grads max_grad(const GradArgs& a) {
  const Var l = a.x(0), r = a.x(1);
  return {a.want(0, [&] { return winner(a.dy(), greater(l, r), equal(l, r)); }),
          a.want(1, [&] { return winner(a.dy(), less(l, r), equal(l, r)); })};
}

Grads min_grad(const GradArgs& a) {
  const Var l = a.x(0), r = a.x(1);
  return {a.want(0, [&] { return winner(a.dy(), less(l, r), equal(l, r)); }),
          a.want(1, [&] { return winner(a.dy(), greater(l, r), equal(l, r)); })};
}

// y = c ? t : e  =>  dt = c ? dy : 0, de = c ? 0 : dy
Grads where_grad(const GradArgs& a) {
  return {Var(), a.want(1, [&] { return where(a.x(0), a.dy(), 0.0); }),
          a.want(2, [&] { return where(a.x(0), 0.0, a.dy()); })};
}

constexpr GradRow none(Op op) { return {op, nullptr, GradKind::kNone}; }

constexpr GradRow kRows[] = {
    {Op::kNeg, neg_grad},
    {Op::kAbs, abs_grad},
    none(Op::kSign),
    {Op::kExp, exp_grad},
    {Op::kLog, log_grad},
    {Op::kSqrt, sqrt_grad},
    {Op::kReciprocal, reciprocal_grad},
    {Op::kSin, sin_grad},
    {Op::kCos, cos_grad},
    {Op::kTan, tan_grad},
    {Op::kAsin, asin_grad},
    {Op::kAcos, acos_grad},
    {Op::kAtan, atan_grad},
    {Op::kSinh, sinh_grad},
    {Op::kCosh, cosh_grad},
    {Op::kAsinh, asinh_grad},
    {Op::kAcosh, acosh_grad},
    {Op::kAtanh, atanh_grad},
    {Op::kTanh, tanh_grad},
    {Op::kSigmoid, sigmoid_grad},
    {Op::kSoftplus, softplus_grad},
    {Op::kErf, erf_grad},
    {Op::kRelu, relu_grad},
    none(Op::kFloor),
    none(Op::kCeil),
    none(Op::kRound),
    {Op::kClip, clip_grad},
    none(Op::kNot),
    none(Op::kBitwiseNot),
    none(Op::kIsNaN),
    {Op::kIdentity, identity_grad},
    none(Op::kStopGradient),
    {Op::kCast, cast_grad},
    none(Op::kBitCast),
    {Op::kRoundTo, round_to_grad},
    {Op::kAdd, add_grad},
    {Op::kSub, sub_grad},
    {Op::kMul, mul_grad},
    {Op::kDiv, div_grad},
    {Op::kChainMul, mul_grad},
    {Op::kChainDiv, div_grad},
    {Op::kPow, pow_grad},
    {Op::kMod, mod_grad},
    {Op::kFmod, fmod_grad},
    {Op::kMax, max_grad},
    {Op::kMin, min_grad},
    none(Op::kEqual),
    none(Op::kLess),
    none(Op::kLessEqual),
    none(Op::kGreater),
    none(Op::kGreaterEqual),
    none(Op::kAnd),
    none(Op::kOr),
    none(Op::kXor),
    none(Op::kBitwiseAnd),
    none(Op::kBitwiseOr),
    none(Op::kBitwiseXor),
    none(Op::kShiftLeft),
    none(Op::kShiftRight),
    {Op::kWhere, where_grad, GradKind::kRule, 0b001},
    {Op::kReluGrad, relu_grad_grad, GradKind::kRule, 0b10},
    {Op::kClipGrad, clip_grad_grad, GradKind::kRule, 0b10},
    {Op::kFused, nullptr, GradKind::kUnsupported},  // made of differentiated graphs only
};

}  // namespace

std::span<const GradRow> elementwise_rules() { return kRows; }

}  // namespace trainrt
