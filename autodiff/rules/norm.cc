#include <algorithm>

#include "autodiff/rule.h"

namespace trainrt {
namespace {

/// The gradient of output i, zeros when nothing flows into it.
Var dy_or_zero(const GradArgs& a, size_t i) { return a.dy(i) ? a.dy(i) : full_like(a.y(i), 0); }

// y = softmax x  =>  dx = y (dy - sum dy y)
Grads softmax_grad(const GradArgs& a) {
  return {a.builder().add(Op::kSoftmaxGrad, {a.dy(), a.y()}, a.attr<AxisAttrs>())};
}

// y = log softmax x  =>  dx = dy - e^y sum dy
Grads log_softmax_grad(const GradArgs& a) {
  return {a.builder().add(Op::kLogSoftmaxGrad, {a.dy(), a.y()}, a.attr<AxisAttrs>())};
}

// m = mean x, r = 1 / sqrt(var x + eps)  =>  dx = dm / n - dr r^3 (x - m) / n, seldom asked for
Var layer_statistics_grad(const GradArgs& a, Var dx) {
  const Var x = a.x();
  Shape kept = x.shape();
  int64_t n = 1;
  for (auto i = static_cast<size_t>(a.attr<NormAttrs>().axis); i < kept.size(); ++i) {
    n *= kept[i];
    kept[i] = 1;
  }
  const double share = 1.0 / static_cast<double>(n);
  if (a.dy(1)) dx = dx + reshape(a.dy(1), kept) * share;
  if (a.dy(2)) {
    const Var r = reshape(a.y(2), kept), dr = reshape(a.dy(2), kept);
    dx = dx - dr * square(r) * r * (x - reshape(a.y(1), kept)) * share;
  }
  return dx;
}

// y = (x - m) r scale + bias, all in one op
Grads layer_norm_grad(const GradArgs& a) {
  std::vector<Var> operands = {dy_or_zero(a, 0), a.x(), a.y(1), a.y(2)};
  if (a.input_count() > 1) operands.push_back(a.x(1));
  Grads grads = a.builder().add_all(Op::kLayerNormGrad, operands, a.attr<NormAttrs>());
  grads[0] = a.want(0, [&] { return layer_statistics_grad(a, grads[0]); });
  grads.resize(std::min(grads.size(), a.input_count()));
  return grads;
}

// r = 1 / sqrt(mean x^2 + eps), y = x r scale  =>  dr adds -dr r^3 x / n
Grads rms_norm_grad(const GradArgs& a) {
  std::vector<Var> operands = {dy_or_zero(a, 0), a.x(), a.y(1)};
  if (a.input_count() > 1) operands.push_back(a.x(1));
  Grads grads = a.builder().add_all(Op::kRmsNormGrad, operands, a.attr<NormAttrs>());
  if (a.needs(0) && a.dy(1)) {
    const Var r = a.y(1);
    const double n = static_cast<double>(a.x().type().size()) /
                     static_cast<double>(std::max<int64_t>(r.type().size(), 1));
    grads[0] = grads[0] - a.dy(1) * square(r) * r * a.x() / n;
  }
  return grads;
}

// y = softmax(scale q k^T + mask) v; the log-sums serve the gradient op only
Grads attention_grad(const GradArgs& a) {
  const auto& attrs = a.attr<AttentionAttrs>();
  const size_t count = attrs.packed ? 1 : 3;
  TRAINRT_CHECK(!a.dy(1), "a gradient of Attention's log-sums");
  std::vector<Var> operands = {a.dy(0)};
  for (size_t i = 0; i < count; ++i) operands.push_back(a.x(i));
  operands.insert(operands.end(), {a.y(0), a.y(1)});
  if (a.input_count() > count) operands.push_back(a.x(count));
  return a.builder().add_all(Op::kAttentionGrad, operands, attrs);
}

// m = mean x, v = mean (x - m)^2 per channel  =>  dx = dm / n + dv 2 (x - m) / n
Var batch_statistics_grad(const GradArgs& a, Var dx) {
  Shape channels(a.x().shape().size(), 1);
  channels[1] = a.x().dim(1);
  int64_t n = a.x().dim(0);
  for (int64_t i = 2; i < a.x().rank(); ++i) n *= a.x().dim(i);
  const double share = 1.0 / static_cast<double>(n);
  if (a.dy(1)) dx = dx + reshape(a.dy(1), channels) * share;
  if (a.dy(2)) {
    dx = dx + reshape(a.dy(2), channels) * (a.x() - reshape(a.y(1), channels)) * (2 * share);
  }
  return dx;
}

// y = act((x - m) / sqrt(v + eps) scale + bias + residual) with the batch's own m and v, all in one
// op. Without a residual the activation's mask follows from x, with one from y.
Grads batch_norm_grad(const GradArgs& a) {
  const bool residual = a.input_count() > 3;
  std::vector<Var> operands = {dy_or_zero(a, 0), a.x(0), a.x(1), a.y(1), a.y(2)};
  const bool activation = a.attr<NormAttrs>().activation != Activation::kNone;
  if (activation) operands.push_back(residual ? a.y(0) : a.x(2));
  Grads grads = a.builder().add_all(Op::kBatchNormGrad, operands, a.attr<NormAttrs>());
  if (residual && !activation) grads.push_back(operands[0]);
  grads[0] = a.want(0, [&] { return batch_statistics_grad(a, grads[0]); });
  return grads;
}

// loss = -log softmax(x)[class]  =>  dx = dloss (softmax x - onehot class)
Grads cross_entropy_grad(const GradArgs& a) {
  return {a.builder().add(Op::kCrossEntropyGrad, {a.dy(), a.x(0), a.x(1)}, a.attr<LossAttrs>())};
}

// loss = -x[class]  =>  dx = -dloss at the class, 0 elsewhere
Grads nll_loss_grad(const GradArgs& a) {
  LossAttrs attrs = a.attr<LossAttrs>();
  attrs.shape = a.x().shape();
  return {a.builder().add(Op::kNllLossGrad, {a.dy(), a.x(1)}, std::move(attrs))};
}

Grads nll_loss_grad_grad(const GradArgs& a) {
  LossAttrs attrs = a.attr<LossAttrs>();
  attrs.shape.clear();
  return {a.builder().add(Op::kNllLoss, {a.dy(), a.x(1)}, std::move(attrs))};
}

constexpr uint32_t kMask = 0b1000;  // the packed form's mask is input 1, and gets none either
constexpr uint32_t kClassIds = 0b10;

constexpr GradRow kRows[] = {
    {Op::kSoftmax, softmax_grad},
    {Op::kSoftmaxGrad, nullptr, GradKind::kUnsupported},
    {Op::kLogSoftmax, log_softmax_grad},
    {Op::kLogSoftmaxGrad, nullptr, GradKind::kUnsupported},
    {Op::kLayerNorm, layer_norm_grad},
    {Op::kLayerNormGrad, nullptr, GradKind::kUnsupported},
    {Op::kRmsNorm, rms_norm_grad},
    {Op::kRmsNormGrad, nullptr, GradKind::kUnsupported},
    {Op::kAttention, attention_grad, GradKind::kRule, kMask},
    {Op::kAttentionGrad, nullptr, GradKind::kUnsupported},
    {Op::kBatchNorm, batch_norm_grad},
    {Op::kBatchNormApply, nullptr, GradKind::kUnsupported},  // recomputation comes later
    {Op::kBatchNormGrad, nullptr, GradKind::kUnsupported},
    {Op::kNormConv, nullptr, GradKind::kUnsupported},
    {Op::kNormConvGrad, nullptr, GradKind::kUnsupported},
    {Op::kCrossEntropy, cross_entropy_grad, GradKind::kRule, kClassIds},
    {Op::kCrossEntropyGrad, nullptr, GradKind::kUnsupported},
    {Op::kNllLoss, nll_loss_grad, GradKind::kRule, kClassIds},
    {Op::kNllLossGrad, nll_loss_grad_grad, GradKind::kRule, kClassIds},
};

}  // namespace

std::span<const GradRow> norm_rules() { return kRows; }

}  // namespace trainrt
