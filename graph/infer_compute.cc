// Reductions, scans, MatMul, normalisation.
#include <cmath>

#include "graph/attention.h"
#include "graph/attr_fields.h"
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

// The shape without (or with ones at) the axes; they are sorted and distinct.
Shape reduced(const Shape& shape, std::span<const int64_t> axes, bool keepdims) {
  Shape out;
  size_t next = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
    if (next < axes.size() && axes[next] == i) {
      ++next;
      if (keepdims) out.push_back(1);
    } else {
      out.push_back(shape[static_cast<size_t>(i)]);
    }
  }
  return out;
}

Types reduce(const Args& a) {
  const auto& attr = a.attr<ReduceAttrs>();
  check_numeric(a, 0);
  bool empty = false;
  for (size_t i = 0; i < attr.axes.size(); ++i) {
    check_axis(attr.axes[i], a.in[0].rank());
    if (i > 0 && attr.axes[i] <= attr.axes[i - 1]) {
      fail("axes ", to_string(attr.axes), " must be sorted and distinct");
    }
    empty = empty || a.in[0].shape[static_cast<size_t>(attr.axes[i])] == 0;
  }
  if (a.op == Op::kReduceMean && empty && !is_float(a.in[0].dtype)) {
    fail("the mean of no integers is undefined: ", to_string(a.in[0]), " over axes ",
         to_string(attr.axes));
  }
  return {{a.in[0].dtype, reduced(a.in[0].shape, attr.axes, attr.keepdims)}};
}

Types arg(const Args& a) {
  const auto& attr = a.attr<ArgAttrs>();
  check_numeric(a, 0);
  check_axis(attr.axis, a.in[0].rank());
  const int64_t axes[] = {attr.axis};
  const TensorType out{DType::kInt64, reduced(a.in[0].shape, axes, attr.keepdims)};
  if (a.in[0].shape[static_cast<size_t>(attr.axis)] == 0 && out.size() > 0) {
    fail("axis ", attr.axis, " of ", to_string(a.in[0]), " is empty: there is nothing to find");
  }
  return {out};
}

Types cumulate(const Args& a) {
  check_numeric(a, 0);
  check_axis(a.attr<CumAttrs>().axis, a.in[0].rank());
  return {a.in[0]};
}

Types top_k(const Args& a) {
  const auto& attr = a.attr<TopKAttrs>();
  check_numeric(a, 0);
  check_axis(attr.axis, a.in[0].rank());
  Shape shape = a.in[0].shape;
  int64_t& dim = shape[static_cast<size_t>(attr.axis)];
  if (attr.k < 0 || attr.k > dim) {
    fail("k = ", attr.k, " does not fit axis ", attr.axis, " of ", to_string(a.in[0].shape));
  }
  dim = attr.k;
  return {{a.in[0].dtype, shape}, {DType::kInt64, shape}};
}

Types matmul(const Args& a) {
  const auto& attr = a.attr<MatMulAttrs>();
  check_numeric(a, 0);
  check_same_dtype(a, 0, 1);
  check_rank(a, 0, 2);
  check_rank(a, 1, 2);
  Shape x = a.in[0].shape, y = a.in[1].shape;
  if (attr.trans_a) std::swap(x[x.size() - 1], x[x.size() - 2]);
  if (attr.trans_b) std::swap(y[y.size() - 1], y[y.size() - 2]);
  if (x.back() != y[y.size() - 2]) {
    fail("inner dims differ: ", to_string(a.in[0].shape), attr.trans_a ? " transposed" : "",
         " times ", to_string(a.in[1].shape), attr.trans_b ? " transposed" : "");
  }
  const int64_t rows = x[x.size() - 2], columns = y.back();
  x.resize(x.size() - 2);
  y.resize(y.size() - 2);
  Shape shape = broadcast_shapes(x, y);
  shape.push_back(rows);
  shape.push_back(columns);
  if (a.in.size() == 3) check_same_type(a.in[2], {a.in[0].dtype, {columns}}, "bias");
  return {{a.in[0].dtype, shape}};
}

void check_square(const Args& a) {
  check_float(a, 0);
  check_rank(a, 0, 2);
  const Shape& shape = a.in[0].shape;
  if (shape.back() != shape[shape.size() - 2]) fail("no square matrices: ", to_string(shape));
}

Types det(const Args& a) {
  check_square(a);
  return {{a.in[0].dtype, {a.in[0].shape.begin(), a.in[0].shape.end() - 2}}};
}

Types cofactor(const Args& a) {
  check_square(a);
  return {a.in[0]};
}

Types softmax(const Args& a) {
  check_float(a, 0);
  check_axis(a.attr<AxisAttrs>().axis, a.in[0].rank());
  return {a.in[0]};
}

Types softmax_grad(const Args& a) {
  check_same_type(a.in[1], a.in[0], "operand 1");
  return softmax(a);
}

