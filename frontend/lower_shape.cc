// Shapes and data movement that shapes decide: Reshape family, Slice, Concat, Split, Pad, …
#include <algorithm>
#include <cmath>

#include "frontend/lower_util.h"
#include "graph/infer.h"

namespace trainrt {
namespace {

using namespace lowering;

// 0 copies the input's dim unless allowzero is set; -1 is what is left.
void lower_reshape(LowerContext& c) {
  const Var x = c.need(0);
  Shape shape = c.has_attr("shape") ? c.attr_ints("shape") : c.ints(1);
  if (c.attr_int("allowzero", 0) == 0) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != 0) continue;
      if (i >= x.shape().size()) {
        c.invalid("the shape copies dim " + std::to_string(i) + " of " + to_string(x.shape()));
      }
      shape[i] = x.shape()[i];
    }
  }
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0) continue;
    if (shape[i] != -1 || open >= 0) c.invalid("cannot reshape to " + to_string(shape));
    open = static_cast<int64_t>(i);
    shape[i] = 1;
  }
  known = element_count(shape);
  const int64_t size = x.type().size();
  if (open >= 0) {
    if (known == 0 ? size != 0 : size % known != 0) {
      c.invalid("cannot reshape " + to_string(x.shape()) + ": dims of " + std::to_string(known) +
                " elements are given");
    }
    shape[at(open)] = known == 0 ? 0 : size / known;
  } else if (known != size) {
    c.invalid("cannot reshape " + to_string(x.shape()) + " to " + to_string(shape));
  }
  c.set(reshape(x, std::move(shape)));
}

void lower_flatten(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.attr_int("axis", 1);
  if (axis < -x.rank() || axis > x.rank()) {
    c.invalid("axis " + std::to_string(axis) + " is outside rank " + std::to_string(x.rank()));
  }
  const int64_t cut = axis < 0 ? axis + x.rank() : axis;
  c.set(reshape(x, {product(x.shape(), 0, cut), product(x.shape(), cut, x.rank())}));
}

void lower_squeeze(LowerContext& c) {
  const Var x = c.need(0);
  std::vector<int64_t> axes;
  if (const auto given = ints_argument(c, "axes", 1)) {
    axes = c.axes(*given, x.rank());
  } else {
    for (int64_t a = 0; a < x.rank(); ++a) {
      if (x.dim(a) == 1) axes.push_back(a);
    }
  }
  c.set(squeeze(x, std::move(axes)));
}

void lower_unsqueeze(LowerContext& c) {
  const Var x = c.need(0);
  const auto given = ints_argument(c, "axes", 1);
  if (!given) c.invalid("axes are missing");
  std::vector<int64_t> axes = c.axes(*given, x.rank() + static_cast<int64_t>(given->size()));
  if (axes.size() != given->size()) c.invalid("axes repeat");
  c.set(unsqueeze(x, std::move(axes)));
}

void lower_transpose(LowerContext& c) {
  const Var x = c.need(0);
  std::vector<int64_t> perm = identity_perm(x.rank());
  std::reverse(perm.begin(), perm.end());
  c.set(transpose(x, c.attr_ints("perm", perm)));
}

void lower_expand(LowerContext& c) {
  const Var x = c.need(0);
  c.set(expand(x, broadcast_shapes(x.shape(), c.ints(1))));
}

// Each repeated axis gets an axis of its own in front, is expanded along it and merged again.
void lower_tile(LowerContext& c) {
  const Var x = c.need(0);
  const std::vector<int64_t> repeats = c.ints(1);
  if (static_cast<int64_t>(repeats.size()) != x.rank()) {
    c.invalid(std::to_string(repeats.size()) + " repeats for shape " + to_string(x.shape()));
  }
  Shape split, wide, merged;
  for (int64_t a = 0; a < x.rank(); ++a) {
    const int64_t r = repeats[at(a)];
    if (r < 0) c.invalid("repeats are negative: " + to_string(repeats));
    if (r != 1) {
      split.push_back(1);
      wide.push_back(r);
    }
    split.push_back(x.dim(a));
    wide.push_back(x.dim(a));
    merged.push_back(element_count(Shape{r, x.dim(a)}));
  }
  element_count(merged);
  c.set(reshape(expand(reshape(x, split), wide), merged));
}

void lower_concat(LowerContext& c) {
  std::vector<Var> parts;
  for (size_t i = 0; i < c.input_count(); ++i) parts.push_back(c.need(i));
  if (parts.empty()) c.invalid("Concat has no inputs");
  c.set(concat(parts, c.axis(c.attr_int("axis"), parts[0].rank())));
}

