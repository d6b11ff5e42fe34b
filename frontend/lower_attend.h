// Scaled dot-product attention and rotary embedding as formulas, shared by ONNX's and
// com.microsoft's operators. Private to the frontend.
#ifndef TRAINRT_FRONTEND_LOWER_ATTEND_H_
#define TRAINRT_FRONTEND_LOWER_ATTEND_H_

#include <optional>

#include "frontend/lower.h"

namespace trainrt::lowering {

/// Queries [B,H,L,d], keys [B,G,S,d], values [B,G,S,e]; G divides H, and heads of a group share
/// keys and values.
struct Attention {
  Var q, k, v;
  std::optional<double> scale;  // 1 / sqrt(d)
  double softcap = 0;           // up to 0: none
  Var bias;                     // added to the scores, broadcasts to [B,H,L,S]; may be absent
  Var sink = {};                // [H]: the score of one more key, whose value is 0; may be absent
};

struct AttentionResult {
  Var y;              // [B,H,L,e]; 0 for a query that no key is open to
  Var scores;         // scale q k^T, [B,H,L,S]
  Var capped;         // softcap tanh(scores / softcap)
  Var biased;         // capped + bias
  Var probabilities;  // softmax of biased
};

/// Throws Error(kInvalidModel) when shapes do not fit together.
AttentionResult attend(const Attention& a);

/// 0 where `open` is true, else `closed`.
Var mask_bias(Var open, DType type, double closed);

/// The sum; either may be absent.
Var add_bias(Var a, Var b);

/// Which keys j query i may see: [L,S], or [B,1,L,S] when the offset differs between batches.
/// j <= i + offset, or the window i + offset - left <= j <= i + offset + right (-1: open).
struct Window {
  bool causal = false;
  int64_t left = -1, right = -1;
};
Var visible_keys(LowerContext& c, const Window& w, int64_t queries, int64_t keys, Var offset);

/// [B,L,H*d] to [B,H,L,d], and back.
Var split_heads(LowerContext& c, Var x, int64_t heads);
Var merge_heads(Var x);

/// Rotates the first `dims` elements of the heads of x [B,S,H,d] by angles with the given cosines
/// and sines [B or 1,S,dims/2]. Pairs are (2i, 2i+1) when interleaved, else (i, i + dims/2).
Var rotate(LowerContext& c, Var x, Var cosine, Var sine, bool interleaved);

}  // namespace trainrt::lowering

#endif  // TRAINRT_FRONTEND_LOWER_ATTEND_H_