void check_epsilon(const NormAttrs& attr) {
  if (!std::isfinite(attr.epsilon) || attr.epsilon < 0) {
    fail("epsilon ", attr.epsilon, " must be finite and not negative");
  }
}

// The normalised dims and the type of mean and 1/sd.
std::pair<TensorType, TensorType> layer_norm_types(const TensorType& x, const NormAttrs& attr) {
  check_axis(attr.axis, x.rank());
  check_epsilon(attr);
  TensorType scale{x.dtype, {x.shape.begin() + attr.axis, x.shape.end()}};
  TensorType mean = x;
  std::fill(mean.shape.begin() + attr.axis, mean.shape.end(), 1);
  return {scale, mean};
}

Types layer_norm(const Args& a) {
  check_float(a, 0);
  if (a.in.size() == 2) fail("LayerNorm takes scale and bias together or neither");
  const auto [scale, mean] = layer_norm_types(a.in[0], a.attr<NormAttrs>());
  if (a.in.size() == 3) {
    check_same_type(a.in[1], scale, "scale");
    check_same_type(a.in[2], scale, "bias");
  }
  return {a.in[0], mean, mean};
}

Types layer_norm_grad(const Args& a) {
  check_float(a, 0);
  const auto [scale, mean] = layer_norm_types(a.in[0], a.attr<NormAttrs>());
  check_same_type(a.in[1], a.in[0], "operand 1");
  check_same_type(a.in[2], mean, "mean");
  check_same_type(a.in[3], mean, "1/sd");
  if (a.in.size() == 4) return {a.in[0]};
  check_same_type(a.in[4], scale, "scale");
  return {a.in[0], scale, scale};
}

Types rms_norm(const Args& a) {
  check_float(a, 0);
  const auto [scale, rms] = layer_norm_types(a.in[0], a.attr<NormAttrs>());
  if (a.in.size() == 2) check_same_type(a.in[1], scale, "scale");
  return {a.in[0], rms};
}

Types rms_norm_grad(const Args& a) {
  check_float(a, 0);
  const auto [scale, rms] = layer_norm_types(a.in[0], a.attr<NormAttrs>());
  check_same_type(a.in[1], a.in[0], "operand 1");
  check_same_type(a.in[2], rms, "1/rms");
  if (a.in.size() == 3) return {a.in[0]};
  check_same_type(a.in[3], scale, "scale");
  return {a.in[0], scale};
}

// Checks q, k and v, or what is packed of them, and the mask.
AttentionDims attention_dims(const AttentionAttrs& attrs, std::span<const TensorType> operands,
                             const TensorType* mask) {
  if (!std::isfinite(attrs.scale)) fail("scale ", attrs.scale, " must be finite");
  if (attrs.sequence_first && !attrs.token_major && !attrs.packed) {
    fail("sequence_first goes with token_major or packed");
  }
  const int64_t rank = attrs.packed ? 5 : 4;
  for (const TensorType& t : operands) {
    if (t.rank() != rank) fail("an operand must have rank ", rank, ", given ", to_string(t));
    if (t.dtype != operands[0].dtype) fail("operands of different types");
  }
  if (attrs.packed && operands[0].shape[2] != 3) {
    fail("dim 2 of the packed operand must be 3, given ", to_string(operands[0]));
  }
  const AttentionDims n(attrs, operands);
  if (!attrs.packed) {
    const Shape &k = operands[1].shape, &v = operands[2].shape;
    const size_t batch = attrs.sequence_first ? 1 : 0, head = attrs.token_major ? 2 : 1,
                 token = 3 - batch - head;
    if (k[batch] != n.batch || v[batch] != n.batch) fail("q, k and v differ in their batch");
    if (k[3] != n.size) fail("q and k differ in the size of a head");
    if (v[token] != n.keys || v[head] != n.kv_heads) fail("k and v differ in tokens or heads");
    if (n.kv_heads == 0 ? n.heads != 0 : n.heads % n.kv_heads != 0) {
      fail(n.kv_heads, " heads of k do not divide ", n.heads, " heads of q");
    }
  }
  if (mask != nullptr) {
    const Shape scores = {n.batch, n.heads, n.queries, n.keys};
    if (mask->dtype != operands[0].dtype || mask->rank() > 4 ||
        broadcast_shapes(mask->shape, scores) != scores) {
      fail("mask ", to_string(*mask), " does not fit scores ", to_string(scores));
    }
  }
  return n;
}

Types attention(const Args& a) {
  check_float(a, 0);
  const auto& attrs = a.attr<AttentionAttrs>();
  const size_t count = attrs.packed ? 1 : 3;
  if (a.in.size() < count || a.in.size() > count + 1) fail("takes ", count, " operands and a mask");
  const AttentionDims n =
      attention_dims(attrs, a.in.first(count), a.in.size() > count ? &a.in[count] : nullptr);
  return {{a.in[0].dtype, n.y_shape(attrs)}, {a.in[0].dtype, {n.batch, n.heads, n.queries}}};
}

