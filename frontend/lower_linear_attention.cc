// LinearAttention and CausalConvWithState: layers that carry a state from call to call.
#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/lower_attend.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// Shapes: B batch, H heads of keys and values, G query heads to each of them, N chunks of C tokens.
struct Sizes {
  int64_t batch, tokens, heads, group, key, value, chunk, chunks;
};

// The recurrence is  S_t = a_t S_{t-1} + k_t u_t^T,  y_t = scale S_t^T q_t,  with a_t = exp(g_t)
// and u_t = v_t, or u_t = beta_t (v_t - (a_t S_{t-1})^T k_t) in the delta rules. Within a chunk,
//   S_t = E_t S + sum_{s <= t} E_ts k_s u_s^T,   E_ts = exp(g_{s+1} + … + g_t),
// where S is the state before the chunk and E_t the decay since then. Only S goes from chunk to
// chunk; all the rest is computed for all chunks at once.
struct Chunks {
  Var q;          // [B,H,N,G,C,dk]
  Var k, v;       // [B,H,N,C,dk], [B,H,N,C,dv]
  Var g;          // log decay [B,H,N,C,1 or dk], or absent
  Var beta;       // [B,1 or H,N,C,1], or absent
  Var since;      // E_t [B,H,N,C,1 or dk], or absent
  Var until_end;  // E_Cs [B,H,N,C,1 or dk], or absent
  Var kk, qk;     // sum over d of k_t E_ts k_s [B,H,N,C,C], and of q_t E_ts k_s [B,H,N,G,C,C]
};

Var decayed(Var x, Var decay) { return decay ? x * decay : x; }

// [B,T,heads*width] to [B,heads,N,C,width], tokens filled up with zeros, which leave the state as
// it is.
Var in_chunks(const Sizes& n, Var x, int64_t heads) {
  const int64_t extra = n.chunks * n.chunk - n.tokens, width = x.dim(2) / heads;
  if (extra > 0) {
    x = x.builder().add(Op::kPad, {x},
                        PadAttrs{{0, 0, 0}, {0, extra, 0}, PadMode::kConstant, 0, {}});
  }
  return transpose(reshape(x, {n.batch, n.chunks, n.chunk, heads, width}), {0, 3, 1, 2, 4});
}

// open[t, s] for tokens of a chunk: s <= t, or s < t.
Var earlier(LowerContext& c, int64_t chunk, bool strictly) {
  const Var s = iota(c, chunk), t = along(s, 0, 2);
  return strictly ? less(s, t) : less_equal(s, t);
}

// Sums of logarithms are taken over each span of tokens by itself: differences of running sums
// would cancel, and be NaN after a decay to zero.
void add_products(LowerContext& c, const Sizes& n, Chunks& x) {
  const Var open = earlier(c, n.chunk, false);
  const Shape grouped = {n.batch, n.heads, n.chunks, n.group, n.chunk, n.chunk};
  const Var rows = reshape(x.q, {n.batch, n.heads, n.chunks, n.group * n.chunk, n.key});
  if (!x.g) {
    x.kk = matmul(x.k, x.k, MatMulAttrs{false, true});
    x.qk = reshape(matmul(rows, x.k, MatMulAttrs{false, true}), grouped) * cast(open, c.working);
    return;
  }
  x.since = exp(c.b.add(Op::kCumSum, {x.g}, CumAttrs{3, false, false}));
  const int64_t last = n.chunk - 1;
  if (x.g.dim(4) == 1) {
    const Var spread = where(earlier(c, n.chunk, true), x.g, 0.0);  // [B,H,N,C,C]
    const Var sums = c.b.add(Op::kCumSum, {spread}, CumAttrs{3, false, false});
    const Var decay = where(open, exp(sums), 0.0);
    x.until_end = swap_last(slice(decay, 3, last, 1));
    x.kk = matmul(x.k, x.k, MatMulAttrs{false, true}) * decay;
    x.qk = reshape(matmul(rows, x.k, MatMulAttrs{false, true}), grouped) * unsqueeze(decay, {3});
    return;
  }
  const Var spread = where(unsqueeze(earlier(c, n.chunk, true), {2}), unsqueeze(x.g, {4}), 0.0);
  const Var sums = c.b.add(Op::kCumSum, {spread}, CumAttrs{3, false, false});
  const Var decay = where(unsqueeze(open, {2}), exp(sums), 0.0);  // [B,H,N,C,C,dk]
  x.until_end = squeeze(slice(decay, 3, last, 1), {3});
  const Var keys = unsqueeze(x.k, {3}) * decay;
  x.kk = squeeze(matmul(unsqueeze(x.k, {4}), keys, MatMulAttrs{false, true}), {4});
  x.qk = transpose(matmul(transpose(x.q, {0, 1, 2, 4, 3, 5}), keys, MatMulAttrs{false, true}),
                   {0, 1, 2, 4, 3, 5});
}

