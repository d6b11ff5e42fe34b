// com.microsoft's attention: masks of many forms, packed operands, rotary embeddings.
#include "frontend/lower_attend.h"
#include "frontend/lower_contrib.h"
#include "frontend/lower_delegate.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// Key masks: lengths [B], ends and then starts [2 B], or 0 and 1 in [B,S] or [B,L,S]; closed keys
// get a large negative score.
Var bias_of_keys(LowerContext& c, Var mask, int64_t batch, int64_t keys) {
  Var open;
  const auto bound = [&](int64_t first) {
    return reshape(slice(cast(mask, DType::kInt64), 0, first, batch), {batch, 1, 1, 1});
  };
  if (mask.rank() == 1 && (mask.dim(0) == batch || mask.dim(0) == 2 * batch)) {
    open = less(iota(c, keys), bound(0));
    if (mask.dim(0) > batch) {
      open = logical_and(open, greater_equal(iota(c, keys), bound(batch)));
    }
  } else if (mask.rank() == 2 && mask.dim(0) == batch) {
    open = unsqueeze(greater(mask, 0), {1, 2});
  } else if (mask.rank() == 3 && mask.dim(0) == batch) {
    open = unsqueeze(greater(mask, 0), {1});
  } else {
    c.refuse("no_lowering", "a key mask of shape " + to_string(mask.shape()));
  }
  return mask_bias(open, c.working, c.attr_float("mask_filter_value", -10000.0f));
}

// Query i sees the past and keys up to its own.
Var causal_bias(LowerContext& c, int64_t queries, int64_t keys, int64_t past) {
  const Var offset = c.b.fill(DType::kInt64, static_cast<double>(past));
  return mask_bias(visible_keys(c, Window{true, -1, -1}, queries, keys, offset), c.working, -kInf);
}

// `scale` 0 is the default, 1 / sqrt(d).
void read_scale(LowerContext& c, Attention& a) {
  if (const double scale = c.attr_float("scale", 0); scale != 0) a.scale = scale;
}

// Adds masks and the given bias to `a` and attends.
AttentionResult attend_masked(LowerContext& c, Attention a, Var mask, Var bias, int64_t past) {
  read_scale(c, a);
  const int64_t queries = a.q.dim(2), keys = a.k.dim(2);
  if (mask) a.bias = bias_of_keys(c, mask, a.q.dim(0), keys);
  a.bias = add_bias(a.bias, bias);
  if (c.attr_int("unidirectional", 0) != 0) {
    if (past + queries < keys) {
      c.refuse("no_lowering", "unidirectional attention to " + std::to_string(keys) + " keys by " +
                                  std::to_string(queries) + " queries");
    }
    a.bias = add_bias(a.bias, causal_bias(c, queries, keys, past));
  }
  return attend(a);
}

Var joined_in_time(Var past, Var now) {
  const Var parts[] = {past, now};
  return concat(parts, 2);
}

// Element i of the packed axis `axis`, which is dropped.
Var unpacked(Var x, int64_t axis, int64_t i) { return squeeze(slice(x, axis, i, 1), {axis}); }

// One projection for Q, K and V. Inputs: x, weights, bias, mask, past, score bias; past and present
// are [2,B,H,S,d].
void lower_attention(LowerContext& c) {
  if (c.attr_int("past_present_share_buffer", 0) != 0) {
    c.refuse("no_lowering", "Attention with past_present_share_buffer");
  }
  if (c.attr_int("do_rotary", 0) != 0) c.refuse("no_lowering", "Attention with do_rotary");
  Var x = matmul(c.need(0), c.need(1));
  if (c.has(2)) x = x + c.in(2);
  if (x.rank() != 3) c.invalid("the input is [batch, sequence, features]");
  const int64_t third = x.dim(2) / 3, heads = c.attr_int("num_heads");
  const std::vector<int64_t> sizes = c.attr_ints("qkv_hidden_sizes", {third, third, third});
  if (sizes.size() != 3) c.invalid("qkv_hidden_sizes has three elements");
  const std::vector<Var> parts = split(x, 2, sizes);
  Attention a{split_heads(c, parts[0], heads),
              split_heads(c, parts[1], heads),
              split_heads(c, parts[2], heads),
              {},
              0,
              {}};
  int64_t past_length = 0;
  if (const Var past = c.in(4)) {
    if (past.rank() != 5 || past.dim(0) != 2) c.invalid("past is [2, batch, heads, length, size]");
    past_length = past.dim(3);
    a.k = joined_in_time(unpacked(past, 0, 0), a.k);
    a.v = joined_in_time(unpacked(past, 0, 1), a.v);
  }
  c.set(0, merge_heads(attend_masked(c, a, c.in(3), c.in(5), past_length).y));
  if (c.wants(1)) {
    const Var present[] = {unsqueeze(a.k, {0}), unsqueeze(a.v, {0})};
    c.set(1, concat(present, 0));
  }
}

