#include "kernels/cuda/codegen_ops.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "kernels/cuda/rows.h"
#include "trainrt/error.h"

namespace trainrt::cuda {
namespace {

/// The formula of an op by the type of its (second, for Where) operand; empty: no such op there.
/// $a, $b, $c: operands; $T: their type; $W: the unsigned type in which its arithmetic wraps;
/// $R: the result's type; $0 and $1: attributes.
struct Formula {
  Op op;
  std::string_view floats, integers;
};

constexpr std::string_view kPlainCast = "static_cast<$R>($a)";

constexpr Formula kFormulas[] = {
    {Op::kNeg, "-$a", "0u - static_cast<$W>($a)"},
    {Op::kAbs, "fabs($a)", "$a < 0 ? 0u - static_cast<$W>($a) : static_cast<$W>($a)"},
    {Op::kSign, "$a != $a ? $a : $T(($a > 0) - ($a < 0))", "($a > 0) - ($a < 0)"},
    {Op::kExp, "exp($a)", ""},
    {Op::kLog, "log($a)", ""},
    {Op::kSqrt, "sqrt($a)", ""},
    {Op::kReciprocal, "$T(1) / $a", ""},
    {Op::kSin, "sin($a)", ""},
    {Op::kCos, "cos($a)", ""},
    {Op::kTan, "tan($a)", ""},
    {Op::kAsin, "asin($a)", ""},
    {Op::kAcos, "acos($a)", ""},
    {Op::kAtan, "atan($a)", ""},
    {Op::kSinh, "sinh($a)", ""},
    {Op::kCosh, "cosh($a)", ""},
    {Op::kAsinh, "asinh($a)", ""},
    {Op::kAcosh, "acosh($a)", ""},
    {Op::kAtanh, "atanh($a)", ""},
    {Op::kTanh, "tanh($a)", ""},
    {Op::kSigmoid, "sigmoid($a)", ""},
    {Op::kSoftplus, "softplus($a)", ""},
    {Op::kErf, "erf($a)", ""},
    {Op::kRelu, "$a > 0 || $a != $a ? $a : $T(0)", "$a > 0 ? $a : $T(0)"},
    {Op::kFloor, "floor($a)", ""},
    {Op::kCeil, "ceil($a)", ""},
    {Op::kRound, "nearbyint($a)", ""},
    {Op::kGelu, "gelu$0($a)", ""},
    {Op::kSilu, "silu($a)", ""},
    {Op::kClip, "clip($a, $0, $1)", "clip($a, $0, $1)"},
    {Op::kNot, "", "$a == 0"},
    {Op::kBitwiseNot, "", "~$a"},
    {Op::kIsNaN, "$a != $a", "false"},
    {Op::kIdentity, "$a", "$a"},
    {Op::kStopGradient, "$a", "$a"},
    {Op::kCast, "$0", "$0"},
    {Op::kBitCast, "bit_cast<$R>($a)", "bit_cast<$R>($a)"},
    {Op::kRoundTo, "static_cast<$T>(round_to$0($a, $1))", ""},
    {Op::kAdd, "$a + $b", "static_cast<$W>($a) + static_cast<$W>($b)"},
    {Op::kSub, "$a - $b", "static_cast<$W>($a) - static_cast<$W>($b)"},
    {Op::kMul, "$a * $b", "static_cast<$W>($a) * static_cast<$W>($b)"},
    {Op::kDiv, "$a / $b", "integer_div($a, $b)"},
    {Op::kChainMul, "$a == 0 ? $a : $a * $b", "static_cast<$W>($a) * static_cast<$W>($b)"},
    {Op::kChainDiv, "$a == 0 ? $a : $a / $b", "integer_div($a, $b)"},
    {Op::kPow, "pow($a, $b)", "integer_pow($a, $b)"},
    {Op::kMod, "float_mod($a, $b)", "integer_mod($a, $b)"},
    {Op::kFmod, "fmod($a, $b)", "integer_fmod($a, $b)"},
    {Op::kMax, "$a > $b || $a != $a ? $a : $b", "$a > $b ? $a : $b"},
    {Op::kMin, "$a < $b || $a != $a ? $a : $b", "$a < $b ? $a : $b"},
    {Op::kEqual, "$a == $b", "$a == $b"},
    {Op::kLess, "$a < $b", "$a < $b"},
    {Op::kLessEqual, "$a <= $b", "$a <= $b"},
    {Op::kGreater, "$a > $b", "$a > $b"},
    {Op::kGreaterEqual, "$a >= $b", "$a >= $b"},
    {Op::kAnd, "", "$a != 0 && $b != 0"},
    {Op::kOr, "", "$a != 0 || $b != 0"},
    {Op::kXor, "", "($a != 0) != ($b != 0)"},
    {Op::kBitwiseAnd, "", "$a & $b"},
    {Op::kBitwiseOr, "", "$a | $b"},
    {Op::kBitwiseXor, "", "$a ^ $b"},
    {Op::kShiftLeft, "", "shift_left($a, $b)"},
    {Op::kShiftRight, "", "shift_right($a, $b)"},
    {Op::kWhere, "$a != 0 ? $b : $c", "$a != 0 ? $b : $c"},
    {Op::kReluGrad, "0 < $b ? $a : $T(0)", "0 < $b ? $a : $T(0)"},
    {Op::kClipGrad, "$0 <= $b && $b <= $1 ? $a : $T(0)", "$0 <= $b && $b <= $1 ? $a : $T(0)"},
    {Op::kGeluGrad, "gelu$0_grad($a, $b)", ""},
    {Op::kSiluGrad, "silu_grad($a, $b)", ""},
};

const Formula* find_formula(Op op) {
  const auto* f = std::find_if(std::begin(kFormulas), std::end(kFormulas),
                               [&](const Formula& formula) { return formula.op == op; });
  return f == std::end(kFormulas) ? nullptr : f;
}

/// Types whose elements lie as they are computed, or bfloat16 that stands for float32.
bool is_known(DType dtype) { return dtype != DType::kFloat16; }

DType widened(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

std::string hexadecimal(uint64_t bits) {
  char text[20];
  return "0x" + std::string(text, std::to_chars(text, text + sizeof text, bits, 16).ptr);
}

template <typename T>
std::string float_literal(T value) {
  constexpr bool kSingle = sizeof(T) == 4;
  if (!std::isfinite(value)) {
    if constexpr (kSingle)
      return "bits_to_float(" + hexadecimal(std::bit_cast<uint32_t>(value)) + "u)";
    if constexpr (!kSingle) {
      return "bit_cast<double>(" + hexadecimal(std::bit_cast<uint64_t>(value)) + "ull)";
    }
  }
  char text[40];
  std::string digits(text, std::to_chars(text, text + sizeof text, value).ptr);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return kSingle ? digits + "f" : digits;
}

/// The integer's literal, by its bits: the least one has none in decimal.
std::string integer_literal(DType dtype, uint64_t bits) {
  const std::string type(computed_type(dtype));
  const auto number = static_cast<int64_t>(bits);
  if (number >= -(int64_t{1} << 31) && number < (int64_t{1} << 31)) {
    return type + "(" + std::to_string(number) + ")";
  }
  return type + "(" + hexadecimal(bits) + "ull)";
}

template <typename T>
T saturated(double x) {
  if (x != x) return 0;
  if (x <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (x >= static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(x);
}

template <typename F>
void with_integer(DType dtype, F&& f) {
  with_type(dtype, [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, bool>) {
      f(uint8_t{});
    } else if constexpr (std::is_integral_v<T>) {
      f(T{});
    }
  });
}

/// Bounds of Clip are the integers inside [lo, hi].
std::string bound(DType dtype, double value, bool upper) {
  if (is_float(dtype)) return literal(dtype, value);
  return literal(dtype, upper ? std::floor(value) : std::ceil(value));
}

std::string cast_formula(DType from, DType to) {
  if (to == DType::kBool) return "$a != 0";
  if (from == DType::kBool) return "static_cast<$R>($a != 0)";
  if (!is_float(from) || is_float(to)) return std::string(kPlainCast);
  std::string text;
  with_integer(to, [&]<typename T>(T) {
    using Limits = std::numeric_limits<T>;
    const double below = static_cast<double>(Limits::min());
    const double above = static_cast<double>(Limits::max() / 2 + 1) * 2;
    text = "to_integer<$R>($a, " + literal(from, below) + ", " + literal(from, above) + ", " +
           integer_literal(to, static_cast<uint64_t>(Limits::min())) + ", " +
           integer_literal(to, static_cast<uint64_t>(Limits::max())) + ")";
  });
  return text;
}

std::string rounding(const RoundToAttrs& a) {
  constexpr std::string_view kRounding[] = {"NearestEven", "NearestUp", "Up", "Down"};
  constexpr std::string_view kOverflow[] = {"Saturate", "Infinity", "Nan"};
  return "<Rounding::k" + std::string(kRounding[static_cast<size_t>(a.rounding)]) +
         ", Overflow::k" + std::string(kOverflow[static_cast<size_t>(a.overflow)]) + ">";
}

/// $0 and $1
std::pair<std::string, std::string> attribute_texts(const Attrs& attrs, DType type, DType result) {
  if (const auto* a = std::get_if<ClipAttrs>(&attrs)) {
    return {bound(type, a->lo, false), bound(type, a->hi, true)};
  }
  if (const auto* a = std::get_if<GeluAttrs>(&attrs)) return {a->tanh ? "_tanh" : "", ""};
  if (const auto* a = std::get_if<RoundToAttrs>(&attrs)) {
    return {rounding(*a), std::to_string(a->mantissa) + ", " + std::to_string(a->min_exponent) +
                              ", " + literal(DType::kFloat64, a->max)};
  }
  if (std::holds_alternative<CastAttrs>(attrs)) return {cast_formula(type, result), ""};
  return {};
}

}  // namespace

std::string_view computed_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kBFloat16:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kBool:
      return "u8";
    default:
      return suffix(dtype);
  }
}

std::string_view stored_type(DType dtype) {
  return dtype == DType::kBFloat16 ? "bf16" : computed_type(dtype);
}

std::string literal(DType dtype, double value) {
  if (widened(dtype) == DType::kFloat32) return float_literal(static_cast<float>(value));
  if (dtype == DType::kFloat64) return float_literal(value);
  std::string text;
  with_integer(dtype, [&]<typename T>(T) {
    text = integer_literal(dtype, static_cast<uint64_t>(saturated<T>(value)));
  });
  return text;
}

Support has_expression(Op op, std::span<const DType> types, DType result) {
  const Formula* f = find_formula(op);
  if (f == nullptr) return Support::no("has no formula of " + std::string(op_info(op).name));
  for (DType t : types) {
    if (!is_known(t)) return Support::no("takes no " + std::string(dtype_name(t)));
  }
  if (!is_known(result)) return Support::no("gives no " + std::string(dtype_name(result)));
  const size_t first = op == Op::kWhere ? 1 : 0;
  const DType type = types[first];
  for (DType t : types.subspan(first)) {
    if (widened(t) != widened(type)) {
      return Support::no("operands are " + std::string(dtype_name(type)) + " and " +
                         std::string(dtype_name(t)) + ": cast one of them");
    }
  }
  if (!(is_float(type) ? f->floats : f->integers).empty()) return Support::yes();
  return Support::no("takes no " + std::string(dtype_name(type)));
}

std::string expression(Op op, const Attrs& attrs, std::span<const std::string> operands,
                       std::span<const DType> types, DType result) {
  const Formula& formula = *find_formula(op);
  const DType type = widened(types[op == Op::kWhere ? 1 : 0]);
  const auto [first, second] = attribute_texts(attrs, type, widened(result));
  std::string text;
  const auto append = [&](std::string_view from, const auto& self) -> void {
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != '$') {
        text += from[i];
        continue;
      }
      switch (from[++i]) {
        case 'a':
        case 'b':
        case 'c':
          text += operands[static_cast<size_t>(from[i] - 'a')];
          break;
        case 'T':
          text += computed_type(type);
          break;
        case 'W':
          text += dtype_size(type) == 8 ? "u64" : "u32";
          break;
        case 'R':
          text += computed_type(result);
          break;
        default:
          self(from[i] == '0' ? first : second, self);
      }
    }
  };
  append(is_float(type) ? formula.floats : formula.integers, append);
  return text;
}

std::string snake_case(Op op) {
  std::string text;
  for (char c : op_info(op).name) {
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (upper && !text.empty() && std::islower(static_cast<unsigned char>(text.back())) != 0) {
      text += '_';
    }
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace trainrt::cuda