// (I + L)^-1 of strictly lower triangular L [..., C, C]. Inverses of diagonal blocks are joined two
// by two: [A 0; B D]^-1 = [A^-1 0; -D^-1 B A^-1 D^-1].
Var unit_lower_inverse(LowerContext& c, Var lower, int64_t size) {
  const Var column = iota(c, size), row = along(column, 0, 2);
  Var inverse = cast(equal(row, column), c.working);
  for (int64_t block = 1; block < size; block *= 2) {
    const Var pair = c.b.fill(DType::kInt64, static_cast<double>(2 * block));
    const Var half = c.b.fill(DType::kInt64, static_cast<double>(block));
    const Var inside = logical_and(equal(row / pair, column / pair),
                                   logical_not(equal(row / half, column / half)));
    const Var joint = where(inside, lower, 0.0);
    inverse = block == 1 ? inverse - joint : inverse - matmul(matmul(inverse, joint), inverse);
  }
  return inverse;
}

struct Carried {
  Var u;       // [B,H,N,C,dv]
  Var starts;  // the state before each chunk, [B,H,N,dk,dv]
  Var state;   // after the last one, [B,H,dk,dv]
};

// u = W (beta v) - W (beta E k) S with W = (I + beta kk)^-1 in the delta rules.
Carried carry(LowerContext& c, const Sizes& n, const Chunks& x, Var state) {
  Var from_values = x.v, from_state;
  if (x.beta) {
    const Var lower = where(earlier(c, n.chunk, true), x.kk * x.beta, 0.0);
    const Var inverse = unit_lower_inverse(c, lower, n.chunk);
    from_values = matmul(inverse, x.v * x.beta);
    from_state = matmul(inverse, decayed(x.k, x.since) * x.beta);
  }
  const Var keys = decayed(x.k, x.until_end);
  std::vector<Var> starts, us;
  for (int64_t i = 0; i < n.chunks; ++i) {
    const auto chunk = [&](Var all) { return squeeze(slice(all, 2, i, 1), {2}); };
    Var u = chunk(from_values);
    if (from_state) u = u - matmul(chunk(from_state), state);
    starts.push_back(unsqueeze(state, {2}));
    us.push_back(unsqueeze(u, {2}));
    if (x.since) state = state * swap_last(slice(chunk(x.since), 2, n.chunk - 1, 1));
    state = state + matmul(chunk(keys), u, MatMulAttrs{true, false});
  }
  return {concat(us, 2), concat(starts, 2), state};
}

Sizes read_sizes(LowerContext& c) {
  const Var q = c.need(0), k = c.need(1), v = c.need(2);
  const int64_t query_heads = c.attr_int("q_num_heads"), heads = c.attr_int("kv_num_heads");
  if (heads < 1 || query_heads < 1 || query_heads % heads != 0) {
    c.invalid(std::to_string(query_heads) + " query heads do not share " + std::to_string(heads) +
              " heads of keys and values");
  }
  const bool fits = q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && k.dim(0) == q.dim(0) &&
                    v.dim(0) == q.dim(0) && k.dim(1) == q.dim(1) && v.dim(1) == q.dim(1) &&
                    q.dim(2) > 0 && q.dim(2) % query_heads == 0 && v.dim(2) % heads == 0 &&
                    k.dim(2) == q.dim(2) / query_heads * heads;
  if (!fits) {
    c.invalid("queries " + to_string(q.shape()) + ", keys " + to_string(k.shape()) +
              " and values " + to_string(v.shape()) + " do not fit together");
  }
  return {q.dim(0), q.dim(1), heads, query_heads / heads, k.dim(2) / heads, v.dim(2) / heads, 1, 0};
}

// An optional input [B,T,widths], which the update rule must have or must not have.
Var gate(LowerContext& c, const Sizes& n, size_t i, bool wanted, std::string_view what,
         std::array<int64_t, 2> widths) {
  const std::string rule = c.attr_string("update_rule", "gated_delta");
  if (c.has(i) != wanted) {
    c.invalid("update_rule '" + rule + "' " + (wanted ? "needs" : "takes no") + " input " +
              std::string(what));
  }
  const Var x = c.in(i);
  if (x && (x.rank() != 3 || x.dim(0) != n.batch || x.dim(1) != n.tokens ||
            (x.dim(2) != widths[0] && x.dim(2) != widths[1]))) {
    c.invalid(std::string(what) + " has shape " + to_string(x.shape()));
  }
  return x;
}

