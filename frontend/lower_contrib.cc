// com.microsoft: what ONNX Runtime's optimizer and exporters leave in a file. Families of their
// own: lower_contrib_attention.cc, lower_contrib_linear.cc, lower_contrib_norm.cc.
#include "frontend/lower_contrib.h"

#include "frontend/lower_delegate.h"
#include "frontend/lower_util.h"

namespace trainrt {
namespace lowering {
namespace {

// Gelu, BiasGelu, FastGelu: of x, or of x + bias.
template <bool kTanhForm>
void lower_gelu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(gelu(c.has(1) ? x + c.in(1) : x, kTanhForm));
}

// x sigmoid(alpha x)
void lower_quick_gelu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(x * sigmoid(c.attr_float("alpha", 1.702f) * x));
}

// z sigmoid(z), z = scale x
void lower_scaled_silu(LowerContext& c) {
  const Var x = c.need(0);
  if (c.has(1) && c.in(1).type().size() != 1) c.invalid("the scale is a single number");
  const Var z = c.has(1) ? x * reshape(c.in(1), {}) : c.attr_float("alpha", 1.0) * x;
  c.set(z * sigmoid(z));
}

// The first half of x + bias times Gelu of the second.
void lower_bias_split_gelu(LowerContext& c) {
  const Var x = c.need(0) + c.need(1);
  const int64_t size = x.rank() > 0 ? x.dim(x.rank() - 1) / 2 : 0;
  if (x.shape() != c.in(0).shape() || size * 2 != x.dim(x.rank() - 1)) {
    c.invalid("an input of shape " + to_string(c.in(0).shape()) + " with a bias " +
              to_string(c.in(1).shape()));
  }
  const std::vector<Var> half = split(x, -1, {size, size});
  c.set(half[0] * gelu(half[1], false));
}

// g sigmoid(alpha g) (l + beta), g clamped from above and l from both sides. One input holds both
// halves.
void lower_clamped_swiglu(LowerContext& c) {
  Var gate = c.need(0), up = c.in(1);
  if (!up) {
    if (gate.rank() < 1 || gate.dim(gate.rank() - 1) % 2 != 0) {
      c.invalid("no two halves in " + to_string(gate.shape()));
    }
    const int64_t size = gate.dim(gate.rank() - 1) / 2;
    const std::vector<Var> half = split(gate, -1, {size, size});
    gate = half[0];
    up = half[1];
  }
  if (gate.shape() != up.shape()) c.invalid("gate and up differ in shape");
  if (const double limit = c.attr_float("limit", 0); limit > 0) {
    gate = clip(gate, -kInf, limit);
    up = clip(up, -limit, limit);
  }
  const double beta = c.attr_float("activation_beta", 0);
  const Var swish = gate * sigmoid(c.attr_float("activation_alpha", 1) * gate);
  c.set(swish * (beta == 0 ? up : up + beta));
}

void lower_bias_add(LowerContext& c) { c.set(c.need(0) + c.need(1) + c.need(2)); }

// x + y gate, with the gate given or sigmoid(gate w).
void lower_gated_add(LowerContext& c) {
  Var gate = c.need(2);
  if (c.has(3)) gate = sigmoid(Delegate(c, "MatMul", 13, {gate, c.in(3)}).run());
  const Var y = c.need(0) + c.need(1) * gate;
  if (y.shape() != c.in(0).shape()) c.invalid("the gate has shape " + to_string(gate.shape()));
  c.set(y);
}

// Softmax of data + bias over all axes from `axis` on.
void lower_bias_softmax(LowerContext& c) {
  const Var sum = c.need(0) + c.need(1);
  if (sum.shape() != c.in(0).shape()) c.invalid("the bias does not broadcast to the data");
  c.set(Delegate(c, "Softmax", 11, {sum}).run());
}

// Dropout of data + bias, and the residual added. Inputs: data, bias, residual, ratio.
void lower_bias_dropout(LowerContext& c) {
  Delegate inner(c, "Dropout", 13, {c.need(0) + c.need(1), c.in(3)});
  const Var y = inner.run();
  c.set(0, c.has(2) ? y + c.in(2) : y);
  if (c.wants(1)) c.set(1, inner.result(1));
}

void lower_expand_dims(LowerContext& c) {
  const Var x = c.need(0);
  if (c.need(1).type().size() != 1) c.invalid("axis is a single number");
  c.set(unsqueeze(x, {c.axis(c.ints(1)[0], x.rank() + 1)}));
}

// Whether all inputs are free of NaN, infinities, or both.
void lower_is_all_finite(LowerContext& c) {
  const bool nan_only = c.attr_int("isnan_only", 0) != 0;
  const bool inf_only = c.attr_int("isinf_only", 0) != 0;
  Var good = c.b.fill(DType::kBool, 1);
  for (size_t i = 0; i < c.input_count(); ++i) {
    const Var x = c.need(i);
    const Var nan = unary(Op::kIsNaN, x);
    const Var infinite = equal(abs(x), c.b.fill(x.dtype(), kInf));
    const Var bad = nan_only ? nan : inf_only ? infinite : binary(Op::kOr, nan, infinite);
    const Var count = reduce_sum(cast(bad, DType::kInt64), all_axes(x));
    good = logical_and(good, equal(count, c.b.fill(DType::kInt64, 0)));
  }
  c.set(good);
}

// Inverses of [..., n, n] by Gauss and Jordan's elimination with the largest pivot of each column.
Var eliminated_inverse(LowerContext& c, Var a) {
  const int64_t n = a.dim(a.rank() - 1), rank = a.rank();
  const Var column = along(iota(c, n), rank - 2, rank);  // row numbers, [n, 1]
  const Var unit = cast(equal(iota(c, n), along(iota(c, n), 0, 2)), a.dtype());
  const Var halves[] = {a, expand(unit, a.shape())};
  Var m = concat(halves, -1);
  for (int64_t i = 0; i < n; ++i) {
    const Var row = c.b.fill(DType::kInt64, static_cast<double>(i));
    const Var size = where(less(column, row), -1.0, abs(slice(m, -1, i, 1)));
    const Var pivot = c.b.add(Op::kArgMax, {size}, ArgAttrs{rank - 2, true, false});
    const Var chosen = cast(equal(column, pivot), a.dtype());
    const Var top = reduce_sum(chosen * m, {-2}, true);
    m = m + chosen * (slice(m, -2, i, 1) - top);  // the row that gives way takes the pivot's place
    const Var scaled = top / slice(top, -1, i, 1);
    const Var here = equal(column, row);
    m = where(here, scaled, m - slice(m, -1, i, 1) * scaled);
  }
  return slice(m, -1, n, n);
}

// X (2 - A X) is X where X is the inverse of A; its differential, X being constant, is the
// inverse's: -X dA X.
void lower_inverse(LowerContext& c) {
  constexpr int64_t kLargest = 128;
  const Var a = c.need(0);
  if (a.rank() < 2 || a.dim(a.rank() - 1) != a.dim(a.rank() - 2)) {
    c.invalid("Inverse needs square matrices, not " + to_string(a.shape()));
  }
  const int64_t n = a.dim(a.rank() - 1);
  if (n > kLargest) {
    c.refuse("no_lowering", "Inverse of matrices larger than " + std::to_string(kLargest));
  }
  if (a.type().size() == 0) {
    c.set(a);
    return;
  }
  const Var x = stop_gradient(eliminated_inverse(c, stop_gradient(a)));
  c.set(2.0 * x - matmul(x, matmul(a, x)));
}

// Distances of the rows of A [M,N] and B [K,N].
void lower_cdist(LowerContext& c) {
  const Var a = c.need(0), b = c.need(1);
  if (a.rank() != 2 || b.rank() != 2 || a.dim(1) != b.dim(1)) {
    c.invalid("rows of " + to_string(a.shape()) + " and " + to_string(b.shape()));
  }
  const std::string metric = c.attr_string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") {
    c.refuse("no_lowering", "the metric " + metric);
  }
  const Var sum = reduce_sum(square(unsqueeze(a, {1}) - unsqueeze(b, {0})), {2});
  if (metric == "sqeuclidean") {
    c.set(sum);
    return;
  }
  const Var zero = equal(sum, c.b.fill(sum.dtype(), 0));  // no gradient where two rows meet
  c.set(where(zero, 0.0, sqrt(where(zero, 1.0, sum))));
}