// Q, K and V are given, K and V packed [B,S,H,2,d], or all packed [B,S,H,3,d]. Inputs: Q, K, V,
// bias, key mask, score bias, past key, past value.
void lower_multi_head_attention(LowerContext& c) {
  const int64_t heads = c.attr_int("num_heads");
  Var q = c.need(0), k = c.in(1), v = c.in(2);
  const std::vector<int64_t> to_heads = {0, 2, 1, 3};
  if (c.has(3)) {
    if (q.rank() != 3 || !k || !v || k.rank() != 3 || v.rank() != 3) {
      c.refuse("no_lowering", "MultiHeadAttention with a bias and packed inputs");
    }
    const std::vector<Var> bias = split(c.in(3), 0, {q.dim(2), k.dim(2), v.dim(2)});
    q = q + bias[0];
    k = k + bias[1];
    v = v + bias[2];
  }
  Attention a;
  if (!k) {
    if (q.rank() != 5 || q.dim(3) != 3) c.invalid("packed Q, K and V are [B,S,heads,3,size]");
    a.q = transpose(unpacked(q, 3, 0), to_heads);
    a.k = transpose(unpacked(q, 3, 1), to_heads);
    a.v = transpose(unpacked(q, 3, 2), to_heads);
  } else if (!v) {
    if (k.rank() != 5 || k.dim(3) != 2) c.invalid("packed K and V are [B,S,heads,2,size]");
    a.q = split_heads(c, q, heads);
    a.k = transpose(unpacked(k, 3, 0), to_heads);
    a.v = transpose(unpacked(k, 3, 1), to_heads);
  } else {
    a.q = split_heads(c, q, heads);
    a.k = k.rank() == 4 ? k : split_heads(c, k, heads);
    a.v = v.rank() == 4 ? v : split_heads(c, v, heads);
  }
  if (c.has(6) != c.has(7)) c.invalid("past_key and past_value come together");
  if (a.k.rank() != 4) c.invalid("keys of shape " + to_string(a.k.shape()));
  const int64_t now = a.k.dim(2);
  if (c.has(6)) {
    a.k = joined_in_time(c.in(6), a.k);
    a.v = joined_in_time(c.in(7), a.v);
  }
  if (c.has(8) || c.has(9)) {
    c.refuse("no_lowering", "MultiHeadAttention with a shared buffer or cache_indirection");
  }
  const int64_t past = c.has(6) ? a.k.dim(2) - now : 0;
  const AttentionResult r = attend_masked(c, a, c.in(4), c.in(5), past);
  c.set(0, merge_heads(r.y));
  if (c.wants(1)) c.set(1, a.k);
  if (c.wants(2)) c.set(2, a.v);
  if (c.wants(3)) c.set(3, r.probabilities);
}

