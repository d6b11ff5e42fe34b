// Sizes of attention, and where the rows of its operands lie.
#ifndef TRAINRT_GRAPH_ATTENTION_H_
#define TRAINRT_GRAPH_ATTENTION_H_

#include <span>

#include "graph/attrs.h"
#include "graph/types.h"

namespace trainrt {

/// Distances, in elements, of batch entries, heads and tokens; the elements of a row are
/// neighbours.
struct HeadStrides {
  int64_t batch = 0, head = 0, token = 0;
};

/// kv_heads divides heads: consecutive heads of q share a head of k and v.
struct AttentionDims {
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;

  /// `operands` starts with q, k and v, or with what is packed of them.
  AttentionDims(const AttentionAttrs& attrs, std::span<const TensorType> operands) {
    const size_t b = attrs.sequence_first ? 1 : 0;
    if (attrs.packed) {
      const Shape& s = operands[0].shape;
      *this = {s[b], s[3], s[3], s[1 - b], s[1 - b], s[4], s[4]};
      return;
    }
    const size_t token = attrs.token_major ? 1 - b : 2, head = attrs.token_major ? 2 : 1;
    const Shape &q = operands[0].shape, &k = operands[1].shape, &v = operands[2].shape;
    *this = {q[b], q[head], k[head], q[token], k[token], q[3], v[3]};
  }
  AttentionDims(int64_t b, int64_t h, int64_t kv, int64_t q, int64_t k, int64_t d, int64_t dv)
      : batch(b), heads(h), kv_heads(kv), queries(q), keys(k), size(d), value_size(dv) {}

  HeadStrides q_strides(const AttentionAttrs& attrs) const {
    return attrs.packed ? packed_strides(attrs) : plain(attrs, heads, queries, size);
  }
  HeadStrides k_strides(const AttentionAttrs& attrs) const {
    return attrs.packed ? packed_strides(attrs) : plain(attrs, kv_heads, keys, size);
  }
  HeadStrides v_strides(const AttentionAttrs& attrs) const {
    return attrs.packed ? packed_strides(attrs) : plain(attrs, kv_heads, keys, value_size);
  }
  HeadStrides y_strides(const AttentionAttrs& attrs) const {
    return plain(attrs, heads, queries, value_size);
  }
  /// Keys that query i sees are [0, visible(i)).
  int64_t visible(const AttentionAttrs& attrs, int64_t query) const {
    if (!attrs.causal) return keys;
    const int64_t n = query + keys - queries + 1;
    return n < 0 ? 0 : n > keys ? keys : n;
  }

  /// Dims of a result, or of a gradient of it.
  Shape y_shape(const AttentionAttrs& attrs) const {
    if (!attrs.token_major && !attrs.packed) return {batch, heads, queries, value_size};
    if (attrs.sequence_first) return {queries, batch, heads, value_size};
    return {batch, queries, heads, value_size};
  }

 private:
  /// Where tokens consist of `row` elements, with head h at h * size.
  HeadStrides token_major(const AttentionAttrs& attrs, int64_t tokens, int64_t row,
                          int64_t head) const {
    return attrs.sequence_first ? HeadStrides{row, head, batch * row}
                                : HeadStrides{tokens * row, head, row};
  }
  /// A tensor of its own with these heads, tokens and row size.
  HeadStrides plain(const AttentionAttrs& attrs, int64_t head_count, int64_t tokens,
                    int64_t row) const {
    if (attrs.token_major || attrs.packed) return token_major(attrs, tokens, head_count * row, row);
    return {tokens * head_count * row, tokens * row, row};
  }
  HeadStrides packed_strides(const AttentionAttrs& attrs) const {
    return token_major(attrs, queries, 3 * heads * size, size);
  }
};

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_ATTENTION_H_
