#include "frontend/lower_util.h"

#include <numeric>

#include "graph/infer.h"

namespace trainrt::lowering {

void lower_identity(LowerContext& c) { c.set_value(0, c.need_value(0)); }

std::optional<std::vector<int64_t>> ints_argument(const LowerContext& c, std::string_view attr,
                                                  size_t input) {
  if (c.has_attr(attr)) return c.attr_ints(attr);
  if (c.has(input)) return c.ints(input);
  return std::nullopt;
}

Var iota(LowerContext& c, int64_t n, DType dtype) {
  if (n < 0 || n > kMaxConstant) {
    c.invalid("a list of " + std::to_string(n) + " indices is out of reach");
  }
  Tensor t(DType::kInt64, {n});
  std::iota(t.data<int64_t>().begin(), t.data<int64_t>().end(), int64_t{0});
  return c.b.constant(dtype == DType::kInt64 ? t : t.to(dtype));
}

int64_t product(std::span<const int64_t> shape, int64_t begin, int64_t end) {
  return element_count(shape.subspan(at(begin), at(end - begin)));
}

std::vector<int64_t> identity_perm(int64_t rank) {
  std::vector<int64_t> perm(at(rank));
  std::iota(perm.begin(), perm.end(), int64_t{0});
  return perm;
}

Var along(Var v, int64_t axis, int64_t rank) {
  Shape shape(at(rank - axis), 1);
  shape[0] = v.type().size();
  return reshape(v, std::move(shape));
}

// Integers: sum over k of a[…,m,k,1] b[…,1,k,n].
Var matmul_any(Var a, Var b) {
  if (is_float(a.dtype())) return matmul(a, b);
  return reduce_sum(unsqueeze(a, {-1}) * unsqueeze(b, {b.rank() - 2}), {-2});
}

Var matmul_numpy(LowerContext& c, Var a, Var b) {
  if (a.rank() == 0 || b.rank() == 0) c.invalid("an operand of MatMul is a scalar");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  Var y = matmul_any(row ? unsqueeze(a, {0}) : a, column ? unsqueeze(b, {1}) : b);
  if (column) y = squeeze(y, {-1});
  if (row) y = squeeze(y, {column ? -1 : -2});
  return y;
}

Var rms_normalize(Var x, int64_t axis, double epsilon, Var* inverse) {
  std::vector<int64_t> axes;
  for (int64_t a = axis; a < x.rank(); ++a) axes.push_back(a);
  const Var factor = reciprocal(sqrt(reduce_mean(square(x), axes, true) + epsilon));
  if (inverse != nullptr) *inverse = factor;
  return x * factor;
}

LayerNormResult layer_normalize(Var x, Var scale, Var bias, int64_t axis, double epsilon,
                                bool moments) {
  if (axis < 0 || axis >= x.rank()) {
    throw Error(ErrorCode::kInvalidModel, "cannot normalise a tensor of shape " +
                                              to_string(x.shape()) + " from axis " +
                                              std::to_string(axis) + " on");
  }
  LayerNormResult r;
  const Shape normal(x.shape().begin() + axis, x.shape().end());
  const bool whole = scale && scale.shape() == normal && (!bias || bias.shape() == normal);
  if (!moments && whole) {
    const Var shift = bias ? bias : x.builder().fill(x.dtype(), 0, normal);
    r.y = layer_norm(x, scale, shift, axis, epsilon);
    return r;
  }
  if (moments) {
    std::vector<int64_t> axes;
    for (int64_t a = axis; a < x.rank(); ++a) axes.push_back(a);
    r.mean = reduce_mean(x, axes, true);
    const Var centred = x - r.mean;
    r.inverse = reciprocal(sqrt(reduce_mean(square(centred), axes, true) + epsilon));
    r.y = centred * r.inverse;
  } else {
    r.y = layer_norm(x, {}, {}, axis, epsilon);
  }
  if (scale) r.y = r.y * scale;
  if (bias) r.y = r.y + bias;
  return r;
}

// 0.5 x (1 + erf(x / sqrt 2)), or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
Var gelu(Var x, bool tanh_form) {
  if (!tanh_form) return 0.5 * x * (erf(x * 0.70710678118654752440) + 1.0);
  const Var inner = 0.79788456080286535588 * (x + 0.044715 * (x * x * x));
  return 0.5 * x * (tanh(inner) + 1.0);
}

std::vector<LoweringRow> joined(std::initializer_list<std::span<const LoweringRow>> lists) {
  std::vector<LoweringRow> rows;
  for (std::span<const LoweringRow> list : lists) rows.insert(rows.end(), list.begin(), list.end());
  return rows;
}

}  // namespace trainrt::lowering