// What GroupQueryAttention does to queries and keys [B,H,S,d] before they meet: an RMS norm of each
// head, then the rotary embedding of their positions.
Var prepared(LowerContext& c, Var x, size_t norm, std::string_view epsilon) {
  if (c.has(norm)) {
    const double common = c.attr_float("qk_norm_epsilon", 1e-6);
    x = rms_normalize(x, 3, c.attr_float(epsilon, common)) * c.in(norm);
  }
  if (c.attr_int("do_rotary", 0) == 0) return x;
  Var ids = iota(c, x.dim(2));
  if (c.has(9)) ids = ids + reshape(slice(slice(c.in(9), 0, 0, 1), 1, 0, 1), {1});
  ids = unsqueeze(ids, {0});
  const Var y = rotate(c, transpose(x, {0, 2, 1, 3}), gather(c.need(7), ids, 0),
                       gather(c.need(8), ids, 0), c.attr_int("rotary_interleaved", 0) != 0);
  return transpose(y, {0, 2, 1, 3});
}

// Causal attention with shared keys and values, of a whole sequence. Inputs: Q, K, V, past key,
// past value, lengths - 1, total length, cosines, sines, positions, score bias, sinks, -, -, scales
// of the norms of Q and K. Padding stands at the end, where no valid query looks.
void lower_group_query_attention(LowerContext& c) {
  for (size_t i : {3, 4}) {
    if (c.has(i) && c.in(i).type().size() != 0) {
      c.refuse("no_lowering", "GroupQueryAttention with past state");
    }
  }
  if (c.has(12) || c.has(13) || c.has(16)) {
    c.refuse("no_lowering", "GroupQueryAttention with a quantized cache or query_seqlens");
  }
  if (c.has(14) != c.has(15)) c.invalid("the norms of Q and K come together");
  const int64_t heads = c.attr_int("num_heads"), groups = c.attr_int("kv_num_heads");
  if (heads < 1 || groups < 1) c.invalid("num_heads and kv_num_heads are positive");
  Var q = c.need(0), k = c.in(1), v = c.in(2);
  if (!k || !v) {
    if (k || v || q.rank() != 3 || q.dim(2) % (heads + 2 * groups) != 0) {
      c.invalid("packed Q, K and V are [batch, sequence, (heads + 2 groups) size]");
    }
    const int64_t size = q.dim(2) / (heads + 2 * groups);
    const std::vector<Var> parts = split(q, 2, {heads * size, groups * size, groups * size});
    q = parts[0];
    k = parts[1];
    v = parts[2];
  }
  Attention a{split_heads(c, q, heads),   split_heads(c, k, groups),
              split_heads(c, v, groups),  {},
              c.attr_float("softcap", 0), {}};
  read_scale(c, a);
  a.q = prepared(c, a.q, 14, "q_norm_epsilon");
  a.k = prepared(c, a.k, 15, "k_norm_epsilon");
  const int64_t length = a.q.dim(2), window = c.attr_int("local_window_size", -1);
  Var open;
  if (c.attr_int("causal", 1) != 0) {
    const Window sight{true, window > 0 ? window - 1 : -1, -1};
    open = visible_keys(c, sight, length, a.k.dim(2), {});
    a.bias = mask_bias(open, c.working, -kInf);
  } else if (window > 0) {
    c.invalid("local_window_size needs causal = 1");
  }
  a.bias = add_bias(a.bias, c.in(10));
  if (c.has(11)) {
    a.sink = c.in(11);
  } else if (c.attr_int("smooth_softmax", -1) > 0) {
    a.sink = c.b.fill(c.working, 0, {heads});
  }
  const AttentionResult r = attend(a);
  c.set(0, merge_heads(r.y));
  if (c.wants(1)) c.set(1, a.k);
  if (c.wants(2)) c.set(2, a.v);
  const int64_t stage = c.attr_int("qk_output", 0);
  if (c.wants(3) && stage != 1 && stage != 2) c.invalid("output_qk needs qk_output 1 or 2");
  if (!c.wants(3)) return;
  if (stage == 2) {
    c.set(3, r.probabilities);
  } else {
    const Var scores = add_bias(r.capped, c.in(10));
    c.set(3, open ? where(open, scores, 0.0) : scores);
  }
}

