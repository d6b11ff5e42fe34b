// Attention and RotaryEmbedding of ONNX's default domain.
#include "frontend/lower_attend.h"
#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

Var after(Var past, Var now) {
  const Var parts[] = {past, now};
  return concat(parts, 2);
}

// True is open; a mask shorter than the keys closes the rest.
Var bias_of_mask(LowerContext& c, Var mask, int64_t keys) {
  if (mask.rank() == 0) c.invalid("attn_mask is a scalar");
  Var bias = mask.dtype() == DType::kBool ? mask_bias(mask, c.working, -kInf) : mask;
  const int64_t missing = keys - bias.dim(bias.rank() - 1);
  if (missing <= 0) return bias;
  PadAttrs p{std::vector<int64_t>(at(bias.rank()), 0),
             std::vector<int64_t>(at(bias.rank()), 0),
             PadMode::kConstant,
             -kInf,
             {}};
  p.after.back() = missing;
  return c.b.add(Op::kPad, {bias}, std::move(p));
}

// Inputs: Q, K, V, mask, past key, past value, lengths without padding. The causal diagonal ends at
// the last valid key: it is shifted by the past's length, or by lengths - L.
void lower_attention(LowerContext& c) {
  Attention a{c.need(0), c.need(1), c.need(2), {}, c.attr_float("softcap", 0), {}};
  if (c.has_attr("scale")) a.scale = c.attr_float("scale");
  const bool flat = a.q.rank() == 3;
  if (flat) {
    a.q = split_heads(c, a.q, c.attr_int("q_num_heads"));
    a.k = split_heads(c, a.k, c.attr_int("kv_num_heads"));
    a.v = split_heads(c, a.v, c.attr_int("kv_num_heads"));
  }
  if (a.q.rank() != 4 || a.k.rank() != 4 || a.v.rank() != 4) {
    c.invalid("Q, K and V have rank 3 or 4");
  }
  if (c.has(4) != c.has(5)) c.invalid("past_key and past_value come together");
  const bool past = c.has(4);
  if (past) {
    a.k = after(c.in(4), a.k);
    a.v = after(c.in(5), a.v);
  }
  const int64_t queries = a.q.dim(2), keys = a.k.dim(2);

  Var offset, lengths;
  if (c.has(6)) {
    if (past) c.invalid("nonpad_kv_seqlen and past_key exclude each other");
    if (c.in(6).shape() != Shape{a.q.dim(0)}) {
      c.invalid("nonpad_kv_seqlen has shape " + to_string(c.in(6).shape()));
    }
    lengths = reshape(cast(c.in(6), DType::kInt64), {c.in(6).type().size(), 1, 1, 1});
  }
  if (past) {
    offset = c.b.fill(DType::kInt64, static_cast<double>(c.in(4).dim(2)));
  } else if (lengths) {
    offset = lengths - static_cast<double>(queries);
  }
  if (c.has(3)) a.bias = bias_of_mask(c, c.in(3), keys);
  const Window window{c.attr_int("is_causal", 0) != 0, c.attr_int("left_window_size", -1),
                      c.attr_int("right_window_size", -1)};
  if (window.left < -1 || window.right < -1) c.invalid("a window size is -1 or not negative");
  if (const Var open = visible_keys(c, window, queries, keys, offset)) {
    a.bias = add_bias(a.bias, mask_bias(open, c.working, -kInf));
  }
  if (lengths) {
    a.bias = add_bias(a.bias, mask_bias(less(iota(c, keys), lengths), c.working, -kInf));
  }

  const AttentionResult r = attend(a);
  c.set(0, flat ? merge_heads(r.y) : r.y);
  if (c.wants(1)) c.set(1, a.k);
  if (c.wants(2)) c.set(2, a.v);
  if (!c.wants(3)) return;
  const Var stages[] = {r.scores, r.capped, r.biased, r.probabilities};
  const int64_t mode = c.attr_int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) c.invalid("qk_matmul_output_mode is 0 to 3");
  c.set(3, stages[mode]);
}

// x is [B,H,S,d], or [B,S,H*d] with num_heads; caches are [positions,r/2], or [B,S,r/2] without
// ids.
void lower_rotary(LowerContext& c) {
  const Var x = c.need(0);
  Var cosine = c.need(1), sine = c.need(2);
  const bool flat = x.rank() == 3;
  if (!flat && x.rank() != 4) c.invalid("the input has rank 3 or 4");
  const Var heads = transpose(flat ? split_heads(c, x, c.attr_int("num_heads")) : x, {0, 2, 1, 3});
  if (c.has(3)) {
    cosine = gather(cosine, c.in(3), 0);
    sine = gather(sine, c.in(3), 0);
  }
  const int64_t dims = c.attr_int("rotary_embedding_dim", 0);
  if (cosine.rank() != 3 || 2 * cosine.dim(2) != (dims == 0 ? heads.dim(3) : dims)) {
    c.invalid("cosines of shape " + to_string(cosine.shape()) + " do not fit the rotated dims");
  }
  const Var y = rotate(c, heads, cosine, sine, c.attr_int("interleaved", 0) != 0);
  c.set(flat ? reshape(y, x.shape()) : transpose(y, {0, 2, 1, 3}));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Attention", 23, lower_attention},
    {"", "RotaryEmbedding", 23, lower_rotary},
};

}  // namespace

std::span<const LoweringRow> attention_lowerings() {
  static const std::vector<LoweringRow> rows = joined({kRows, linear_attention_lowerings()});
  return rows;
}

}  // namespace trainrt
