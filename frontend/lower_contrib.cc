// com.microsoft: what ONNX Runtime's optimizer and exporters leave in a file.
#include "frontend/lower_attend.h"
#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

// Gelu, BiasGelu, FastGelu: of x, or of x + bias.
template <bool kTanhForm>
void lower_gelu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(gelu(c.has(1) ? x + c.in(1) : x, kTanhForm));
}

// x sigmoid(alpha x)
void lower_quick_gelu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(x * sigmoid(c.attr_float("alpha", 1.702) * x));
}

void lower_fused_matmul(LowerContext& c) {
  if (c.attr_int("transBatchA", 0) != 0 || c.attr_int("transBatchB", 0) != 0) {
    c.refuse("no_lowering", "FusedMatMul with transBatchA or transBatchB");
  }
  Var a = c.need(0), b = c.need(1);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0) c.invalid("an operand is a scalar");
  const MatMulAttrs trans{!row && c.attr_int("transA", 0) != 0,
                          !column && c.attr_int("transB", 0) != 0};
  Var y = matmul(row ? unsqueeze(a, {0}) : a, column ? unsqueeze(b, {1}) : b, trans);
  if (column) y = squeeze(y, {-1});
  if (row) y = squeeze(y, {column ? -1 : -2});
  const double alpha = c.attr_float("alpha", 1.0);
  c.set(alpha == 1.0 ? y : alpha * y);
}

// LayerNorm of input + skip + bias; outputs: y, mean, 1/sd, the sum.
void lower_skip_layer_norm(LowerContext& c) {
  Var sum = c.need(0) + c.need(1);
  if (c.has(4)) sum = sum + c.in(4);
  const LayerNormResult r =
      layer_normalize(sum, c.need(2), c.in(3), sum.rank() - 1, c.attr_float("epsilon", 1e-12),
                      c.wants(1) || c.wants(2));
  c.set(0, r.y);
  if (c.wants(1)) c.set(1, r.mean);
  if (c.wants(2)) c.set(2, r.inverse);
  if (c.wants(3)) c.set(3, sum);
}

// RMS norm of input + skip + bias; outputs: y, (unused), 1/rms, the sum.
void lower_skip_rms_norm(LowerContext& c) {
  Var sum = c.need(0) + c.need(1);
  if (c.has(3)) sum = sum + c.in(3);
  if (c.wants(1)) c.refuse("no_lowering", "the mean is not computed by this op");
  Var inverse;
  c.set(0,
        rms_normalize(sum, sum.rank() - 1, c.attr_float("epsilon", 1e-12), &inverse) * c.need(2));
  if (c.wants(2)) c.set(2, inverse);
  if (c.wants(3)) c.set(3, sum);
}

// LayerNorm of word + position + segment embeddings. Inputs: ids, segments, the three tables,
// scale, bias, mask, position ids; outputs: y, number of unmasked tokens, the sum.
void lower_embed_layer_norm(LowerContext& c) {
  const Var ids = c.need(0), positions = c.need(3);
  if (ids.rank() != 2) c.invalid("input_ids are [batch, sequence]");
  Var sum = gather(c.need(2), ids, 0);
  sum = sum + (c.has(8) ? gather(positions, c.in(8), 0) : slice(positions, 0, 0, ids.dim(1)));
  if (c.has(1) && c.has(4)) sum = sum + gather(c.in(4), c.in(1), 0);
  c.set(0, layer_normalize(sum, c.need(5), c.need(6), 2, c.attr_float("epsilon", 1e-12), false).y);
  if (c.wants(1)) {
    c.set(1, c.has(7) ? cast(reduce_sum(cast(c.in(7), DType::kInt64), {1}), DType::kInt32)
                      : c.b.fill(DType::kInt32, 0, {ids.dim(0)}));
  }
  if (c.wants(2)) c.set(2, sum);
}

// Key masks: a length per batch [B], or 0 and 1 in [B,S] or [B,L,S]; closed keys get a large
// negative score.
Var bias_of_keys(LowerContext& c, Var mask, int64_t batch, int64_t keys) {
  Var open;
  if (mask.shape() == Shape{batch}) {
    open = less(iota(c, keys), reshape(cast(mask, DType::kInt64), {batch, 1, 1, 1}));
  } else if (mask.rank() == 2 && mask.dim(0) == batch) {
    open = unsqueeze(cast(mask, DType::kBool), {1, 2});
  } else if (mask.rank() == 3) {
    open = unsqueeze(cast(mask, DType::kBool), {1});
  } else {
    c.refuse("no_lowering", "a key mask of shape " + to_string(mask.shape()));
  }
  return mask_bias(open, c.working, c.attr_float("mask_filter_value", -10000.0));
}

Var causal_bias(LowerContext& c, int64_t queries, int64_t keys) {
  const Var offset = c.b.fill(DType::kInt64, static_cast<double>(keys - queries));
  return mask_bias(visible_keys(c, Window{true, -1, -1}, queries, keys, offset), c.working, -kInf);
}

// Adds masks and the given bias to `a` and attends.
Var attend_masked(LowerContext& c, Attention a, Var mask, Var bias) {
  a.scale = c.attr_float("scale", 0);
  const int64_t queries = a.q.dim(2), keys = a.k.dim(2);
  if (mask) a.bias = bias_of_keys(c, mask, a.q.dim(0), keys);
  a.bias = add_bias(a.bias, bias);
  if (c.attr_int("unidirectional", 0) != 0) {
    a.bias = add_bias(a.bias, causal_bias(c, queries, keys));
  }
  return merge_heads(attend(a).y);
}

