// Arithmetic, comparison, logic, Where, Cast and Clip.
#include <cmath>

#include "frontend/lower_narrow.h"
#include "frontend/lower_util.h"
#include "graph/infer.h"

namespace trainrt {
namespace {

using namespace lowering;

// Operands of Where and of variadic ops may differ in nothing but shape.
template <Op kPair>
Var folded(LowerContext& c) {
  Var y = c.need(0);
  for (size_t i = 1; i < c.input_count(); ++i) y = binary(kPair, y, c.need(i));
  return y;
}

void lower_sum(LowerContext& c) { c.set(folded<Op::kAdd>(c)); }

void lower_mean(LowerContext& c) {
  c.set(folded<Op::kAdd>(c) / static_cast<double>(c.input_count()));
}

// More than two operands are stacked, so that ties among all of them share the gradient evenly.
template <Op kPair, Op kReduce>
void lower_extremum(LowerContext& c) {
  if (c.input_count() <= 2) {
    c.set(folded<kPair>(c));
    return;
  }
  Shape shape;
  for (size_t i = 0; i < c.input_count(); ++i) shape = broadcast_shapes(shape, c.need(i).shape());
  std::vector<Var> parts;
  for (size_t i = 0; i < c.input_count(); ++i) {
    parts.push_back(unsqueeze(expand(c.need(i), shape), {0}));
  }
  c.set(c.b.add(kReduce, {concat(parts, 0)}, ReduceAttrs{{0}, false}));
}

void lower_mod(LowerContext& c) {
  const Op op = c.attr_int("fmod", 0) != 0 ? Op::kFmod : Op::kMod;
  c.set(binary(op, c.need(0), c.need(1)));
}

// x^p for the exponents with a shorter formula, whose gradient is finite where the true one is.
std::optional<Var> short_power(Var x, double p) {
  if (p == 0) return full_like(x, 1);
  if (p == 1) return x;
  if (p == 2) return square(x);
  if (p == 3) return x * x * x;
  if (!is_float(x.dtype())) return std::nullopt;
  if (p == 0.5) return sqrt(x);
  if (p == -1) return reciprocal(x);
  if (p == -0.5) return reciprocal(sqrt(x));
  if (p == -2) return reciprocal(square(x));
  return std::nullopt;
}

// The result has the base's type whatever the exponent's is.
void lower_pow(LowerContext& c) {
  const Var x = c.need(0), p = c.need(1);
  if (const auto known = c.try_constant(1); known && known->size() == 1) {
    if (const auto y = short_power(x, known->item())) {
      c.set(p.rank() > x.rank() ? reshape(*y, broadcast_shapes(x.shape(), p.shape())) : *y);
      return;
    }
  }
  if (is_float(x.dtype())) {
    c.set(pow(x, cast(p, x.dtype())));
  } else {
    c.set(cast(pow(cast(x, DType::kFloat64), cast(p, DType::kFloat64)), x.dtype()));
  }
}

DType unsigned_of(DType type) {
  switch (type) {
    case DType::kInt8:
      return DType::kUInt8;
    case DType::kInt16:
      return DType::kUInt16;
    case DType::kInt32:
      return DType::kUInt32;
    case DType::kInt64:
      return DType::kUInt64;
    default:
      return type;
  }
}

// Signed numbers (opset 28) are shifted as unsigned ones; to the right a negative x is ~(~x >> y).
void lower_bit_shift(LowerContext& c) {
  const std::string direction = c.attr_string("direction");
  if (direction != "LEFT" && direction != "RIGHT") {
    c.invalid("direction is LEFT or RIGHT, not '" + direction + "'");
  }
  const Var x = c.need(0);
  const DType type = x.dtype(), bits = unsigned_of(type);
  const Var by = cast(c.need(1), unsigned_of(c.in(1).dtype()));
  if (direction == "LEFT") {
    c.set(cast(binary(Op::kShiftLeft, cast(x, bits), by), type));
  } else if (bits == type) {
    c.set(binary(Op::kShiftRight, x, by));
  } else {
    const Var negative = less(x, 0);
    const Var magnitude = where(negative, unary(Op::kBitwiseNot, x), x);
    const Var y = cast(binary(Op::kShiftRight, cast(magnitude, bits), by), type);
    c.set(where(negative, unary(Op::kBitwiseNot, y), y));
  }
}

void lower_is_inf(LowerContext& c) {
  const Var x = c.need(0);
  const bool positive = c.attr_int("detect_positive", 1) != 0;
  const bool negative = c.attr_int("detect_negative", 1) != 0;
  if (!positive && !negative) {
    c.set(c.b.fill(DType::kBool, 0, x.shape()));
    return;
  }
  const Var bound = c.b.fill(x.dtype(), positive ? kInf : -kInf);
  c.set(equal(positive && negative ? abs(x) : x, bound));
}

void lower_where(LowerContext& c) { c.set(where(c.need(0), c.need(1), c.need(2))); }

// Bounds of opset 6 to 10.
void lower_clip_6(LowerContext& c) {
  c.set(clip(c.need(0), c.attr_float("min", -kInf), c.attr_float("max", kInf)));
}

// min(max(x, lo), hi); inside the closed interval the gradient is 1.
void lower_clip(LowerContext& c) {
  Var x = c.need(0);
  Var bounds[2];
  double values[2] = {-kInf, kInf};
  bool known = is_float(x.dtype());
  for (size_t i = 0; i < 2; ++i) {
    if (!c.has(i + 1)) continue;
    if (c.in(i + 1).type().size() != 1) {
      c.invalid("the bounds of Clip are scalars, not " + to_string(c.in(i + 1).type()));
    }
    bounds[i] = reshape(stop_gradient(cast(c.in(i + 1), x.dtype())), {});
    const auto value = c.try_constant(i + 1);
    if (value) values[i] = value->item();
    known = known && value.has_value();
  }
  const Var lo = bounds[0], hi = bounds[1];
  if (!lo && !hi) {
    c.set(x);
  } else if (known) {
    c.set(clip(x, values[0], values[1]));
  } else if (is_float(x.dtype())) {
    if (lo) x = where(less(x, lo), lo, x);
    if (hi) x = where(greater(x, hi), hi, x);
    c.set(x);
  } else {
    if (lo) x = maximum(x, lo);
    if (hi) x = minimum(x, hi);
    c.set(x);
  }
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Abs", 1, lower_unary<Op::kAbs>},
    {"", "Acos", 7, lower_unary<Op::kAcos>},
    {"", "Acosh", 9, lower_unary<Op::kAcosh>},
    {"", "Add", 7, lower_binary<Op::kAdd>},
    {"", "And", 7, lower_binary<Op::kAnd>, kNone},
    {"", "Asin", 7, lower_unary<Op::kAsin>},
    {"", "Asinh", 9, lower_unary<Op::kAsinh>},
    {"", "Atan", 7, lower_unary<Op::kAtan>},
    {"", "Atanh", 9, lower_unary<Op::kAtanh>},
    {"", "BitShift", 11, lower_bit_shift, kNone},
    {"", "BitwiseAnd", 18, lower_binary<Op::kBitwiseAnd>, kNone},
    {"", "BitwiseNot", 18, lower_unary<Op::kBitwiseNot>, kNone},
    {"", "BitwiseOr", 18, lower_binary<Op::kBitwiseOr>, kNone},
    {"", "BitwiseXor", 18, lower_binary<Op::kBitwiseXor>, kNone},
    {"", "Cast", 6, lower_cast},
    {"", "CastLike", 15, lower_cast_like, kFirst},
    {"", "Ceil", 1, lower_unary<Op::kCeil>, kNone},
    {"", "Clip", 6, lower_clip_6},
    {"", "Clip", 11, lower_clip, kFirst},
    {"", "Cos", 7, lower_unary<Op::kCos>},
    {"", "Cosh", 9, lower_unary<Op::kCosh>},
    {"", "Div", 7, lower_binary<Op::kDiv>},
    {"", "Equal", 7, lower_binary<Op::kEqual>, kNone},
    {"", "Erf", 9, lower_unary<Op::kErf>},
    {"", "Exp", 1, lower_unary<Op::kExp>},
    {"", "Floor", 1, lower_unary<Op::kFloor>, kNone},
    {"", "Greater", 7, lower_binary<Op::kGreater>, kNone},
    {"", "GreaterOrEqual", 12, lower_binary<Op::kGreaterEqual>, kNone},
    {"", "Identity", 1, lower_identity},
    {"", "IsInf", 10, lower_is_inf, kNone},
    {"", "IsNaN", 9, lower_unary<Op::kIsNaN>, kNone},
    {"", "Less", 7, lower_binary<Op::kLess>, kNone},
    {"", "LessOrEqual", 12, lower_binary<Op::kLessEqual>, kNone},
    {"", "Log", 1, lower_unary<Op::kLog>},
    {"", "Max", 1, lower_extremum<Op::kMax, Op::kReduceMax>},
    {"", "Mean", 1, lower_mean},
    {"", "Min", 1, lower_extremum<Op::kMin, Op::kReduceMin>},
    {"", "Mod", 10, lower_mod},
    {"", "Mul", 7, lower_binary<Op::kMul>},
    {"", "Neg", 1, lower_unary<Op::kNeg>},
    {"", "Not", 1, lower_unary<Op::kNot>, kNone},
    {"", "Or", 7, lower_binary<Op::kOr>, kNone},
    {"", "Pow", 7, lower_pow},
    {"", "Reciprocal", 1, lower_unary<Op::kReciprocal>},
    {"", "Round", 11, lower_unary<Op::kRound>, kNone},
    {"", "Sign", 9, lower_unary<Op::kSign>, kNone},
    {"", "Sin", 7, lower_unary<Op::kSin>},
    {"", "Sinh", 9, lower_unary<Op::kSinh>},
    {"", "Sqrt", 1, lower_unary<Op::kSqrt>},
    {"", "Sub", 7, lower_binary<Op::kSub>},
    {"", "Sum", 1, lower_sum},
    {"", "Tan", 7, lower_unary<Op::kTan>},
    {"", "Where", 9, lower_where, kAllButFirst},
    {"", "Xor", 7, lower_binary<Op::kXor>, kNone},
};

}  // namespace

std::span<const LoweringRow> elementwise_lowerings() {
  static const std::vector<LoweringRow> rows = joined({kRows, activation_lowerings()});
  return rows;
}

}  // namespace trainrt