Types attention_grad(const Args& a) {
  const auto& attrs = a.attr<AttentionAttrs>();
  const size_t count = attrs.packed ? 1 : 3;
  if (a.in.size() < count + 3 || a.in.size() > count + 4) {
    fail("takes dy, ", count, " operands, y, log-sums and a mask");
  }
  std::vector<TensorType> forward(a.in.begin() + 1, a.in.begin() + 1 + static_cast<int64_t>(count));
  forward.insert(forward.end(), a.in.begin() + static_cast<int64_t>(count) + 3, a.in.end());
  const Types outputs = attention({Op::kAttention, forward, a.attrs});
  check_same_type(a.in[0], outputs[0], "dy");
  check_same_type(a.in[count + 1], outputs[0], "y");
  check_same_type(a.in[count + 2], outputs[1], "log-sums");
  return {forward.begin(), forward.begin() + static_cast<int64_t>(count)};
}

TensorType channel_type(const Args& a) {
  const auto& attr = a.attr<NormAttrs>();
  check_float(a, 0);
  check_rank(a, 0, 2);
  if (!enum_in_range(attr.activation)) fail("unknown activation");
  if (attr.axis != 1) fail("BatchNorm normalises axis 1, given ", attr.axis);
  check_epsilon(attr);
  return {a.in[0].dtype, {a.in[0].shape[1]}};
}

Types batch_norm(const Args& a) {
  const TensorType channel = channel_type(a);
  check_same_type(a.in[1], channel, "scale");
  check_same_type(a.in[2], channel, "bias");
  if (a.in.size() == 4) {
    check_same_type(a.in[3], a.in[0], "residual");
    // The result does not tell a value at a bound from one beyond it.
    if (a.attr<NormAttrs>().activation == Activation::kClip) fail("no residual goes with a clip");
  }
  return {a.in[0], channel, channel};
}

Types batch_norm_apply(const Args& a) {
  const TensorType channel = channel_type(a);
  check_same_type(a.in[3], channel, "mean");
  check_same_type(a.in[4], channel, "variance");
  std::vector<TensorType> operands(a.in.begin(), a.in.begin() + 3);
  if (a.in.size() == 6) operands.push_back(a.in[5]);
  return {batch_norm({Op::kBatchNorm, operands, a.attrs})[0]};
}

Types batch_norm_grad(const Args& a) {
  const TensorType channel = channel_type(a);
  check_same_type(a.in[1], a.in[0], "operand 1");
  check_same_type(a.in[2], channel, "scale");
  check_same_type(a.in[3], channel, "mean");
  check_same_type(a.in[4], channel, "variance");
  const bool activation = a.attr<NormAttrs>().activation != Activation::kNone;
  if (activation != (a.in.size() == 6)) {
    fail("BatchNormGrad takes the bias or the result with an activation, and only then");
  }
  if (!activation) return {a.in[0], channel, channel};
  if (a.in[5].rank() == 1) {
    check_same_type(a.in[5], channel, "bias");
    return {a.in[0], channel, channel};
  }
  check_same_type(a.in[5], a.in[0], "the result");
  if (a.attr<NormAttrs>().activation == Activation::kClip) fail("no residual goes with a clip");
  return {a.in[0], channel, channel, a.in[0]};
}

constexpr Row kRows[] = {
    {Op::kReduceSum, reduce},
    {Op::kReduceMean, reduce},
    {Op::kReduceMax, reduce},
    {Op::kReduceMin, reduce},
    {Op::kReduceProd, reduce},
    {Op::kArgMax, arg},
    {Op::kArgMin, arg},
    {Op::kCumSum, cumulate},
    {Op::kCumProd, cumulate},
    {Op::kTopK, top_k},
    {Op::kMatMul, matmul},
    {Op::kDet, det},
    {Op::kCofactor, cofactor},
    {Op::kSoftmax, softmax},
    {Op::kSoftmaxGrad, softmax_grad},
    {Op::kLogSoftmax, softmax},
    {Op::kLogSoftmaxGrad, softmax_grad},
    {Op::kLayerNorm, layer_norm},
    {Op::kLayerNormGrad, layer_norm_grad},
    {Op::kRmsNorm, rms_norm},
    {Op::kRmsNormGrad, rms_norm_grad},
    {Op::kAttention, attention},
    {Op::kAttentionGrad, attention_grad},
    {Op::kBatchNorm, batch_norm},
    {Op::kBatchNormApply, batch_norm_apply},
    {Op::kBatchNormGrad, batch_norm_grad},
};

}  // namespace

std::span<const Row> compute_rows() { return kRows; }

}  // namespace trainrt::infer
