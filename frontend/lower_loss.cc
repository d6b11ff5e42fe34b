// Losses that are part of the model.
#include <limits>

#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// Loss per position times the weight of its class; ignored positions count nothing. The mean is
// divided by the sum of the weights.
void lower_class_loss(LowerContext& c, Op op) {
  const Var x = c.need(0), labels = cast(c.need(1), DType::kInt64);
  const bool ignores = c.has_attr("ignore_index");
  const int64_t ignore = ignores ? c.attr_int("ignore_index") : std::numeric_limits<int64_t>::min();
  const std::string reduction = c.attr_string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    c.invalid("reduction is mean, sum or none, not '" + reduction + "'");
  }
  Var loss = c.b.add(op, {x, labels}, LossAttrs{1, ignore, {}});
  Var weight;
  if (ignores) {
    const Var kept = logical_not(equal(labels, c.b.constant(Tensor::scalar<int64_t>(ignore))));
    weight = cast(kept, x.dtype());
    if (c.has(2)) weight = weight * gather(c.in(2), where(kept, labels, 0.0), 0);
  } else if (c.has(2)) {
    weight = gather(c.in(2), labels, 0);
  }
  if (weight) {
    weight = stop_gradient(weight);
    if (c.has(2)) loss = loss * weight;
  }
  const std::vector<int64_t> axes = all_axes(loss);
  if (reduction == "none") {
    c.set(0, loss);
  } else if (reduction == "sum") {
    c.set(0, reduce_sum(loss, axes));
  } else if (weight) {
    c.set(0, reduce_sum(loss, axes) / reduce_sum(weight, axes));
  } else {
    c.set(0, reduce_mean(loss, axes));
  }
}

void lower_cross_entropy(LowerContext& c) {
  lower_class_loss(c, Op::kCrossEntropy);
  if (c.wants(1)) c.set(1, log_softmax(c.need(0), 1));
}

void lower_nll(LowerContext& c) { lower_class_loss(c, Op::kNllLoss); }

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "NegativeLogLikelihoodLoss", 12, lower_nll, kFirst},
    {"", "SoftmaxCrossEntropyLoss", 12, lower_cross_entropy, kFirst},
};

}  // namespace

std::span<const LoweringRow> loss_lowerings() { return kRows; }

}  // namespace trainrt::lowering
