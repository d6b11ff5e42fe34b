// Sources and elementwise ops.
#include <cmath>

#include "graph/attr_fields.h"
#include "graph/fused.h"
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

Types input(const Args& a) {
  const auto& attr = a.attr<InputAttrs>();
  if (attr.name.empty()) fail("an input needs a name");
  if (!enum_in_range(attr.role))
    fail("the role of input ", attr.name, " is none of the known ones");
  const TensorType type{attr.dtype, attr.shape};
  if (attr.role == InputRole::kRng) {
    check_same_type(type, {DType::kInt64, {2}}, "the key of the random ops");
  }
  return {type};
}

Types constant(const Args& a) {
  const Tensor& value = a.attr<ConstantAttrs>().value;
  if (!value.defined()) fail("a constant needs a value");
  return {{value.dtype(), value.shape()}};
}

Types fill(const Args& a) {
  const auto& attr = a.attr<FillAttrs>();
  if (!representable(attr.value, attr.dtype)) {
    fail("fill value ", attr.value, " is no ", dtype_name(attr.dtype));
  }
  return {{attr.dtype, attr.shape}};
}

bool is_signed(DType t) {
  return is_float(t) || t == DType::kInt8 || t == DType::kInt16 || t == DType::kInt32 ||
         t == DType::kInt64;
}

bool is_unsigned(DType t) { return is_integer(t) && !is_signed(t); }

void check_bool(const Args& a, size_t i) {
  if (a.in[i].dtype != DType::kBool) {
    fail("operand ", i, " must be bool, given ", to_string(a.in[i]));
  }
}

void check_integer(const Args& a, size_t i) {
  if (!is_integer(a.in[i].dtype)) {
    fail("operand ", i, " must be an integer, given ", to_string(a.in[i]));
  }
}

Types unary_any(const Args& a) { return {a.in[0]}; }

Types unary_numeric(const Args& a) {
  check_numeric(a, 0);
  return {a.in[0]};
}

Types unary_signed(const Args& a) {
  if (!is_signed(a.in[0].dtype)) {
    fail("operand 0 must be a signed number, given ", to_string(a.in[0]));
  }
  return {a.in[0]};
}

Types unary_float(const Args& a) {
  check_float(a, 0);
  return {a.in[0]};
}

Types unary_integer(const Args& a) {
  check_integer(a, 0);
  return {a.in[0]};
}

Types unary_bool(const Args& a) {
  check_bool(a, 0);
  return {a.in[0]};
}

Types is_nan(const Args& a) {
  check_float(a, 0);
  return {{DType::kBool, a.in[0].shape}};
}

Types clip(const Args& a) {
  const auto& attr = a.attr<ClipAttrs>();
  check_numeric(a, 0);
  for (double bound : {attr.lo, attr.hi}) {
    if (std::isnan(bound)) fail("a bound is NaN");
    if (!std::isinf(bound) && !representable(bound, a.in[0].dtype)) {
      fail("bound ", bound, " is no ", dtype_name(a.in[0].dtype));
    }
  }
  return {a.in[0]};
}

Types clip_grad(const Args& a) {
  check_float(a, 0);
  check_same_type(a.in[1], a.in[0], "operand 1");
  return clip(a);
}

Types relu_grad(const Args& a) {
  check_float(a, 0);
  check_same_type(a.in[1], a.in[0], "operand 1");
  return {a.in[0]};
}

Types cast(const Args& a) { return {{a.attr<CastAttrs>().to, a.in[0].shape}}; }

Types bit_cast(const Args& a) {
  const DType from = a.in[0].dtype, to = a.attr<CastAttrs>().to;
  if (from == DType::kBool || to == DType::kBool || dtype_size(from) != dtype_size(to)) {
    fail("the bits of ", dtype_name(from), " are no ", dtype_name(to));
  }
  return cast(a);
}

Types round_to(const Args& a) {
  const auto& attr = a.attr<RoundToAttrs>();
  check_float(a, 0);
  if (!enum_in_range(attr.overflow) || !enum_in_range(attr.rounding)) fail("unknown rounding");
  if (attr.mantissa < 0 || attr.mantissa > 52 || attr.min_exponent < -1000 ||
      attr.min_exponent > 1000) {
    fail("no grid has ", attr.mantissa, " bits and exponents from ", attr.min_exponent, " on");
  }
  if (!(attr.max > 0) || std::isinf(attr.max)) fail("the largest value ", attr.max, " is none");
  return {a.in[0]};
}

TensorType broadcast(const Args& a) {
  check_same_dtype(a, 0, 1);
  return {a.in[0].dtype, broadcast_shapes(a.in[0].shape, a.in[1].shape)};
}

