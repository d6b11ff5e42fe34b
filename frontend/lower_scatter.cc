// Scatter family.
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

Reduction reduction_of(LowerContext& c) {
  const std::string name = c.attr_string("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  if (name == "min") return Reduction::kMin;
  c.invalid("reduction is none, add, mul, max or min, not '" + name + "'");
}

void lower_scatter_elements(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", 0), x.rank());
  c.set(c.b.add(Op::kScatterElements, {x, c.need(1), c.need(2)},
                ScatterAttrs{axis, reduction_of(c)}));
}

void lower_scatter_nd(LowerContext& c) {
  c.set(
      c.b.add(Op::kScatterND, {c.need(0), c.need(1), c.need(2)}, ScatterAttrs{0, reduction_of(c)}));
}

// cache[b, …, write[b] + i, …] = update[b, …, i, …]; circular: modulo the cache's length.
void lower_tensor_scatter(LowerContext& c) {
  const Var cache = c.need(0), update = c.need(1);
  const int64_t axis = c.axis(c.attr_int("axis", -2), cache.rank());
  if (axis == 0 || update.rank() != cache.rank()) {
    c.invalid("axis is not the batch's, and update has the cache's rank");
  }
  const std::string mode = c.attr_string("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    c.invalid("mode is linear or circular, not '" + mode + "'");
  }
  Var index = along(iota(c, update.dim(axis)), axis, update.rank());
  if (c.has(2)) index = index + along(cast(c.in(2), DType::kInt64), 0, update.rank());
  if (mode == "circular") {
    index = binary(Op::kMod, index, c.b.fill(DType::kInt64, static_cast<double>(cache.dim(axis))));
  }
  c.set(c.b.add(Op::kScatterElements, {cache, expand(index, update.shape()), update},
                ScatterAttrs{axis, Reduction::kNone}));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Scatter", 9, lower_scatter_elements},
    {"", "ScatterElements", 11, lower_scatter_elements},
    {"", "ScatterND", 11, lower_scatter_nd},
    {"", "TensorScatter", 24, lower_tensor_scatter, kFirstTwo},
};

}  // namespace

std::span<const LoweringRow> scatter_lowerings() { return kRows; }

}  // namespace trainrt::lowering