// Windows of `size` elements along an axis, `step` apart; a window is the last axis.
void lower_unfold(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("dim", -1), x.rank());
  const int64_t size = c.attr_int("size"), step = c.attr_int("step", 1);
  if (size < 1 || step < 1 || size > x.dim(axis)) {
    c.invalid("windows of " + std::to_string(size) + ", " + std::to_string(step) + " apart, in " +
              to_string(x.shape()));
  }
  const int64_t count = (x.dim(axis) - size) / step + 1;
  const Var first =
      along(iota(c, count), 0, 2) * c.b.fill(DType::kInt64, static_cast<double>(step));
  const Var y = gather(x, first + iota(c, size), axis);
  std::vector<int64_t> perm = identity_perm(y.rank());
  perm.erase(perm.begin() + axis + 1);
  perm.push_back(axis + 1);
  c.set(transpose(y, perm));
}

// Rows of a table; the row padding_idx gets no gradient.
void lower_torch_embedding(LowerContext& c) {
  const Var ids = c.need(1);
  if (c.has(3) && c.number(3) != 0) c.refuse("no_lowering", "scale_grad_by_freq");
  Var y = gather(c.need(0), ids, 0);
  if (c.has(2)) {
    if (const int64_t padding = c.ints(2).at(0); padding >= 0) {
      const Var pad = equal(ids, c.b.fill(ids.dtype(), static_cast<double>(padding)));
      y = where(unsqueeze(pad, {-1}), stop_gradient(y), y);
    }
  }
  c.set(y);
}

