#include "frontend/lower_attend.h"

#include <algorithm>
#include <cmath>

#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

void check(bool fits, const Attention& a) {
  if (fits) return;
  throw Error(ErrorCode::kInvalidModel, "queries " + to_string(a.q.shape()) + ", keys " +
                                            to_string(a.k.shape()) + " and values " +
                                            to_string(a.v.shape()) + " do not fit together");
}

void check_sink(Var logits, Var sink) {
  if (sink.shape() == Shape{logits.dim(1)}) return;
  throw Error(ErrorCode::kInvalidModel, "a sink of shape " + to_string(sink.shape()) + " for " +
                                            std::to_string(logits.dim(1)) + " heads");
}

bool has_true(const Tensor& t) {
  const std::vector<int64_t> values = t.to_ints();
  return std::any_of(values.begin(), values.end(), [](int64_t v) { return v != 0; });
}

Var softmax_with_sink(Var logits, Var sink) {
  check_sink(logits, sink);
  Shape shape = logits.shape();
  shape[3] = 1;
  const int64_t keys = logits.dim(3);
  const Var parts[] = {logits, expand(reshape(sink, {1, logits.dim(1), 1, 1}), shape)};
  return slice(softmax(concat(parts, 3), 3), 3, 0, keys);
}

}  // namespace

// Queries of a group lie one after the other, so that each group is one matrix product. A row whose
// bias is -inf everywhere is computed without bias and its result set to 0.
AttentionResult attend(const Attention& a) {
  check(a.q.rank() == 4 && a.k.rank() == 4 && a.v.rank() == 4, a);
  const int64_t batch = a.q.dim(0), heads = a.q.dim(1), queries = a.q.dim(2), width = a.q.dim(3);
  const int64_t groups = a.k.dim(1), keys = a.k.dim(2);
  check(groups > 0 && heads % groups == 0 && a.k.dim(0) == batch && a.k.dim(3) == width &&
            a.v.dim(0) == batch && a.v.dim(1) == groups && a.v.dim(2) == keys && width > 0,
        a);
  const int64_t rows = heads / groups * queries;
  const double scale = a.scale.value_or(1.0 / std::sqrt(static_cast<double>(width)));

  AttentionResult r;
  const Var q = reshape(a.q * scale, {batch, groups, rows, width});
  r.scores = reshape(matmul(q, a.k, MatMulAttrs{false, true}), {batch, heads, queries, keys});
  r.capped = a.softcap > 0 ? a.softcap * tanh(r.scores / a.softcap) : r.scores;
  r.biased = a.bias ? r.capped + a.bias : r.capped;
  if (r.biased.shape() != r.scores.shape()) {
    throw Error(ErrorCode::kInvalidModel, "a mask of shape " + to_string(a.bias.shape()) +
                                              " does not broadcast to the scores " +
                                              to_string(r.scores.shape()));
  }
  Var dead, logits = r.biased;
  if (a.bias && a.bias.rank() > 0) {
    Builder& b = a.q.builder();
    dead = equal(reduce_max(a.bias, {-1}, true), b.fill(a.bias.dtype(), -kInf));
    if (const auto known = b.constant_value(dead); known && !has_true(*known)) dead = {};
    if (dead) logits = r.capped + where(dead, 0.0, a.bias);
  }
  r.probabilities = a.sink ? softmax_with_sink(logits, a.sink) : softmax(logits, 3);
  const Var p = reshape(r.probabilities, {batch, groups, rows, keys});
  r.y = reshape(matmul(p, a.v), {batch, heads, queries, a.v.dim(3)});
  if (dead) {
    r.y = where(dead, 0.0, r.y);
    r.probabilities = where(dead, 0.0, r.probabilities);
  }
  return r;
}

Var mask_bias(Var open, DType type, double closed) {
  Builder& b = open.builder();
  return where(open, b.fill(type, 0), b.fill(type, closed));
}

Var add_bias(Var a, Var b) {
  if (!a || !b) return a ? a : b;
  return a + b;
}

Var visible_keys(LowerContext& c, const Window& w, int64_t queries, int64_t keys, Var offset) {
  Var place = along(iota(c, queries), 0, 2);
  if (offset) place = place + offset;
  const Var key = iota(c, keys);
  Var open;
  const auto also = [&](Var condition) { open = open ? logical_and(open, condition) : condition; };
  if (w.causal) also(less_equal(key, place));
  if (w.left >= 0) also(greater_equal(key, place - static_cast<double>(w.left)));
  if (w.right >= 0) also(less_equal(key, place + static_cast<double>(w.right)));
  return open;
}

Var split_heads(LowerContext& c, Var x, int64_t heads) {
  if (x.rank() != 3 || heads < 1 || x.dim(2) % heads != 0) {
    c.invalid("cannot split " + to_string(x.shape()) + " into " + std::to_string(heads) + " heads");
  }
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

Var merge_heads(Var x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

// (p, q) -> (p cos - q sin, p sin + q cos)
Var rotate(LowerContext& c, Var x, Var cosine, Var sine, bool interleaved) {
  const int64_t half = cosine.dim(cosine.rank() - 1), dims = 2 * half, width = x.dim(3);
  if (dims > width || sine.shape() != cosine.shape()) {
    c.invalid("cosines " + to_string(cosine.shape()) + " and sines " + to_string(sine.shape()) +
              " do not fit heads of " + std::to_string(width));
  }
  const Var co = unsqueeze(cosine, {-2}), si = unsqueeze(sine, {-2});
  const int64_t step = interleaved ? 2 : 1;
  const Var p = slice(x, 3, 0, half, step), q = slice(x, 3, interleaved ? 1 : half, half, step);
  const Var real = p * co - q * si, imaginary = p * si + q * co;
  Var y;
  if (interleaved) {
    const Var pair[] = {unsqueeze(real, {4}), unsqueeze(imaginary, {4})};
    y = reshape(concat(pair, 4), {x.dim(0), x.dim(1), x.dim(2), dims});
  } else {
    const Var pair[] = {real, imaginary};
    y = concat(pair, 3);
  }
  if (dims == width) return y;
  const Var parts[] = {y, slice(x, 3, dims, width - dims)};
  return concat(parts, 3);
}

}  // namespace trainrt::lowering