// Position ids are [B,S], or one number: the first position.
void lower_rotary(LowerContext& c) {
  const Var x = c.need(0), cosine = c.need(2), sine = c.need(3);
  if (c.attr_int("is_packed_batching", 0) != 0) {
    c.refuse("no_lowering", "RotaryEmbedding with is_packed_batching");
  }
  if (c.attr_float("scale", 1) != 1) c.refuse("no_lowering", "RotaryEmbedding with a scale");
  const bool flat = x.rank() == 3;
  if ((!flat && x.rank() != 4) || cosine.rank() != 2 || cosine.dim(1) < 1) {
    c.invalid("the input has rank 3 or 4, the caches rank 2");
  }
  const int64_t dims = c.attr_int("rotary_embedding_dim", 0);
  int64_t heads = c.attr_int("num_heads", 0);
  if (flat && heads == 0) heads = x.dim(2) / (dims != 0 ? dims : 2 * cosine.dim(1));
  const Var split = transpose(flat ? split_heads(c, x, heads) : x, {0, 2, 1, 3});
  Var ids = cast(c.need(1), DType::kInt64);
  if (ids.type().size() == 1) {
    ids = unsqueeze(reshape(ids, {1}) + iota(c, split.dim(1)), {0});
  }
  const Var y = rotate(c, split, gather(cosine, ids, 0), gather(sine, ids, 0),
                       c.attr_int("interleaved", 0) != 0);
  c.set(flat ? reshape(y, x.shape()) : transpose(y, {0, 2, 1, 3}));
}

// x cos(emb) + rotated x sin(emb), for queries and keys. Inputs: emb [B,S,d], q, q rotated, k, k
// rotated [B,H,S,d].
void lower_gemma_rotary(LowerContext& c) {
  const Var angles = c.need(0);
  if (angles.rank() != 3) c.invalid("emb is [batch, sequence, size]");
  const Var cosine = unsqueeze(unary(Op::kCos, angles), {1});
  const Var sine = unsqueeze(unary(Op::kSin, angles), {1});
  c.set(0, c.need(1) * cosine + c.need(2) * sine);
  c.set(1, c.need(3) * cosine + c.need(4) * sine);
}

// As the operators of the default domain, with attributes that must keep their default.
void plain_form(LowerContext& c, std::initializer_list<std::pair<const char*, int64_t>> defaults) {
  for (const auto& [name, value] : defaults) {
    if (c.attr_int(name, value) != value) {
      c.refuse("no_lowering", c.op + " with " + name + " = " + std::to_string(c.attr_int(name)));
    }
  }
}

void lower_linear_attention(LowerContext& c) {
  plain_form(c, {{"state_window", 0}});
  if (c.attr_int("kv_num_heads") > c.attr_int("q_num_heads")) {
    c.refuse("no_lowering", "more heads of keys and values than of queries");
  }
  lower_as(c, "LinearAttention", 27);
}

void lower_causal_conv(LowerContext& c) {
  plain_form(c, {{"channels_last", 0},
                 {"dilation", 1},
                 {"input_channel_offset", 0},
                 {"input_channels", 0},
                 {"ndim", 1},
                 {"state_channels_last", -1},
                 {"state_length", 0},
                 {"state_update_capacity", 0},
                 {"state_window", 0}});
  lower_as(c, "CausalConvWithState", 27);
}

constexpr LoweringRow kRows[] = {
    {kMs, "Attention", 1, lower_attention, GradInputs::kAll, "shared past buffers, do_rotary"},
    {kMs, "CausalConvWithState", 1, lower_causal_conv},
    {kMs, "GemmaRotaryEmbedding", 1, lower_gemma_rotary},
    {kMs, "GroupQueryAttention", 1, lower_group_query_attention, GradInputs::kAll,
     "past state, quantized caches"},
    {kMs, "LinearAttention", 1, lower_linear_attention},
    {kMs, "MultiHeadAttention", 1, lower_multi_head_attention, GradInputs::kAll,
     "packed inputs with a bias, shared buffers"},
    {kMs, "RotaryEmbedding", 1, lower_rotary, GradInputs::kAll, "packed batching, scale"},
};

}  // namespace

std::span<const LoweringRow> contrib_attention_lowerings() { return kRows; }

}  // namespace trainrt::lowering