// The ignored class id is an input.
void lower_cross_entropy(LowerContext& c) {
  Delegate inner(c, "SoftmaxCrossEntropyLoss", 13, {c.need(0), c.need(1), c.in(2)});
  if (c.has(3)) inner.with("ignore_index", c.ints(3).at(0));
  c.set(0, inner.run());
  if (c.wants(1)) c.set(1, inner.result(1));
}

void lower_dequantize(LowerContext& c) { lower_as(c, "DequantizeLinear", 21); }
void lower_quantize(LowerContext& c) { lower_as(c, "QuantizeLinear", 21); }
void lower_gather_nd(LowerContext& c) { lower_as(c, "GatherND", 13); }
void lower_grid_sample(LowerContext& c) { lower_as(c, "GridSample", 16); }

void lower_pad(LowerContext& c) {
  std::vector<Var> inputs = inputs_of(c);
  for (size_t i = 1; i < std::min<size_t>(inputs.size(), 3); ++i) {
    if (inputs[i] && inputs[i].rank() == 2 && i == 1) inputs[i] = reshape(inputs[i], {-1});
    if (inputs[i] && i == 2) inputs[i] = reshape(inputs[i], {});
  }
  c.set(Delegate(c, "Pad", 13, inputs).run());
}

// Start, limit and step may be lists of one.
void lower_range(LowerContext& c) {
  std::vector<Var> inputs = {c.need(0), c.need(1), c.in(2)};
  if (!inputs[2]) inputs[2] = c.b.fill(inputs[0].dtype(), 1);
  for (Var& v : inputs) {
    if (v.type().size() != 1) c.invalid("start, limit and delta are single numbers");
    v = reshape(v, {});
  }
  c.set(Delegate(c, "Range", 11, inputs).run());
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {kMs, "BiasAdd", 1, lower_bias_add},
    {kMs, "BiasDropout", 1, lower_bias_dropout, kFirstThree},
    {kMs, "BiasGelu", 1, lower_gelu<false>},
    {kMs, "BiasSoftmax", 1, lower_bias_softmax},
    {kMs, "BiasSplitGelu", 1, lower_bias_split_gelu},
    {kMs, "CDist", 1, lower_cdist, GradInputs::kAll,
     "metrics other than euclidean and sqeuclidean"},
    {kMs, "DequantizeLinear", 1, lower_dequantize, kNone},
    {kMs, "ExpandDims", 1, lower_expand_dims, kFirst},
    {kMs, "FastGelu", 1, lower_gelu<true>},
    {kMs, "GatedAdd", 1, lower_gated_add},
    {kMs, "GatherND", 1, lower_gather_nd, kFirst},
    {kMs, "Gelu", 1, lower_gelu<false>},
    {kMs, "GridSample", 1, lower_grid_sample},
    {kMs, "Inverse", 1, lower_inverse, GradInputs::kAll, "matrices larger than 128x128"},
    {kMs, "IsAllFinite", 1, lower_is_all_finite, kNone},
    {kMs, "Pad", 1, lower_pad, kFirst},
    {kMs, "QuantizeLinear", 1, lower_quantize, kNone},
    {kMs, "QuickGelu", 1, lower_quick_gelu},
    {kMs, "Range", 1, lower_range, kNone},
    {kMs, "ScaledSiLU", 1, lower_scaled_silu},
    {kMs, "SoftmaxCrossEntropyLossInternal", 1, lower_cross_entropy, kFirst},
    {kMs, "SwiGLU", 1, lower_clamped_swiglu},
    {kMs, "TorchEmbedding", 1, lower_torch_embedding, kFirst},
    {kMs, "UnfoldTensor", 1, lower_unfold},
};

}  // namespace
}  // namespace lowering

std::span<const LoweringRow> contrib_lowerings() {
  using namespace lowering;
  static const std::vector<LoweringRow> rows = joined(
      {kRows, contrib_attention_lowerings(), contrib_linear_lowerings(), contrib_norm_lowerings()});
  return rows;
}

}  // namespace trainrt
