// Shape and data movement.
#include <algorithm>

#include "graph/attr_fields.h"
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

Types reshape(const Args& a) {
  const Shape& shape = a.attr<ShapeAttrs>().shape;
  check_shape(shape, "the new shape");
  if (element_count(shape) != a.in[0].size()) {
    fail(to_string(a.in[0]), " does not reshape to ", to_string(shape));
  }
  return {{a.in[0].dtype, shape}};
}

Types transpose(const Args& a) {
  const auto& perm = a.attr<PermAttrs>().perm;
  const int64_t rank = a.in[0].rank();
  check_length(perm.size(), rank, "perm");
  std::vector<bool> seen(perm.size());
  Shape shape;
  for (int64_t p : perm) {
    check_axis(p, rank, "perm entry");
    if (seen[static_cast<size_t>(p)]) fail("perm ", to_string(perm), " names an axis twice");
    seen[static_cast<size_t>(p)] = true;
    shape.push_back(a.in[0].shape[static_cast<size_t>(p)]);
  }
  return {{a.in[0].dtype, shape}};
}

Types expand(const Args& a) {
  const Shape& shape = a.attr<ShapeAttrs>().shape;
  check_shape(shape, "the new shape");
  if (broadcast_shapes(a.in[0].shape, shape) != shape) {
    fail(to_string(a.in[0]), " does not expand to ", to_string(shape));
  }
  return {{a.in[0].dtype, shape}};
}

// Checks a slice of a tensor of this shape.
void check_slice(const SliceAttrs& s, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  check_length(s.starts.size(), rank, "starts");
  check_length(s.steps.size(), rank, "steps");
  check_length(s.sizes.size(), rank, "sizes");
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t start = s.starts[i], step = s.steps[i], size = s.sizes[i], dim = shape[i];
    int64_t last = start;
    const bool overflow = size > 0 && (__builtin_mul_overflow(size - 1, step, &last) ||
                                       __builtin_add_overflow(start, last, &last));
    const bool inside = size > 0 ? start >= 0 && start < dim && last >= 0 && last < dim
                                 : start >= 0 && start <= dim;
    if (step == 0 || size < 0 || overflow || !inside) {
      fail("slice start ", start, ", step ", step, ", size ", size, " does not fit axis ", i,
           " of ", to_string(shape));
    }
  }
}

Types slice(const Args& a) {
  const auto& attr = a.attr<SliceAttrs>();
  check_no_shape(attr.shape);
  check_slice(attr, a.in[0].shape);
  return {{a.in[0].dtype, attr.sizes}};
}

Types slice_grad(const Args& a) {
  const auto& attr = a.attr<SliceAttrs>();
  check_float(a, 0);
  check_shape(attr.shape, "attribute shape");
  check_slice(attr, attr.shape);
  check_same_shape(a.in[0], attr.sizes, "operand 0");
  return {{a.in[0].dtype, attr.shape}};
}

Types concat(const Args& a) {
  const int64_t axis = a.attr<AxisAttrs>().axis;
  check_axis(axis, a.in[0].rank());
  TensorType out = a.in[0];
  int64_t& total = out.shape[static_cast<size_t>(axis)];
  for (size_t i = 1; i < a.in.size(); ++i) {
    check_same_dtype(a, 0, i);
    const Shape& shape = a.in[i].shape;
    bool fits = shape.size() == out.shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) {
      fits = static_cast<int64_t>(d) == axis || shape[d] == out.shape[d];
    }
    if (!fits) {
      fail("operands 0 and ", i, " do not join along axis ", axis, ": ", to_string(a.in[0].shape),
           " and ", to_string(shape));
    }
    if (__builtin_add_overflow(total, shape[static_cast<size_t>(axis)], &total)) {
      fail("the result is too large");
    }
  }
  return {out};
}

