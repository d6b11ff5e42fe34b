// Gather and Scatter families. Contents of index tensors are checked by the kernels.
#include "graph/attr_fields.h"
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

Shape gathered(const Shape& data, const Shape& indices, int64_t axis) {
  check_axis(axis, static_cast<int64_t>(data.size()));
  Shape out(data.begin(), data.begin() + axis);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), data.begin() + axis + 1, data.end());
  return out;
}

Types gather(const Args& a) {
  check_index_type(a, 1);
  return {{a.in[0].dtype, gathered(a.in[0].shape, a.in[1].shape, a.attr<AxisAttrs>().axis)}};
}

Types gather_grad(const Args& a) {
  const auto& attr = a.attr<GatherGradAttrs>();
  check_float(a, 0);
  check_index_type(a, 1);
  check_shape(attr.shape, "attribute shape");
  check_same_shape(a.in[0], gathered(attr.shape, a.in[1].shape, attr.axis), "operand 0");
  return {{a.in[0].dtype, attr.shape}};
}

// Indices address data along `axis` and reach no further than data along the others.
void check_elements(const Args& a, int64_t axis) {
  check_index_type(a, 1);
  check_axis(axis, a.in[0].rank());
  const Shape &data = a.in[0].shape, &indices = a.in[1].shape;
  bool fits = data.size() == indices.size();
  for (size_t i = 0; fits && i < data.size(); ++i) {
    fits = static_cast<int64_t>(i) == axis || indices[i] <= data[i];
  }
  if (!fits) {
    fail("indices ", to_string(indices), " do not fit data ", to_string(data), " along axis ",
         axis);
  }
}

Types gather_elements(const Args& a) {
  check_elements(a, a.attr<AxisAttrs>().axis);
  return {{a.in[0].dtype, a.in[1].shape}};
}

// Shape of what the rows of `indices` address.
Shape addressed(const Args& a, int64_t batch_dims) {
  check_index_type(a, 1);
  check_rank(a, 0, 1);
  check_rank(a, 1, 1);
  const Shape &data = a.in[0].shape, &indices = a.in[1].shape;
  if (batch_dims < 0 || batch_dims >= a.in[0].rank() || batch_dims >= a.in[1].rank()) {
    fail("batch_dims ", batch_dims, " does not fit data ", to_string(data), " and indices ",
         to_string(indices));
  }
  for (int64_t i = 0; i < batch_dims; ++i) {
    if (data[static_cast<size_t>(i)] != indices[static_cast<size_t>(i)]) {
      fail("data ", to_string(data), " and indices ", to_string(indices), " differ in batch axis ",
           i);
    }
  }
  const int64_t depth = indices.back();
  if (depth < 1 || depth > a.in[0].rank() - batch_dims) {
    fail("the last dim of indices ", to_string(indices), " must be 1 to ",
         a.in[0].rank() - batch_dims, " for data ", to_string(data));
  }
  Shape out(indices.begin(), indices.end() - 1);
  out.insert(out.end(), data.begin() + batch_dims + depth, data.end());
  return out;
}

Types gather_nd(const Args& a) {
  return {{a.in[0].dtype, addressed(a, a.attr<GatherNDAttrs>().batch_dims)}};
}

void check_reduction(const Args& a) {
  const Reduction r = a.attr<ScatterAttrs>().reduction;
  if (!enum_in_range(r)) fail("unknown reduction");
  if (r != Reduction::kNone) check_numeric(a, 0);
  check_same_dtype(a, 0, 2);
}

Types scatter_elements(const Args& a) {
  check_reduction(a);
  check_elements(a, a.attr<ScatterAttrs>().axis);
  check_same_shape(a.in[2], a.in[1].shape, "updates");
  return {a.in[0]};
}

Types scatter_nd(const Args& a) {
  check_reduction(a);
  if (a.attr<ScatterAttrs>().axis != 0) fail("ScatterND has no axis");
  check_same_shape(a.in[2], addressed(a, 0), "updates");
  return {a.in[0]};
}

constexpr Row kRows[] = {
    {Op::kGather, gather},
    {Op::kGatherGrad, gather_grad},
    {Op::kGatherElements, gather_elements},
    {Op::kGatherND, gather_nd},
    {Op::kScatterElements, scatter_elements},
    {Op::kScatterND, scatter_nd},
};

}  // namespace

std::span<const Row> indexing_rows() { return kRows; }

}  // namespace trainrt::infer