// Sizes are given, or equal: the last part is smaller where the dim does not divide (opset 18).
void lower_split(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", 0), x.rank()), dim = x.dim(axis);
  std::vector<int64_t> sizes;
  if (const auto given = ints_argument(c, "split", 1)) {
    sizes = *given;
  } else {
    const int64_t n = c.attr_int("num_outputs", static_cast<int64_t>(c.output_count()));
    if (n < 1 || n > dim + static_cast<int64_t>(c.output_count())) {
      c.invalid("cannot split a dim of " + std::to_string(dim) + " in " + std::to_string(n));
    }
    if (!c.has_attr("num_outputs") && dim % n != 0) {
      c.invalid("cannot split a dim of " + std::to_string(dim) + " in " + std::to_string(n) +
                " equal parts");
    }
    const int64_t part = (dim + n - 1) / n;
    for (int64_t i = 0; i < n; ++i) sizes.push_back(std::clamp(dim - i * part, int64_t{0}, part));
  }
  if (sizes.size() < c.output_count()) {
    c.invalid(std::to_string(sizes.size()) + " parts for " + std::to_string(c.output_count()) +
              " outputs");
  }
  const std::vector<Var> parts = split(x, axis, sizes);
  for (size_t i = 0; i < c.output_count(); ++i) c.set(i, parts[i]);
}

void lower_slice(LowerContext& c) {
  const Var x = c.need(0);
  const auto starts = ints_argument(c, "starts", 1), ends = ints_argument(c, "ends", 2);
  if (!starts || !ends) c.invalid("starts or ends are missing");
  auto axes = ints_argument(c, "axes", 3);
  if (!axes) axes = identity_perm(static_cast<int64_t>(starts->size()));
  auto steps = c.opset >= 10 && c.has(4) ? c.ints(4) : std::vector<int64_t>(starts->size(), 1);
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      steps.size() != starts->size()) {
    c.invalid("starts, ends, axes and steps differ in length");
  }
  SliceAttrs s{
      std::vector<int64_t>(at(x.rank()), 0), std::vector<int64_t>(at(x.rank()), 1), x.shape(), {}};
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t a = c.axis((*axes)[i], x.rank()), dim = x.dim(a);
    if (steps[i] == 0) c.invalid("a step is 0");
    // Longer steps than the dim reach nothing more.
    const int64_t step = std::clamp(steps[i], -dim - 1, dim + 1);
    const auto clamped = [&](int64_t v, int64_t lo) {
      return std::clamp(v < 0 ? v + dim : v, lo, std::max(lo, step > 0 ? dim : dim - 1));
    };
    const int64_t start = clamped((*starts)[i], 0);
    const int64_t span = clamped((*ends)[i], step > 0 ? 0 : -1) - start;
    const int64_t size = dim == 0 || span == 0 || (span > 0) != (step > 0)
                             ? 0
                             : (std::abs(span) + std::abs(step) - 1) / std::abs(step);
    s.starts[at(a)] = size == 0 ? 0 : start;
    s.steps[at(a)] = size == 0 ? 1 : step;
    s.sizes[at(a)] = size;
  }
  const bool whole = s.sizes == x.shape() &&
                     std::all_of(s.steps.begin(), s.steps.end(), [](int64_t v) { return v == 1; });
  c.set(whole ? x : c.b.add(Op::kSlice, {x}, std::move(s)));
}

PadMode pad_mode(LowerContext& c) {
  const std::string mode = c.attr_string("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap") return PadMode::kWrap;
  c.invalid("mode is constant, reflect, edge or wrap, not '" + mode + "'");
}

void lower_pad(LowerContext& c) {
  const Var x = c.need(0);
  const auto pads = ints_argument(c, "pads", 1);
  if (!pads) c.invalid("pads are missing");
  PadAttrs p{std::vector<int64_t>(at(x.rank()), 0),
             std::vector<int64_t>(at(x.rank()), 0),
             pad_mode(c),
             0,
             {}};
  if (c.opset < 11) {
    p.value = c.attr_float("value", 0);
  } else if (c.has(2) && c.in(2).type().size() != 0 && p.mode == PadMode::kConstant) {
    p.value = c.number(2);
  }
  const std::vector<int64_t> axes = c.has(3) ? c.ints(3) : identity_perm(x.rank());
  if (pads->size() != 2 * axes.size()) {
    c.invalid(std::to_string(pads->size()) + " pads for " + std::to_string(axes.size()) + " axes");
  }
  bool any = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t a = at(c.axis(axes[i], x.rank()));
    p.before[a] = (*pads)[i];
    p.after[a] = (*pads)[i + axes.size()];
    any = any || p.before[a] != 0 || p.after[a] != 0;
  }
  c.set(any ? c.b.add(Op::kPad, {x}, std::move(p)) : x);
}