Types split(const Args& a) {
  const auto& attr = a.attr<SplitAttrs>();
  check_axis(attr.axis, a.in[0].rank());
  if (attr.sizes.empty()) fail("split into no parts");
  Types out;
  int64_t rest = a.in[0].shape[static_cast<size_t>(attr.axis)];
  for (int64_t size : attr.sizes) {
    if (size < 0 || size > rest) break;
    rest -= size;
    out.push_back(a.in[0]);
    out.back().shape[static_cast<size_t>(attr.axis)] = size;
  }
  if (out.size() != attr.sizes.size() || rest != 0) {
    fail("parts of sizes ", to_string(attr.sizes), " do not make up axis ", attr.axis, " of ",
         to_string(a.in[0].shape));
  }
  return out;
}

Shape padded_shape(const PadAttrs& p, const Shape& shape) {
  if (!enum_in_range(p.mode)) fail("unknown pad mode");
  check_length(p.before.size(), static_cast<int64_t>(shape.size()), "before");
  check_length(p.after.size(), static_cast<int64_t>(shape.size()), "after");
  Shape out = shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t dim = shape[i];
    // Furthest cell that the mode can reach from the border.
    const int64_t reach = p.mode == PadMode::kReflect            ? std::max<int64_t>(dim - 1, 0)
                          : p.mode == PadMode::kWrap             ? dim
                          : p.mode == PadMode::kEdge && dim == 0 ? 0
                                                                 : kMaxElements;
    for (int64_t count : {p.before[i], p.after[i]}) {
      if (count > reach || count < -dim) {
        fail("pad count ", count, " does not fit axis ", i, " of ", to_string(shape), " (mode ",
             kEnumNames<PadMode>[static_cast<size_t>(p.mode)], ")");
      }
    }
    out[i] += p.before[i] + p.after[i];
    if (out[i] < 0) {
      fail("pad counts ", p.before[i], " and ", p.after[i], " crop more than axis ", i, " of ",
           to_string(shape));
    }
  }
  return out;
}

Types pad(const Args& a) {
  const auto& attr = a.attr<PadAttrs>();
  check_no_shape(attr.shape);
  if (!representable(attr.value, a.in[0].dtype)) {
    fail("pad value ", attr.value, " is no ", dtype_name(a.in[0].dtype));
  }
  return {{a.in[0].dtype, padded_shape(attr, a.in[0].shape)}};
}

Types pad_grad(const Args& a) {
  const auto& attr = a.attr<PadAttrs>();
  check_float(a, 0);
  check_shape(attr.shape, "attribute shape");
  check_same_shape(a.in[0], padded_shape(attr, attr.shape), "operand 0");
  return {{a.in[0].dtype, attr.shape}};
}

Types trilu(const Args& a) {
  check_rank(a, 0, 2);
  const int64_t k = a.attr<TriluAttrs>().k;
  if (k > kMaxElements || k < -kMaxElements) fail("diagonal ", k, " is out of range");
  return {a.in[0]};
}

Types reorder(const Args& a) {
  TensorType type = a.in[0];
  type.layout = a.attr<LayoutAttrs>().layout;
  if (!enum_in_range(type.layout)) fail("unknown layout");
  if (type.layout == Layout::kNChw16c && type.rank() != 4) {
    fail("layout nChw16c is for rank 4, given ", to_string(a.in[0]));
  }
  return {type};
}

Types transfer(const Args& a) { return {a.in[0]}; }

constexpr Row kRows[] = {
    {Op::kReshape, reshape},      {Op::kTranspose, transpose},
    {Op::kExpand, expand},        {Op::kSlice, slice},
    {Op::kSliceGrad, slice_grad}, {Op::kConcat, concat},
    {Op::kSplit, split},          {Op::kPad, pad},
    {Op::kPadGrad, pad_grad},     {Op::kTrilu, trilu},
    {Op::kReorder, reorder},      {Op::kTransfer, transfer},
};

}  // namespace

std::span<const Row> shape_rows() { return kRows; }

}  // namespace trainrt::infer
