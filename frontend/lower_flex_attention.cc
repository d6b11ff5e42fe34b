// FlexAttention of ai.onnx.preview: attention whose scores and probabilities go through subgraphs.
#include <cmath>

#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

Var modified(LowerContext& c, std::string_view attr, Var x) {
  if (!c.has_attr(attr)) return x;
  const std::vector<Var> y = c.tensor_subgraph(attr, std::span(&x, 1));
  if (y.size() != 1 || y[0].type() != x.type()) {
    c.invalid(std::string(attr) + " does not give one tensor of the type " + to_string(x.type()));
  }
  return y[0];
}

// y = prob_mod(softmax(score_mod(scale q k^T))) v. Heads of a group share keys and values; queries
// of a group lie one after the other. A query that no key is open to gets 0.
void lower_flex_attention(LowerContext& c) {
  const Var q = c.need(0), k = c.need(1), v = c.need(2);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) c.invalid("Q, K and V have rank 4");
  const int64_t batch = q.dim(0), heads = q.dim(1), queries = q.dim(2), width = q.dim(3);
  const int64_t groups = k.dim(1), keys = k.dim(2);
  if (groups < 1 || heads % groups != 0 || width < 1 || k.dim(0) != batch || k.dim(3) != width ||
      v.dim(0) != batch || v.dim(1) != groups || v.dim(2) != keys) {
    c.invalid("queries " + to_string(q.shape()) + ", keys " + to_string(k.shape()) +
              " and values " + to_string(v.shape()) + " do not fit together");
  }
  const int64_t rows = heads / groups * queries;
  const double scale = c.attr_float("scale", 1.0 / std::sqrt(static_cast<double>(width)));
  const Var grouped = reshape(q * scale, {batch, groups, rows, width});
  Var scores = reshape(matmul(grouped, k, MatMulAttrs{false, true}), {batch, heads, queries, keys});
  Var closed;
  if (c.has_attr("score_mod") && keys > 0) {
    scores = modified(c, "score_mod", scores);
    closed = equal(reduce_max(stop_gradient(scores), {3}, true), c.b.fill(scores.dtype(), -kInf));
    scores = where(closed, 0.0, scores);
  }
  const Var p = reshape(modified(c, "prob_mod", softmax(scores, 3)), {batch, groups, rows, keys});
  const Var y = reshape(matmul(p, v), {batch, heads, queries, v.dim(3)});
  c.set(closed ? where(closed, 0.0, y) : y);
}

constexpr LoweringRow kRows[] = {{"ai.onnx.preview", "FlexAttention", 1, lower_flex_attention}};

}  // namespace

std::span<const LoweringRow> flex_attention_lowerings() { return kRows; }

}  // namespace trainrt
