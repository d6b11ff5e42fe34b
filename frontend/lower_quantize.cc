// Linear quantization, and products and convolutions of quantized values.
#include <limits>
#include <optional>

#include "frontend/lower_narrow.h"
#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"
#include "frontend/onnx_dtype.h"

namespace trainrt::lowering {
namespace {

void check_blocks(LowerContext& c, Var p, Var x, int64_t axis, int64_t block) {
  bool ok = block > 0 && p.rank() == x.rank();
  for (int64_t a = 0; ok && a < x.rank(); ++a) {
    const int64_t n = x.dim(a);
    ok = p.dim(a) == (a == axis ? n / block + (n % block != 0 ? 1 : 0) : n);
  }
  if (!ok) {
    c.invalid("blocks of " + std::to_string(block) + " with a scale of shape " +
              to_string(p.shape()) + " for " + to_string(x.shape()));
  }
}

// A scale or zero point in a shape that broadcasts to x: one element, one per index of the axis, or
// one per block along it, each repeated.
Var spread(LowerContext& c, Var p, Var x) {
  if (p.type().size() == 1 && p.rank() <= 1) return reshape(p, {});
  const int64_t axis = c.axis(c.attr_int("axis", 1), x.rank());
  int64_t block = c.attr_int("block_size", 0);
  if (block == 0) {
    if (p.rank() != 1 || p.dim(0) != x.dim(axis)) {
      c.invalid("a scale of shape " + to_string(p.shape()) + " for axis " + std::to_string(axis) +
                " of " + to_string(x.shape()));
    }
    return along(p, axis, x.rank());
  }
  check_blocks(c, p, x, axis, block);
  block = std::min(block, std::max<int64_t>(x.dim(axis), 1));
  Shape wide = p.shape(), merged = p.shape();
  wide.insert(wide.begin() + axis + 1, block);
  merged[at(axis)] *= block;
  const Var repeated = reshape(expand(unsqueeze(p, {axis + 1}), wide), merged);
  return slice(repeated, axis, 0, x.dim(axis));
}

/// What is quantized to.
struct Target {
  DType dtype = DType::kUInt8;
  double lo = 0, hi = 255;
  std::optional<RoundToAttrs> grid;  // of narrow floats
};

// ONNX's number of the element type of input i.
int64_t type_of(const LowerContext& c, size_t i) {
  return c.narrow_type(i) != 0 ? c.narrow_type(i) : onnx_from_dtype(c.in(i).dtype());
}

Target narrow_target(const LowerContext& c, const NarrowType& type) {
  if (!type.is_float()) {
    return {type.dtype(), static_cast<double>(type.lo), static_cast<double>(type.hi), {}};
  }
  RoundToAttrs grid = type.grid;
  if (c.attr_int("saturate", 1) != 0) grid.overflow = Overflow::kSaturate;
  return {c.working, -grid.max, grid.max, grid};
}

Target target_of(const LowerContext& c, int64_t type) {
  const NarrowType* narrow = find_narrow(type);
  Target t;
  const bool wide = dtype_from_onnx(type, &t.dtype);
  const bool fits = narrow != nullptr ? type != kOnnxFloat8E8M0
                                      : wide && is_integer(t.dtype) && dtype_size(t.dtype) <= 2;
  if (!fits) c.refuse("no_lowering", "quantization to " + onnx_type_name(type));
  if (narrow != nullptr) return narrow_target(c, *narrow);
  with_type(t.dtype, [&]<typename T>(T) {
    t.lo = static_cast<double>(std::numeric_limits<T>::lowest());
    t.hi = static_cast<double>(std::numeric_limits<T>::max());
  });
  return t;
}

void set_quantized(LowerContext& c, Var y, int64_t type) {
  c.set(y);
  c.set_narrow(0, find_narrow(type) != nullptr ? type : 0);
}

Var on_grid(Var v, const Target& t, bool straight_through) {
  RoundToAttrs grid = *t.grid;
  if (!straight_through) return stop_gradient(round_to(v, grid));
  if (grid.overflow != Overflow::kSaturate) return round_to(v, grid);
  grid.max = 1e30;  // so that Clip sees which values lie outside
  return clip(round_to(v, grid), t.lo, t.hi);
}

// clamp(round(v) + zero point). Straight through, the gradient of what is not clamped passes.
Var quantized(Var v, Var zero_point, const Target& t, bool straight_through) {
  constexpr RoundToAttrs kWhole{20, 20, 0x1p20};  // all types lie far inside
  if (zero_point) zero_point = cast(zero_point, v.dtype());
  if (t.grid) return on_grid(zero_point ? v + zero_point : v, t, straight_through);
  Var y = straight_through ? round_to(v, kWhole) : unary(Op::kRound, v);
  if (zero_point) y = y + zero_point;
  return cast(clip(y, t.lo, t.hi), t.dtype);
}

int64_t quantized_type(LowerContext& c) {
  const int64_t asked = c.attr_int("output_dtype", 0);
  if (!c.has(2)) return asked != 0 ? asked : kOnnxUint8;
  const int64_t type = type_of(c, 2);
  if (asked != 0 && asked != type) {
    c.invalid("output_dtype asks for " + onnx_type_name(asked) + ", the zero point is " +
              onnx_type_name(type));
  }
  return type;
}

// Scales are integers only in name: the division is one of reals.
Var real_scale(LowerContext& c, Var scale, Var x) {
  return spread(c, stop_gradient(cast(scale, c.working)), x);
}

void lower_quantize(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t type = quantized_type(c);
  const Var v = cast(x, c.working) / real_scale(c, c.need(1), x);
  const Var zero_point = c.has(2) ? spread(c, c.in(2), x) : Var();
  set_quantized(c, quantized(v, zero_point, target_of(c, type), c.options.straight_through), type);
}

// The whole numbers, in a float type, of which QuantizeLinear made integers that were only moved
// since: gradients pass through them. Absent when x comes from elsewhere.
Var whole_numbers(LowerContext& c, Var x) {
  const Node node = c.b.graph().producer(x.id());
  switch (node.op) {
    case Op::kCast: {
      const Var from = c.b.wrap(node.inputs[0]);
      const bool made_here = node.source >= 0 && c.b.graph().source(node).op == "QuantizeLinear";
      return made_here && from.dtype() == c.working ? from : Var();
    }
    case Op::kIdentity:
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kExpand:
    case Op::kSlice:
    case Op::kMaxPool: {
      const Var from = whole_numbers(c, c.b.wrap(node.inputs[0]));
      return from ? c.b.add(node.op, {from}, node.attrs) : Var();
    }
    default:
      return {};
  }
}

// (x - zero point) * scale
void lower_dequantize(LowerContext& c) {
  const Var x = c.need(0);
  Var y;
  if (c.options.straight_through && !is_float(x.dtype())) y = whole_numbers(c, x);
  if (!y) y = cast(x, c.working);
  if (c.has(2)) y = y - spread(c, cast(c.in(2), c.working), x);
  c.set(y * real_scale(c, c.need(1), x));
}

// scale = (max(x, 0) - min(x, 0)) / 255, zero point = clamp(round(-min / scale)). A range of 0 has
// the scale 1.
void lower_dynamic_quantize(LowerContext& c) {
  const Var x = stop_gradient(c.need(0)), zero = c.b.fill(x.dtype(), 0);
  if (x.type().size() == 0) c.invalid("an empty tensor has no range");
  const Target target = target_of(c, kOnnxUint8);
  const Var hi = maximum(reduce_max(x, all_axes(x)), zero);
  const Var lo = minimum(reduce_min(x, all_axes(x)), zero);
  const Var range = (hi - lo) / 255.0;
  const Var scale = where(equal(range, zero), 1.0, range);
  const Var zero_point = quantized(-lo / scale, {}, target, false);
  c.set(0, quantized(x / scale, zero_point, target, false));
  c.set(1, scale);
  c.set(2, zero_point);
}

// An operand less its zero point. In float64 the products of 8-bit integers and their sums are
// exact.
Var centred(LowerContext& c, Var x, Var zero_point) {
  const Var wide = cast(x, DType::kFloat64);
  if (!zero_point) return wide;
  const Var centre = wide - cast(zero_point, DType::kFloat64);
  if (centre.shape() != x.shape()) {
    c.invalid("a zero point of shape " + to_string(zero_point.shape()) + " for " +
              to_string(x.shape()));
  }
  return centre;
}

// Of a matrix operand: a scalar, or one per row, where a vector stands for a column of them.
Var per_row(Var p) { return p && p.rank() == 1 && p.type().size() > 1 ? unsqueeze(p, {1}) : p; }

// Scalars in their two forms.
Var scalar(Var p) { return p && p.type().size() == 1 && p.rank() == 1 ? reshape(p, {}) : p; }

void lower_matmul_integer(LowerContext& c) {
  const Var a = centred(c, c.need(0), scalar(per_row(c.in(2))));
  const Var b = centred(c, c.need(1), scalar(c.in(3)));
  c.set(cast(matmul_numpy(c, a, b), DType::kInt32));
}

// y = clamp(round(A B * (scale of a * scale of b / scale of y)) + zero point)
void lower_qlinear_matmul(LowerContext& c) {
  const auto scale_of = [&](size_t i) { return scalar(cast(c.need(i), c.working)); };
  const Var a = centred(c, c.need(0), scalar(per_row(c.in(2))));
  const Var b = centred(c, c.need(3), scalar(c.in(5)));
  const Var product = cast(matmul_numpy(c, a, b), c.working);
  const Var scale = per_row(scale_of(1)) * scale_of(4) / per_row(scale_of(6));
  const Var zero_point = scalar(per_row(c.need(7)));
  const int64_t type = type_of(c, 7);
  const Var y = quantized(product * scale, zero_point, target_of(c, type), false);
  if (y.shape() != product.shape()) {
    c.invalid("scales of shape " + to_string(scale.shape()) + " for a product of shape " +
              to_string(product.shape()));
  }
  set_quantized(c, y, type);
}

// One per output channel: along the first axis of a weight, the second of a result.
Var per_channel(LowerContext& c, Var p, Var w, int64_t axis) {
  if (!p || p.type().size() == 1) return p ? reshape(p, {}) : p;
  if (p.rank() != 1 || p.dim(0) != w.dim(0)) {
    c.invalid("a scale or zero point of shape " + to_string(p.shape()) + " for weight " +
              to_string(w.shape()));
  }
  return along(p, axis, w.rank());
}

Var integer_convolution(LowerContext& c, Var x, Var x_zero, Var w, Var w_zero) {
  if (w.rank() < 1) c.invalid("the weight is a scalar");
  return convolve(c, centred(c, x, scalar(x_zero)), centred(c, w, per_channel(c, w_zero, w, 0)));
}

void lower_conv_integer(LowerContext& c) {
  const Var y = integer_convolution(c, c.need(0), c.in(2), c.need(1), c.in(3));
  c.set(cast(y, DType::kInt32));
}

// y = clamp(round((x * w + bias) * (scale of x * scale of w / scale of y)) + zero point)
void lower_qlinear_conv(LowerContext& c) {
  const auto scale_of = [&](size_t i) { return cast(c.need(i), c.working); };
  const Var w = c.need(3);
  Var y = integer_convolution(c, c.need(0), c.in(2), w, c.in(5));
  if (c.has(8)) y = y + along(cast(c.in(8), DType::kFloat64), 1, y.rank());
  const Shape shape = y.shape();
  const Var scale = scalar(scale_of(1)) * per_channel(c, scale_of(4), w, 1) / scalar(scale_of(6));
  const Var zero_point = scalar(c.need(7));
  y = quantized(cast(y, c.working) * scale, zero_point, target_of(c, type_of(c, 7)), false);
  if (y.shape() != shape) c.invalid("scales and zero points of x and y are scalars");
  c.set(y);
}

using enum GradInputs;

// Only QuantizeLinear can pass gradients, and only straight through; the others are found here so
// that parameters behind them are known, and reported.
constexpr LoweringRow kRows[] = {
    {"", "ConvInteger", 10, lower_conv_integer, kFirstTwo},
    {"", "DequantizeLinear", 10, lower_dequantize, kFirst},
    {"", "DynamicQuantizeLinear", 11, lower_dynamic_quantize, kFirst},
    {"", "MatMulInteger", 10, lower_matmul_integer, kFirstTwo},
    {"", "QLinearConv", 10, lower_qlinear_conv, kFirst},
    {"", "QLinearMatMul", 10, lower_qlinear_matmul, kFirst},
    {"", "QuantizeLinear", 10, lower_quantize, kFirst},
};

}  // namespace

std::span<const LoweringRow> quantize_lowerings() { return kRows; }

}  // namespace trainrt::lowering