// Inputs: query, key, value, state, decay, beta; outputs: y, state.
void lower_linear_attention(LowerContext& c) {
  Sizes n = read_sizes(c);
  const std::string rule = c.attr_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") c.invalid("unknown update_rule '" + rule + "'");
  const Var decay = gate(c, n, 4, gated, "decay", {n.heads, n.heads * n.key});
  const Var beta = gate(c, n, 5, delta, "beta", {n.heads, 1});
  Var state = c.in(3);
  const Shape state_shape = {n.batch, n.heads, n.key, n.value};
  if (!state) state = c.b.fill(c.working, 0, state_shape);
  if (state.shape() != state_shape) c.invalid("past_state is " + to_string(state_shape));
  const Shape y_shape = {n.batch, n.tokens, n.heads * n.group * n.value};
  if (n.tokens == 0) {
    c.set(0, c.b.fill(c.working, 0, y_shape));
    c.set(1, state);
    return;
  }
  // Decays of single dims need a product of size C for each token and dim.
  const bool wide = decay && decay.dim(2) != n.heads;
  n.chunk =
      std::min(n.tokens, std::clamp<int64_t>(c.attr_int("chunk_size", 64), 1, wide ? 16 : 64));
  n.chunks = (n.tokens + n.chunk - 1) / n.chunk;

  const double scale = c.attr_float("scale", 0);
  const Var q = c.need(0) * (scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(n.key)));
  Chunks x;
  x.q = transpose(
      reshape(in_chunks(n, q, n.heads), {n.batch, n.heads, n.chunks, n.chunk, n.group, n.key}),
      {0, 1, 2, 4, 3, 5});
  x.k = in_chunks(n, c.need(1), n.heads);
  x.v = in_chunks(n, c.need(2), n.heads);
  if (decay) x.g = in_chunks(n, decay, n.heads);
  if (beta) x.beta = in_chunks(n, beta, beta.dim(2));
  add_products(c, n, x);
  const Carried r = carry(c, n, x, state);

  // y = (E q) S + qk u
  const auto rows = [&](Var v) {
    return reshape(v, {n.batch, n.heads, n.chunks, n.group * n.chunk, v.dim(5)});
  };
  const Var reading = x.since ? x.q * unsqueeze(x.since, {3}) : x.q;
  Var y = matmul(rows(reading), r.starts) + matmul(rows(x.qk), r.u);
  y = transpose(reshape(y, {n.batch, n.heads, n.chunks, n.group, n.chunk, n.value}),
                {0, 2, 4, 1, 3, 5});
  y = reshape(y, {n.batch, n.chunks * n.chunk, y_shape[2]});
  c.set(0, slice(y, 1, 0, n.tokens));
  c.set(1, r.state);
}

// A depthwise convolution over the past and present positions. Inputs: x [B,C,L], weight [C,1,k],
// bias, the k - 1 positions before; outputs: y [B,C,L], the last k - 1 positions.
void lower_causal_conv(LowerContext& c) {
  const Var x = c.need(0), w = c.need(1);
  if (x.rank() != 3 || w.rank() != 3 || w.shape() != Shape{x.dim(1), 1, w.dim(2)} || w.dim(2) < 1) {
    c.invalid("input " + to_string(x.shape()) + " is [batch, channels, length] and weight " +
              to_string(w.shape()) + " [channels, 1, kernel]");
  }
  const std::string activation = c.attr_string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    c.invalid("unknown activation '" + activation + "'");
  }
  if (c.has(2) && c.in(2).shape() != Shape{x.dim(1)}) c.invalid("bias has an element per channel");
  const int64_t kept = w.dim(2) - 1;
  const Shape kept_shape = {x.dim(0), x.dim(1), kept};
  const Var past = c.has(3) ? c.in(3) : c.b.fill(c.working, 0, kept_shape);
  if (past.shape() != kept_shape) c.invalid("past_state is " + to_string(kept_shape));
  const Var parts[] = {past, x};
  const Var all = kept > 0 ? concat(parts, 2) : x;
  c.set(1, slice(all, 2, x.dim(2), kept));
  if (x.type().size() == 0) {
    c.set(0, x);
    return;
  }
  const ConvAttrs attrs{{1}, {1}, {0}, {0}, x.dim(1), {}};
  const Var y =
      c.has(2) ? c.b.add(Op::kConv, {all, w, c.in(2)}, attrs) : c.b.add(Op::kConv, {all, w}, attrs);
  c.set(0, activation == "none" ? y : y * sigmoid(y));
}

constexpr LoweringRow kRows[] = {
    {"", "CausalConvWithState", 27, lower_causal_conv},
    {"", "LinearAttention", 27, lower_linear_attention},
};

}  // namespace

std::span<const LoweringRow> linear_attention_lowerings() { return kRows; }

}  // namespace trainrt::lowering
