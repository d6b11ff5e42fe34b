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
    if (attrs.packed) {
      const Shape& s = operands[0].shape;
      *this = {s[0], s[3], s[3], s[1], s[1], s[4], s[4]};
      return;
    }
    const size_t token = attrs.token_major ? 1 : 2, head = 3 - token;
    const Shape &q = operands[0].shape, &k = operands[1].shape, &v = operands[2].shape;
    *this = {q[0], q[head], k[head], q[token], k[token], q[3], v[3]};
  }
  AttentionDims(int64_t b, int64_t h, int64_t kv, int64_t q, int64_t k, int64_t d, int64_t dv)
      : batch(b), heads(h), kv_heads(kv), queries(q), keys(k), size(d), value_size(dv) {}

  /// A tensor of its own with these heads, tokens and row size.
  static HeadStrides plain(const AttentionAttrs& attrs, int64_t heads, int64_t tokens,
                           int64_t size) {
    return attrs.token_major || attrs.packed
               ? HeadStrides{tokens * heads * size, size, heads * size}
               : HeadStrides{tokens * heads * size, tokens * size, size};
  }
  HeadStrides q_strides(const AttentionAttrs& attrs) const {
    return attrs.packed ? packed_strides() : plain(attrs, heads, queries, size);
  }
  HeadStrides k_strides(const AttentionAttrs& attrs) const {
    return attrs.packed ? packed_strides() : plain(attrs, kv_heads, keys, size);
  }
  HeadStrides v_strides(const AttentionAttrs& attrs) const {
    return attrs.packed ? packed_strides() : plain(attrs, kv_heads, keys, value_size);
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

 private:
  HeadStrides packed_strides() const {
    return {queries * 3 * heads * size, size, 3 * heads * size};
  }
};

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_ATTENTION_H_