Types binary_numeric(const Args& a) {
  check_numeric(a, 0);
  return {broadcast(a)};
}

Types binary_integer(const Args& a) {
  check_integer(a, 0);
  return {broadcast(a)};
}

Types shift(const Args& a) {
  if (!is_unsigned(a.in[0].dtype)) {
    fail("operand 0 must be an unsigned integer, given ", to_string(a.in[0]));
  }
  return {broadcast(a)};
}

Types binary_bool(const Args& a) {
  check_bool(a, 0);
  return {broadcast(a)};
}

Types equality(const Args& a) { return {{DType::kBool, broadcast(a).shape}}; }

Types comparison(const Args& a) {
  check_numeric(a, 0);
  return equality(a);
}

Types where(const Args& a) {
  check_bool(a, 0);
  check_same_dtype(a, 1, 2);
  const Shape branches = broadcast_shapes(a.in[1].shape, a.in[2].shape);
  return {{a.in[1].dtype, broadcast_shapes(a.in[0].shape, branches)}};
}

Types fused(const Args& a) {
  FusedProgram program;
  try {
    program = parse_fused(a.attr<FusedAttrs>().program);
  } catch (const Error& e) {
    fail(e.what());
  }
  const FusedTypes types = fused_types(program, a.in);
  Types results;
  for (int32_t i : program.results) {
    results.push_back(types.instructions[static_cast<size_t>(i)]);
  }
  return results;
}

constexpr Row kRows[] = {
    {Op::kInput, input},
    {Op::kConstant, constant},
    {Op::kFill, fill},
    {Op::kNeg, unary_signed},
    {Op::kAbs, unary_numeric},
    {Op::kSign, unary_numeric},
    {Op::kExp, unary_float},
    {Op::kLog, unary_float},
    {Op::kSqrt, unary_float},
    {Op::kReciprocal, unary_float},
    {Op::kSin, unary_float},
    {Op::kCos, unary_float},
    {Op::kTan, unary_float},
    {Op::kAsin, unary_float},
    {Op::kAcos, unary_float},
    {Op::kAtan, unary_float},
    {Op::kSinh, unary_float},
    {Op::kCosh, unary_float},
    {Op::kAsinh, unary_float},
    {Op::kAcosh, unary_float},
    {Op::kAtanh, unary_float},
    {Op::kTanh, unary_float},
    {Op::kSigmoid, unary_float},
    {Op::kSoftplus, unary_float},
    {Op::kErf, unary_float},
    {Op::kRelu, unary_signed},
    {Op::kFloor, unary_float},
    {Op::kCeil, unary_float},
    {Op::kRound, unary_float},
    {Op::kGelu, unary_float},
    {Op::kSilu, unary_float},
    {Op::kClip, clip},
    {Op::kNot, unary_bool},
    {Op::kBitwiseNot, unary_integer},
    {Op::kIsNaN, is_nan},
    {Op::kIdentity, unary_any},
    {Op::kStopGradient, unary_any},
    {Op::kCast, cast},
    {Op::kBitCast, bit_cast},
    {Op::kRoundTo, round_to},
    {Op::kAdd, binary_numeric},
    {Op::kSub, binary_numeric},
    {Op::kMul, binary_numeric},
    {Op::kDiv, binary_numeric},
    {Op::kChainMul, binary_numeric},
    {Op::kChainDiv, binary_numeric},
    {Op::kPow, binary_numeric},
    {Op::kMod, binary_numeric},
    {Op::kFmod, binary_numeric},
    {Op::kMax, binary_numeric},
    {Op::kMin, binary_numeric},
    {Op::kEqual, equality},
    {Op::kLess, comparison},
    {Op::kLessEqual, comparison},
    {Op::kGreater, comparison},
    {Op::kGreaterEqual, comparison},
    {Op::kAnd, binary_bool},
    {Op::kOr, binary_bool},
    {Op::kXor, binary_bool},
    {Op::kBitwiseAnd, binary_integer},
    {Op::kBitwiseOr, binary_integer},
    {Op::kBitwiseXor, binary_integer},
    {Op::kShiftLeft, shift},
    {Op::kShiftRight, shift},
    {Op::kWhere, where},
    {Op::kReluGrad, relu_grad},
    {Op::kClipGrad, clip_grad},
    {Op::kGeluGrad, relu_grad},
    {Op::kSiluGrad, relu_grad},
    {Op::kFused, fused},
};

}  // namespace

std::span<const Row> elementwise_rows() { return kRows; }

}  // namespace trainrt::infer