// One projection for Q, K and V. Inputs: x, weights, bias, mask, past, score bias.
void lower_attention(LowerContext& c) {
  if (c.has(4) || c.wants(1)) c.refuse("no_lowering", "Attention with past or present state");
  if (c.attr_int("do_rotary", 0) != 0) c.refuse("no_lowering", "Attention with do_rotary");
  Var x = matmul(c.need(0), c.need(1));
  if (c.has(2)) x = x + c.in(2);
  if (x.rank() != 3) c.invalid("the input is [batch, sequence, features]");
  const int64_t third = x.dim(2) / 3, heads = c.attr_int("num_heads");
  const std::vector<int64_t> sizes = c.attr_ints("qkv_hidden_sizes", {third, third, third});
  if (sizes.size() != 3) c.invalid("qkv_hidden_sizes has three elements");
  const std::vector<Var> parts = split(x, 2, sizes);
  const Attention a{split_heads(c, parts[0], heads),
                    split_heads(c, parts[1], heads),
                    split_heads(c, parts[2], heads),
                    0,
                    0,
                    {}};
  c.set(attend_masked(c, a, c.in(3), c.in(5)));
}

// Element i of the packed axis `axis`, which is dropped.
Var unpacked(Var x, int64_t axis, int64_t i) { return squeeze(slice(x, axis, i, 1), {axis}); }

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
  if (c.has(6)) {
    const Var keys[] = {c.in(6), a.k}, values[] = {c.in(7), a.v};
    a.k = concat(keys, 2);
    a.v = concat(values, 2);
  }
  c.set(0, attend_masked(c, a, c.in(4), c.in(5)));
  if (c.wants(1)) c.set(1, a.k);
  if (c.wants(2)) c.set(2, a.v);
}

// Causal attention with shared keys and values. Inputs: Q, K, V, past key, past value, lengths - 1,
// total length, cosines, sines.
void lower_group_query_attention(LowerContext& c) {
  if ((c.has(3) && c.in(3).type().size() != 0) || !c.has(1) || !c.has(2)) {
    c.refuse("no_lowering", "GroupQueryAttention with past state or packed inputs");
  }
  const int64_t groups = c.attr_int("kv_num_heads");
  Attention a{split_heads(c, c.need(0), c.attr_int("num_heads")),
              split_heads(c, c.need(1), groups),
              split_heads(c, c.need(2), groups),
              c.attr_float("scale", 0),
              c.attr_float("softcap", 0),
              {}};
  const int64_t length = a.q.dim(2);
  if (c.attr_int("do_rotary", 0) != 0) {
    const bool interleaved = c.attr_int("rotary_interleaved", 0) != 0;
    for (Var* x : {&a.q, &a.k}) {
      const Var cosine = unsqueeze(slice(c.need(7), 0, 0, length), {0});
      const Var sine = unsqueeze(slice(c.need(8), 0, 0, length), {0});
      *x = transpose(rotate(c, transpose(*x, {0, 2, 1, 3}), cosine, sine, interleaved),
                     {0, 2, 1, 3});
    }
  }
  const int64_t window = c.attr_int("local_window_size", -1);
  const Var open =
      visible_keys(c, Window{true, window > 0 ? window - 1 : -1, -1}, length, a.k.dim(2), {});
  a.bias = mask_bias(open, c.working, -kInf);
  c.set(0, merge_heads(attend(a).y));
  if (c.wants(1)) c.set(1, a.k);
  if (c.wants(2)) c.set(2, a.v);
}

// Position ids are [B,S], or one number: the first position.
void lower_rotary(LowerContext& c) {
  const Var x = c.need(0), cosine = c.need(2), sine = c.need(3);
  if (c.attr_int("is_packed_batching", 0) != 0) {
    c.refuse("no_lowering", "RotaryEmbedding with is_packed_batching");
  }
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

using enum GradInputs;

constexpr std::string_view kMs = "com.microsoft";

constexpr LoweringRow kRows[] = {
    {kMs, "Attention", 1, lower_attention},
    {kMs, "BiasGelu", 1, lower_gelu<false>},
    {kMs, "EmbedLayerNormalization", 1, lower_embed_layer_norm},
    {kMs, "FastGelu", 1, lower_gelu<true>},
    {kMs, "FusedMatMul", 1, lower_fused_matmul},
    {kMs, "Gelu", 1, lower_gelu<false>},
    {kMs, "GroupQueryAttention", 1, lower_group_query_attention},
    {kMs, "LayerNormalization", 1, lower_layer_norm},
    {kMs, "MultiHeadAttention", 1, lower_multi_head_attention},
    {kMs, "QuickGelu", 1, lower_quick_gelu},
    {kMs, "RotaryEmbedding", 1, lower_rotary},
    {kMs, "SimplifiedLayerNormalization", 1, lower_rms_norm},
    {kMs, "SkipLayerNormalization", 1, lower_skip_layer_norm},
    {kMs, "SkipSimplifiedLayerNormalization", 1, lower_skip_rms_norm},
    {kMs, "TransposeMatMul", 1, lower_fused_matmul},
};

}  // namespace

std::span<const LoweringRow> contrib_lowerings() { return kRows; }

}  // namespace trainrt
