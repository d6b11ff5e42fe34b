// Linear quantization.
#include <limits>

#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// A scale or zero point in a shape that broadcasts to x: one element, one per index of the axis, or
// one per block along it, each repeated.
Var spread(LowerContext& c, Var p, Var x) {
  if (p.type().size() == 1 && p.rank() <= 1) return reshape(p, {});
  const int64_t axis = c.axis(c.attr_int("axis", 1), x.rank()), block = c.attr_int("block_size", 0);
  if (block == 0) {
    if (p.rank() != 1 || p.dim(0) != x.dim(axis)) {
      c.invalid("a scale of shape " + to_string(p.shape()) + " for axis " + std::to_string(axis) +
                " of " + to_string(x.shape()));
    }
    return along(p, axis, x.rank());
  }
  if (block < 1 || p.rank() != x.rank() || block > x.dim(axis) ||
      p.dim(axis) != (x.dim(axis) + block - 1) / block) {
    c.invalid("blocks of " + std::to_string(block) + " with a scale of shape " +
              to_string(p.shape()) + " for " + to_string(x.shape()));
  }
  Shape wide = p.shape(), merged = p.shape();
  wide.insert(wide.begin() + axis + 1, block);
  merged[at(axis)] *= block;
  const Var repeated = reshape(expand(unsqueeze(p, {axis + 1}), wide), merged);
  return slice(repeated, axis, 0, x.dim(axis));
}

// (x - zero point) * scale
void lower_dequantize(LowerContext& c) {
  const Var x = c.need(0), scale = c.need(1);
  Var y = cast(x, c.working);
  if (c.has(2)) y = y - spread(c, cast(c.in(2), c.working), x);
  c.set(y * spread(c, scale, x));
}

// clamp(round(x / scale) + zero point)
Var quantized(Var x, Var scale, Var zero_point, DType type) {
  Var y = unary(Op::kRound, x / scale);
  if (zero_point) y = y + cast(zero_point, x.dtype());
  with_type(type, [&]<typename T>(T) {
    y = clip(y, static_cast<double>(std::numeric_limits<T>::lowest()),
             static_cast<double>(std::numeric_limits<T>::max()));
  });
  return cast(y, type);
}

void lower_quantize(LowerContext& c) {
  const Var x = c.need(0), scale = c.need(1);
  DType type = DType::kUInt8;
  if (c.has(2)) {
    type = c.in(2).dtype();
  } else if (c.attr_int("output_dtype", 0) != 0) {
    type = c.attr_dtype("output_dtype");
  }
  if (!is_integer(type) || dtype_size(type) > 2) {
    c.refuse("no_lowering", "quantization to " + std::string(dtype_name(type)));
  }
  const Var real = cast(x, scale.dtype());
  c.set(quantized(real, spread(c, scale, x), c.has(2) ? spread(c, c.in(2), x) : Var(), type));
}

// scale = (max(x, 0) - min(x, 0)) / 255, zero point = clamp(round(-min / scale)). A range of 0 has
// the scale 1.
void lower_dynamic_quantize(LowerContext& c) {
  const Var x = stop_gradient(c.need(0)), zero = c.b.fill(x.dtype(), 0);
  const Var hi = maximum(reduce_max(x, all_axes(x)), zero);
  const Var lo = minimum(reduce_min(x, all_axes(x)), zero);
  const Var range = (hi - lo) / 255.0;
  const Var scale = where(equal(range, zero), 1.0, range);
  const Var zero_point = quantized(-lo, scale, {}, DType::kUInt8);
  c.set(0, quantized(x, scale, zero_point, DType::kUInt8));
  c.set(1, scale);
  c.set(2, zero_point);
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "DequantizeLinear", 10, lower_dequantize, kNone},
    {"", "DynamicQuantizeLinear", 11, lower_dynamic_quantize, kNone},
    {"", "QuantizeLinear", 10, lower_quantize, kNone},
};

}  // namespace

std::span<const LoweringRow> quantize_lowerings() { return kRows; }

}  // namespace trainrt::lowering
