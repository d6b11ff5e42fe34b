#include "frontend/lower_narrow.h"

#include "frontend/lower_util.h"
#include "frontend/onnx_dtype.h"

namespace trainrt::lowering {
namespace {

constexpr NarrowType floating(int64_t onnx, int64_t mantissa, int64_t min_exponent, double max,
                              Overflow overflow) {
  return {onnx, {mantissa, min_exponent, max, overflow, Rounding::kNearestEven}};
}

constexpr NarrowType integer(int64_t onnx, int64_t lo, int64_t hi) { return {onnx, {}, lo, hi}; }

constexpr NarrowType kTypes[] = {
    floating(kOnnxFloat8E4M3FN, 3, -6, 448, Overflow::kNan),
    floating(kOnnxFloat8E4M3FNUZ, 3, -7, 240, Overflow::kNan),
    floating(kOnnxFloat8E5M2, 2, -14, 57344, Overflow::kInfinity),
    floating(kOnnxFloat8E5M2FNUZ, 2, -15, 57344, Overflow::kNan),
    floating(kOnnxFloat4E2M1, 1, 0, 6, Overflow::kSaturate),
    floating(kOnnxFloat8E8M0, 0, -127, 0x1p127, Overflow::kNan),
    integer(kOnnxInt4, -8, 7),
    integer(kOnnxUint4, 0, 15),
    integer(kOnnxInt2, -2, 1),
    integer(kOnnxUint2, 0, 3),
};

// Integers keep their low bits; floats are cut towards zero first.
Var low_bits(Var x, const NarrowType& type) {
  const auto lo = static_cast<double>(type.lo);
  const Var range = x.builder().fill(DType::kInt64, static_cast<double>(type.hi - type.lo + 1));
  const Var shifted = cast(x, DType::kInt64) - lo;
  return cast(binary(Op::kMod, shifted, range) + lo, type.dtype());
}

Rounding round_mode(const LowerContext& c) {
  const std::string mode = c.attr_string("round_mode", "up");
  if (mode == "up") return Rounding::kUp;
  if (mode == "down") return Rounding::kDown;
  if (mode != "nearest") c.invalid("round_mode is up, down or nearest, not '" + mode + "'");
  return Rounding::kNearestUp;
}

// Powers of two alone: there is no sign, and no 0.
Var power_of_two(LowerContext& c, Var x, RoundToAttrs grid, bool saturate) {
  grid.rounding = round_mode(c);
  const Var y = round_to(abs(x), grid);
  if (saturate) return clip(y, 0x1p-127, kInf);
  return where(equal(y, c.b.fill(y.dtype(), 0)), std::numeric_limits<double>::quiet_NaN(), y);
}

Var cast_to_narrow(LowerContext& c, Var x, const NarrowType& type) {
  if (!type.is_float()) return low_bits(x, type);
  const bool saturate = c.attr_int("saturate", 1) != 0;
  const Var real = cast(x, c.working);
  RoundToAttrs grid = type.grid;
  if (saturate) grid.overflow = Overflow::kSaturate;
  return type.onnx == kOnnxFloat8E8M0 ? power_of_two(c, real, grid, saturate)
                                      : round_to(real, grid);
}

void set_narrow(LowerContext& c, const NarrowType& type) {
  c.set(cast_to_narrow(c, c.need(0), type));
  c.set_narrow(0, type.onnx);
}

}  // namespace

const NarrowType* find_narrow(int64_t onnx_type) {
  for (const NarrowType& type : kTypes) {
    if (type.onnx == onnx_type) return &type;
  }
  return nullptr;
}

Var round_to(Var x, const RoundToAttrs& grid) { return x.builder().add(Op::kRoundTo, {x}, grid); }

void lower_cast(LowerContext& c) {
  if (const NarrowType* type = find_narrow(c.attr_int("to"))) {
    set_narrow(c, *type);
  } else {
    c.set(cast(c.need(0), c.attr_dtype("to")));
  }
}

void lower_cast_like(LowerContext& c) {
  if (const NarrowType* type = find_narrow(c.narrow_type(1))) {
    set_narrow(c, *type);
  } else {
    c.set(cast(c.need(0), c.need(1).dtype()));
  }
}

}  // namespace trainrt::lowering
