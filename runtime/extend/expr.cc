#include "trainrt/expr.h"

#include "runtime/extend/expr_var.h"

namespace trainrt {
namespace {

std::vector<int64_t> axes_of(Var x, std::vector<int64_t> axes) {
  return axes.empty() ? all_axes(x) : axes;
}

int64_t axis_of(Var x, int64_t axis) { return axis < 0 ? axis + x.rank() : axis; }

}  // namespace

Var need_var(Expr e) {
  if (!e) throw Error(ErrorCode::kUsage, "an absent value in a formula");
  return var_of(e);
}

std::vector<Var> vars_of(std::span<const Expr> list) {
  std::vector<Var> vars;
  for (Expr e : list) vars.push_back(var_of(e));
  return vars;
}

std::vector<Expr> exprs_of(std::span<const Var> list) {
  std::vector<Expr> exprs;
  for (Var v : list) exprs.push_back(expr_of(v));
  return exprs;
}

const Shape& Expr::shape() const { return need_var(*this).shape(); }
DType Expr::dtype() const { return need_var(*this).dtype(); }

int64_t Expr::dim(int64_t axis) const {
  const int64_t at = axis < 0 ? axis + rank() : axis;
  if (at < 0 || at >= rank()) {
    throw Error(ErrorCode::kInvalidModel,
                "axis " + std::to_string(axis) + " is outside " + to_string(shape()));
  }
  return shape()[static_cast<size_t>(at)];
}

Expr Expr::constant(const Tensor& value) const {
  return expr_of(need_var(*this).builder().constant(value.clone()));
}

Expr Expr::constant(double value) const {
  return expr_of(need_var(*this).builder().fill(dtype(), value));
}

// A function of Vars as a function of Exprs.
#define TRAINRT_UNARY(name, formula) \
  Expr name(Expr e) {                \
    const Var x = need_var(e);       \
    return expr_of(formula);         \
  }
TRAINRT_UNARY(operator-, -x)
TRAINRT_UNARY(exp, exp(x))
TRAINRT_UNARY(log, log(x))
TRAINRT_UNARY(sqrt, sqrt(x))
TRAINRT_UNARY(square, square(x))
TRAINRT_UNARY(abs, abs(x))
TRAINRT_UNARY(sign, sign(x))
TRAINRT_UNARY(tanh, tanh(x))
TRAINRT_UNARY(sigmoid, sigmoid(x))
TRAINRT_UNARY(erf, erf(x))
TRAINRT_UNARY(relu, relu(x))
TRAINRT_UNARY(softplus, unary(Op::kSoftplus, x))
TRAINRT_UNARY(sin, unary(Op::kSin, x))
TRAINRT_UNARY(cos, unary(Op::kCos, x))
TRAINRT_UNARY(stop_gradient, stop_gradient(x))
#undef TRAINRT_UNARY

#define TRAINRT_BINARY(name, formula)                  \
  Expr name(Expr left, Expr right) {                   \
    const Var a = need_var(left), b = need_var(right); \
    return expr_of(formula);                           \
  }
TRAINRT_BINARY(operator+, a + b)
TRAINRT_BINARY(operator-, a - b)
TRAINRT_BINARY(operator*, a* b)
TRAINRT_BINARY(operator/, a / b)
TRAINRT_BINARY(maximum, maximum(a, b))
TRAINRT_BINARY(minimum, minimum(a, b))
TRAINRT_BINARY(equal, equal(a, b))
TRAINRT_BINARY(less, less(a, b))
TRAINRT_BINARY(greater, greater(a, b))
TRAINRT_BINARY(matmul, matmul(a, b))
#undef TRAINRT_BINARY

#define TRAINRT_NUMBER(op)                                                 \
  Expr operator op(Expr a, double b) { return expr_of(need_var(a) op b); } \
  Expr operator op(double a, Expr b) { return expr_of(a op need_var(b)); }
TRAINRT_NUMBER(+)
TRAINRT_NUMBER(-)
TRAINRT_NUMBER(*)
TRAINRT_NUMBER(/)
#undef TRAINRT_NUMBER

Expr pow(Expr a, double b) { return expr_of(pow(need_var(a), b)); }
Expr clip(Expr x, double lo, double hi) { return expr_of(clip(need_var(x), lo, hi)); }
Expr where(Expr condition, Expr then, Expr otherwise) {
  return expr_of(where(need_var(condition), need_var(then), need_var(otherwise)));
}
Expr cast(Expr x, DType to) { return expr_of(cast(need_var(x), to)); }

Expr reshape(Expr x, Shape shape) { return expr_of(reshape(need_var(x), std::move(shape))); }
Expr transpose(Expr x, std::vector<int64_t> perm) {
  return expr_of(transpose(need_var(x), std::move(perm)));
}
Expr expand(Expr x, Shape shape) { return expr_of(expand(need_var(x), std::move(shape))); }
Expr slice(Expr x, int64_t axis, int64_t start, int64_t size, int64_t step) {
  return expr_of(slice(need_var(x), axis, start, size, step));
}
Expr concat(std::span<const Expr> parts, int64_t axis) {
  std::vector<Var> vars;
  for (Expr e : parts) vars.push_back(need_var(e));
  return expr_of(concat(vars, axis));
}
Expr gather(Expr data, Expr indices, int64_t axis) {
  return expr_of(gather(need_var(data), need_var(indices), axis));
}

#define TRAINRT_REDUCTION(name, function)                               \
  Expr name(Expr e, std::vector<int64_t> axes, bool keepdims) {         \
    const Var x = need_var(e);                                          \
    return expr_of(function(x, axes_of(x, std::move(axes)), keepdims)); \
  }
TRAINRT_REDUCTION(sum, reduce_sum)
TRAINRT_REDUCTION(mean, reduce_mean)
TRAINRT_REDUCTION(max, reduce_max)
TRAINRT_REDUCTION(min, reduce_min)
#undef TRAINRT_REDUCTION

Expr softmax(Expr e, int64_t axis) {
  const Var x = need_var(e);
  return expr_of(softmax(x, axis_of(x, axis)));
}
Expr log_softmax(Expr e, int64_t axis) {
  const Var x = need_var(e);
  return expr_of(log_softmax(x, axis_of(x, axis)));
}
Expr cross_entropy(Expr logits, Expr ids, int64_t axis) {
  const Var x = need_var(logits);
  return expr_of(x.builder().add(Op::kCrossEntropy, {x, need_var(ids)},
                                 LossAttrs{axis_of(x, axis), -100, {}}));
}

}  // namespace trainrt
