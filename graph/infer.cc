#include "graph/infer.h"

#include <array>
#include <cmath>

#include "graph/infer_util.h"

namespace trainrt {
namespace infer {

void fail_with(const std::string& message) { throw Error(ErrorCode::kInvalidModel, message); }

void check_shape(std::span<const int64_t> shape, std::string_view what) {
  if (static_cast<int64_t>(shape.size()) > kMaxRank) {
    fail(what, " has rank ", shape.size(), ", at most ", kMaxRank, " is supported");
  }
  // Other dims count even beside a zero: they are used for strides and loop bounds.
  int64_t count = 1;
  for (int64_t d : shape) {
    if (d < 0) fail(what, " has a negative dim: ", to_string(shape));
    if (d > 0 && __builtin_mul_overflow(count, d, &count)) count = kMaxElements + 1;
    if (count > kMaxElements) fail(what, " is too large: ", to_string(shape));
  }
}

void check_axis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < 0 || axis >= rank) fail(what, " ", axis, " is outside of rank ", rank);
}

void check_length(size_t length, int64_t wanted, std::string_view what) {
  if (static_cast<int64_t>(length) != wanted) {
    fail(what, " has ", length, " entries, expected ", wanted);
  }
}

void check_same_shape(const TensorType& got, const Shape& wanted, std::string_view what) {
  if (got.shape != wanted) {
    fail(what, " has shape ", to_string(got.shape), ", expected ", to_string(wanted));
  }
}

void check_same_type(const TensorType& got, const TensorType& wanted, std::string_view what) {
  if (got != wanted) fail(what, " is ", to_string(got), ", expected ", to_string(wanted));
}

void check_same_dtype(const Args& a, size_t first, size_t second) {
  if (a.in[first].dtype != a.in[second].dtype) {
    fail("operands ", first, " and ", second, " need one type, given ", to_string(a.in[first]),
         " and ", to_string(a.in[second]));
  }
}

void check_float(const Args& a, size_t i) {
  if (!is_float(a.in[i].dtype)) {
    fail("operand ", i, " must be floating point, given ", to_string(a.in[i]));
  }
}

void check_numeric(const Args& a, size_t i) {
  if (a.in[i].dtype == DType::kBool) {
    fail("operand ", i, " must be a number, given ", to_string(a.in[i]));
  }
}

void check_index_type(const Args& a, size_t i) {
  const DType t = a.in[i].dtype;
  if (t != DType::kInt32 && t != DType::kInt64) {
    fail("operand ", i, " must be int32 or int64, given ", to_string(a.in[i]));
  }
}

void check_rank(const Args& a, size_t i, int64_t at_least) {
  if (a.in[i].rank() < at_least) {
    fail("operand ", i, " needs rank ", at_least, " or more, given ", to_string(a.in[i]));
  }
}

void check_no_shape(const Shape& shape) {
  if (!shape.empty()) fail("attribute shape must be empty here, given ", to_string(shape));
}

bool representable(double value, DType dtype) {
  if (is_float(dtype)) return true;
  if (!std::isfinite(value) || value != std::trunc(value)) return false;
  if (dtype == DType::kBool) return value == 0 || value == 1;
  const int bits = static_cast<int>(dtype_size(dtype)) * 8;
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 ||
                         dtype == DType::kInt32 || dtype == DType::kInt64;
  const double above = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  return value < above && value >= (is_signed ? -above : 0.0);
}

namespace {

using Table = std::array<Types (*)(const Args&), kOpCount>;

const Table& table() {
  static const Table rows = [] {
    Table t{};
    for (auto list : {elementwise_rows(), shape_rows(), indexing_rows(), compute_rows(),
                      spatial_rows(), training_rows(), recurrent_rows()}) {
      for (const Row& row : list) t[static_cast<size_t>(row.op)] = row.infer;
    }
    return t;
  }();
  return rows;
}

bool has_right_attrs(Op op, const Attrs& attrs) {
  switch (op) {
#define OP(name, min_in, max_in, outputs, attributes) \
  case Op::k##name:                                   \
    return std::holds_alternative<attributes>(attrs);
#include "graph/op_list.def"
#undef OP
  }
  return false;
}

void check_type(const TensorType& type, const std::string& what) {
  if (type.dtype == DType::kFloat16 || type.dtype == DType::kBFloat16) {
    fail(what, " is ", to_string(type), "; half precision is for storage only, cast it first");
  }
  check_shape(type.shape, what);
}

}  // namespace
}  // namespace infer

std::vector<TensorType> infer_types(Op op, std::span<const TensorType> inputs, const Attrs& attrs) {
  using infer::fail;
  const auto index = static_cast<size_t>(op);
  if (index >= static_cast<size_t>(kOpCount)) fail("there is no op number ", index);
  const OpInfo& info = op_info(op);
  const auto count = static_cast<int64_t>(inputs.size());
  if (count < info.min_inputs || (info.max_inputs >= 0 && count > info.max_inputs)) {
    fail(info.name, " takes ", info.min_inputs,
         info.max_inputs < 0                  ? " or more"
         : info.max_inputs == info.min_inputs ? ""
                                              : " to " + std::to_string(info.max_inputs),
         " operands, given ", count);
  }
  if (!infer::has_right_attrs(op, attrs)) fail(info.name, " has attributes of another op");
  for (size_t i = 0; i < inputs.size(); ++i) {
    infer::check_type(inputs[i], "operand " + std::to_string(i));
  }
  const auto rule = infer::table()[index];
  TRAINRT_CHECK(rule != nullptr, "no inference rule for " + std::string(info.name));
  std::vector<TensorType> plain(inputs.begin(), inputs.end());
  for (TensorType& type : plain) type.layout = Layout::kPlain;
  std::vector<TensorType> out = rule({op, plain, attrs});
  for (const TensorType& type : out) infer::check_type(type, "the result");
  return out;
}

Shape broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      infer::fail("shapes ", to_string(a), " and ", to_string(b), " do not broadcast");
    }
    out[rank - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace trainrt
