#include <algorithm>

#include "autodiff/rule.h"

namespace trainrt {
namespace {

/// All leading axes in one: [rows, last].
Var as_rows(Var x) { return flatten(x, x.rank() - 1); }

/// The gradient before the node's ReLU.
Var before_relu(const GradArgs& a, bool relu) {
  return relu ? a.builder().add(Op::kReluGrad, {a.dy(), a.y()}) : a.dy();
}

/// dB of C = op(A) B with one B for a whole batch: a single product over all rows.
Var shared_b_grad(const GradArgs& a, Var dz, MatMulAttrs attrs) {
  const Var rows = as_rows(attrs.trans_a ? swap_last(a.x(0)) : a.x(0)), dy = as_rows(dz);
  return attrs.trans_b ? matmul(dy, rows, {true, false}) : matmul(rows, dy, {true, false});
}

// C = A B + c  =>  dA = dC B^T, dB = A^T dC, dc = dC summed over rows; with transposed operands the
// products turn round, with a ReLU dC counts where C > 0
Grads matmul_grad(const GradArgs& a) {
  const auto [ta, tb, relu] = a.attr<MatMulAttrs>();
  const Var x = a.x(0), w = a.x(1), dy = before_relu(a, relu);
  Grads grads = {a.want(0,
                        [&, ta = ta, tb = tb] {
                          return sum_to_shape(
                              ta ? matmul(w, dy, {tb, true}) : matmul(dy, w, {false, !tb}),
                              x.shape());
                        }),
                 a.want(1, [&, ta = ta, tb = tb] {
                   // Rows can be merged only while A has all of C's batch axes.
                   if (w.rank() == 2 && x.rank() > 2) return shared_b_grad(a, dy, {ta, tb});
                   return sum_to_shape(tb ? matmul(dy, x, {true, ta}) : matmul(x, dy, {!ta, false}),
                                       w.shape());
                 })};
  if (a.input_count() > 2) {
    grads.push_back(a.want(2, [&] { return sum_to_shape(dy, a.x(2).shape()); }));
  }
  return grads;
}

// y = det X  =>  dX = dy times the cofactors of X, also where X is singular
Grads det_grad(const GradArgs& a) {
  return {unsqueeze(a.dy(), {-2, -1}) * a.builder().add(Op::kCofactor, {a.x()})};
}

template <typename A>
A with_shape(A attrs, Shape shape) {
  attrs.shape = std::move(shape);
  return attrs;
}

/// Attributes of a convolution's adjoints, and of the convolution behind an adjoint.
ConvAttrs adjoint(ConvAttrs attrs, Shape shape) {
  attrs.relu = false;
  return with_shape(std::move(attrs), std::move(shape));
}

Var conv_data_grad(const GradArgs& a, Var dy, Var w, Var x) {
  return a.builder().add(Op::kConvDataGrad, {dy, w}, adjoint(a.attr<ConvAttrs>(), x.shape()));
}

Var conv_weight_grad(const GradArgs& a, Var x, Var dy, Var w) {
  return a.builder().add(Op::kConvWeightGrad, {x, dy}, adjoint(a.attr<ConvAttrs>(), w.shape()));
}

Var conv(const GradArgs& a, Var x, Var w) {
  return a.builder().add(Op::kConv, {x, w}, with_shape(a.attr<ConvAttrs>(), {}));
}

// y = x * w + b  =>  dx, dw by the adjoint convolutions, db = dy summed over all but channels; with
// a ReLU dy counts where y > 0
Grads conv_grad(const GradArgs& a) {
  const Var dy = before_relu(a, a.attr<ConvAttrs>().relu);
  Grads grads = {a.want(0, [&] { return conv_data_grad(a, dy, a.x(1), a.x(0)); }),
                 a.want(1, [&] { return conv_weight_grad(a, a.x(0), dy, a.x(1)); })};
  if (a.input_count() > 2) {
    grads.push_back(a.want(2, [&] {
      std::vector<int64_t> axes = all_axes(dy);
      axes.erase(axes.begin() + 1);
      return reduce_sum(dy, std::move(axes));
    }));
  }
  return grads;
}

// z = D(u, w), the adjoint of x -> conv(x, w)  =>  du = conv(dz, w), dw as if dz were x and u dy
Grads conv_data_grad_grad(const GradArgs& a) {
  return {a.want(0, [&] { return conv(a, a.dy(), a.x(1)); }),
          a.want(1, [&] { return conv_weight_grad(a, a.dy(), a.x(0), a.x(1)); })};
}

// z = W(x, u), the adjoint of w -> conv(x, w)  =>  dx = D(u, dz), du = conv(x, dz)
Grads conv_weight_grad_grad(const GradArgs& a) {
  return {a.want(0, [&] { return conv_data_grad(a, a.x(1), a.dy(), a.x(0)); }),
          a.want(1, [&] { return conv(a, a.x(0), a.dy()); })};
}

// y = maxima of windows  =>  dx = dy added at the first maximum of each window
Grads max_pool_grad(const GradArgs& a) {
  return {a.builder().add(Op::kMaxPoolGrad, {a.dy(), a.x()}, a.attr<PoolAttrs>())};
}

// z = dy added at the maxima of x: linear in dy  =>  the gradient is dz at those maxima
Grads max_pool_grad_grad(const GradArgs& a) {
  PoolAttrs attrs = a.attr<PoolAttrs>();
  attrs.column_major = false;
  const Var indices = a.builder().add(Op::kMaxPoolIndices, {a.x(1)}, std::move(attrs));
  return {gather(reshape(a.dy(), {a.dy().type().size()}), indices, 0)};
}

Grads average_pool_grad(const GradArgs& a) {
  return {a.builder().add(Op::kAveragePoolGrad, {a.dy()},
                          with_shape(a.attr<PoolAttrs>(), a.x().shape()))};
}

Grads average_pool_grad_grad(const GradArgs& a) {
  return {a.builder().add(Op::kAveragePool, {a.dy()}, with_shape(a.attr<PoolAttrs>(), {}))};
}

Grads interpolate_grad(const GradArgs& a) {
  return {a.builder().add(Op::kInterpolateGrad, {a.dy()}, a.attr<InterpolateAttrs>())};
}

Grads interpolate_grad_grad(const GradArgs& a) {
  return {a.builder().add(Op::kInterpolate, {a.dy()}, a.attr<InterpolateAttrs>())};
}

// y = samples or cells of x, averaged or the largest  =>  dx = dy added where they came from
Grads roi_pool_grad(const GradArgs& a) {
  return {a.builder().add(Op::kRoiPoolGrad, {a.dy(), a.x(0), a.x(1), a.x(2)}, a.attr<RoiAttrs>())};
}

constexpr GradRow kRows[] = {
    {Op::kMatMul, matmul_grad},
    {Op::kDet, det_grad},
    {Op::kCofactor, nullptr, GradKind::kUnsupported},
    {Op::kConv, conv_grad},
    {Op::kConvDataGrad, conv_data_grad_grad},
    {Op::kConvWeightGrad, conv_weight_grad_grad},
    {Op::kMaxPool, max_pool_grad},
    {Op::kMaxPoolIndices, nullptr, GradKind::kNone},
    {Op::kMaxPoolGrad, max_pool_grad_grad, GradKind::kRule, 0b10},
    {Op::kAveragePool, average_pool_grad},
    {Op::kAveragePoolGrad, average_pool_grad_grad},
    {Op::kInterpolate, interpolate_grad},
    {Op::kInterpolateGrad, interpolate_grad_grad},
    {Op::kRoiPool, roi_pool_grad, GradKind::kRule, 0b110},
    {Op::kRoiPoolGrad, nullptr, GradKind::kUnsupported},
};

}  // namespace

std::span<const GradRow> linear_rules() { return kRows; }

}  // namespace trainrt