void lower_shape(LowerContext& c) {
  const Shape& shape = c.need(0).shape();
  const int64_t rank = static_cast<int64_t>(shape.size());
  const auto clamped = [&](int64_t v) {
    return std::clamp(v < 0 ? v + rank : v, int64_t{0}, rank);
  };
  const int64_t start = clamped(c.attr_int("start", 0)), end = clamped(c.attr_int("end", rank));
  const std::span<const int64_t> dims(shape);
  c.set(c.b.constant(
      Tensor::of_ints(start < end ? dims.subspan(at(start), at(end - start)) : dims.first(0))));
}

void lower_size(LowerContext& c) {
  c.set(c.b.constant(Tensor::scalar<int64_t>(c.need(0).type().size())));
}

void lower_constant_of_shape(LowerContext& c) {
  const Shape shape = c.ints(0);
  element_count(shape);
  if (!c.has_attr("value")) {
    c.set(c.b.fill(c.working, 0, shape));
    return;
  }
  const Tensor t = c.attr_tensor("value");
  if (t.size() != 1) c.invalid("value has " + std::to_string(t.size()) + " elements, not one");
  const double number = t.item();
  if (is_float(t.dtype()) || std::abs(number) < 9007199254740992.0) {
    c.set(c.b.fill(t.dtype(), number, shape));
  } else {
    c.set(expand(c.b.constant(t.reshape({})), shape));
  }
}

int64_t checked_count(LowerContext& c, double count) {
  if (!(count <= static_cast<double>(kMaxConstant))) c.invalid("Range has too many elements");
  return count > 0 ? static_cast<int64_t>(count) : 0;
}

Tensor float_range(LowerContext& c) {
  const double start = c.number(0), limit = c.number(1), delta = c.number(2);
  if (delta == 0) c.invalid("delta of Range is 0");
  Tensor t(DType::kFloat64, {checked_count(c, std::ceil((limit - start) / delta))});
  for (int64_t i = 0; i < t.size(); ++i) {
    t.data<double>()[at(i)] = start + static_cast<double>(i) * delta;
  }
  return t;
}

Tensor integer_range(LowerContext& c) {
  int64_t v[3];
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> one = c.ints(i);
    if (one.size() != 1) c.invalid("start, limit and delta of Range are scalars");
    v[i] = one[0];
  }
  const __int128 span = static_cast<__int128>(v[1]) - v[0], delta = v[2];
  if (delta == 0) c.invalid("delta of Range is 0");
  // Rounds away from zero; a span against the delta gives a count of 0 or less.
  const __int128 count = (span + delta + (delta > 0 ? -1 : 1)) / delta;
  Tensor t(DType::kInt64, {checked_count(c, static_cast<double>(count))});
  int64_t value = v[0];
  for (int64_t i = 0; i < t.size(); ++i) {
    t.data<int64_t>()[at(i)] = value;
    if (i + 1 < t.size()) value += v[2];
  }
  return t;
}

// max(ceil((limit - start) / delta), 0) elements
void lower_range(LowerContext& c) {
  const DType type = c.need(0).dtype();
  const Tensor values = is_float(type) ? float_range(c) : integer_range(c);
  c.set(c.b.constant(values.dtype() == type ? values : values.to(type)));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Concat", 4, lower_concat},
    {"", "ConstantOfShape", 9, lower_constant_of_shape, kNone},
    {"", "Expand", 8, lower_expand, kFirst},
    {"", "Flatten", 1, lower_flatten},
    {"", "Pad", 2, lower_pad, kFirst},
    {"", "Range", 11, lower_range, kNone},
    {"", "Reshape", 1, lower_reshape, kFirst},
    {"", "Shape", 1, lower_shape, kNone},
    {"", "Size", 1, lower_size, kNone},
    {"", "Slice", 1, lower_slice, kFirst},
    {"", "Split", 2, lower_split, kFirst},
    {"", "Squeeze", 1, lower_squeeze, kFirst},
    {"", "Tile", 6, lower_tile, kFirst},
    {"", "Transpose", 1, lower_transpose},
    {"", "Unsqueeze", 1, lower_unsqueeze, kFirst},
};

}  // namespace

std::span<const LoweringRow> shape_lowerings() {
  static const std::vector<LoweringRow> rows = joined({kRows, rearrange_lowerings()});
  return rows;
}

}  // namespace trainrt
