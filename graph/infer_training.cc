// Losses, random ops, functions from outside, state.
#include <cmath>

#include "graph/attr_fields.h"
#include "graph/call.h"
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

// Logits without their class axis.
Shape positions(const Shape& logits, int64_t class_axis) {
  check_axis(class_axis, static_cast<int64_t>(logits.size()), "class_axis");
  Shape out = logits;
  out.erase(out.begin() + class_axis);
  return out;
}

Types loss(const Args& a) {
  const auto& attr = a.attr<LossAttrs>();
  check_float(a, 0);
  check_index_type(a, 1);
  check_no_shape(attr.shape);
  const Shape shape = positions(a.in[0].shape, attr.class_axis);
  check_same_shape(a.in[1], shape, "the class ids");
  return {{a.in[0].dtype, shape}};
}

Types cross_entropy_grad(const Args& a) {
  const auto& attr = a.attr<LossAttrs>();
  check_float(a, 0);
  check_same_dtype(a, 0, 1);
  check_index_type(a, 2);
  check_no_shape(attr.shape);
  const Shape shape = positions(a.in[1].shape, attr.class_axis);
  check_same_shape(a.in[0], shape, "operand 0");
  check_same_shape(a.in[2], shape, "the class ids");
  return {a.in[1]};
}

Types nll_loss_grad(const Args& a) {
  const auto& attr = a.attr<LossAttrs>();
  check_float(a, 0);
  check_index_type(a, 1);
  check_shape(attr.shape, "attribute shape");
  const Shape shape = positions(attr.shape, attr.class_axis);
  check_same_shape(a.in[0], shape, "operand 0");
  check_same_shape(a.in[1], shape, "the class ids");
  return {{a.in[0].dtype, attr.shape}};
}

void check_rng(const Args& a, size_t i, int64_t stream) {
  check_same_type(a.in[i], {DType::kInt64, {2}}, "the key of the random ops");
  if (stream < 0 || stream > int64_t{0xFFFFFFFF}) fail("stream ", stream, " is out of range");
}

Types dropout(const Args& a) {
  const auto& attr = a.attr<DropoutAttrs>();
  check_float(a, 0);
  check_rng(a, 1, attr.stream);
  if (!(attr.ratio >= 0 && attr.ratio < 1)) fail("ratio ", attr.ratio, " must lie in [0, 1)");
  return {a.in[0]};
}

Types random(const Args& a) {
  const auto& attr = a.attr<RandomAttrs>();
  check_rng(a, 0, attr.stream);
  if (!enum_in_range(attr.kind)) fail("unknown distribution");
  if (!is_float(attr.dtype)) fail("random numbers must be floating point");
  if (!std::isfinite(attr.a) || !std::isfinite(attr.b)) {
    fail("parameters ", attr.a, " and ", attr.b, " must be finite");
  }
  return {{attr.dtype, attr.shape}};
}

Types assign(const Args& a) {
  if (a.op == Op::kAssignAdd) check_numeric(a, 0);
  check_same_type(a.in[1], a.in[0], "operand 1");
  return {a.in[0]};
}

Types optimizer_update(const Args& a) {
  const auto& attr = a.attr<OptimizerAttrs>();
  check_float(a, 0);
  if (!enum_in_range(attr.kind)) fail("unknown optimizer");
  for (double v :
       {attr.weight_decay, attr.momentum, attr.dampening, attr.beta1, attr.beta2, attr.epsilon}) {
    if (!std::isfinite(v)) fail("optimizer settings must be finite, given ", v);
  }
  check_same_type(a.in[1], a.in[0], "the gradient");
  check_same_type(a.in[2], {DType::kFloat64, {2}}, "the hyper input");
  check_same_type(a.in[3], {a.in[0].dtype, {}}, "the gradient scale");
  const auto slots = optimizer_slots(attr.kind);
  if (a.in.size() != 4 + slots.size()) {
    fail("this optimizer keeps ", slots.size(), " slots, given ", a.in.size() - 4);
  }
  Types out = {a.in[0]};
  for (size_t i = 0; i < slots.size(); ++i) {
    check_same_type(a.in[4 + i], a.in[0], slots[i]);
    out.push_back(a.in[0]);
  }
  return out;
}

Types call(const Args& a) {
  Types out = call_outputs(a.attr<CallAttrs>());
  for (const TensorType& type : out) check_shape(type.shape, "an output of a Call");
  return out;
}

Types hook(const Args& a) {
  Types out = call(a);
  if (out.empty() || out.size() > a.in.size()) fail("a Hook passes some of its inputs through");
  for (size_t i = 0; i < out.size(); ++i)
    check_same_type(a.in[i], out[i], "a value passed through");
  return out;
}

constexpr Row kRows[] = {
    {Op::kCrossEntropy, loss},
    {Op::kCrossEntropyGrad, cross_entropy_grad},
    {Op::kNllLoss, loss},
    {Op::kNllLossGrad, nll_loss_grad},
    {Op::kDropout, dropout},
    {Op::kRandom, random},
    {Op::kCall, call},
    {Op::kHook, hook},
    {Op::kAssign, assign},
    {Op::kAssignAdd, assign},
    {Op::kOptimizerUpdate, optimizer_update},
};

}  // namespace

std::span<const Row> training_rows() { return kRows; }

}  // namespace trainrt::infer
