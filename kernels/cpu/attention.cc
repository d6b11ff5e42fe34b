// Attention by blocks of rows: the scores of a block are made, used and forgotten. The backward
// kernel makes them again from the log-sums, so that no matrix of scores is ever in memory. Keys
// that a causal block cannot see are skipped.
#include "graph/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

#ifndef TRAINRT_KERNELS_CPU_ATTENTION_ONCE_
#define TRAINRT_KERNELS_CPU_ATTENTION_ONCE_
namespace trainrt {

/// One head of one batch entry. Strides are those of tokens; rows of the scratch are `width` apart.
struct AttentionHead {
  AttentionDims n;
  bool causal;
  float scale;
  int64_t q_stride, k_stride, v_stride, y_stride;
  int64_t block, width;           // rows of a block, stride of its scores
  const float* mask;              // null without one
  int64_t mask_row, mask_column;  // strides
  const float *q, *k, *v;
};

struct AttentionLoops {
  /// Rows [begin, end). `scratch` holds size * width floats, and `block` rows of scores.
  void (*forward)(const AttentionHead& h, int64_t begin, int64_t end, float* y, float* log_sums,
                  float* scratch);
  /// dq is written, dk and dv are added to. `keys` holds (size + value_size) * width floats of k
  /// and v by pack(), `scratch` twice `block` rows of scores and `block` numbers.
  void (*pack)(const AttentionHead& h, float* keys);
  void (*backward)(const AttentionHead& h, const float* dy, const float* y, const float* log_sums,
                   const float* keys, float* dq, float* dk, float* dv, float* scratch);
};

}  // namespace trainrt
#endif

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kRows = 6;  // of a register tile
#if HWY_TARGET_IS_NEON || HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr size_t kVectors = 4;  // beside them, where there are 32 registers
#else
constexpr size_t kVectors = 2;
#endif

/// C = A B or C += A B: M rows and N vectors of columns, of which the last has `last` lanes.
struct Product {
  const float* a;
  int64_t a_row, a_column;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t m, n, k;
  bool add;
};

// The loops over the tile must be unrolled, or `sum` lives in memory.
template <size_t M, size_t N, bool kPartial>
HWY_INLINE void tile(const Product& p, const float* a, const float* b, float* c, size_t last) {
  const DF d;
  const size_t lanes = hn::Lanes(d);
  const auto load = [&](const float* row, size_t j) HWY_ATTR {
    return kPartial && j == N - 1 ? hn::LoadN(d, row + j * lanes, last)
                                  : hn::LoadU(d, row + j * lanes);
  };
  VF sum[M][N];
#pragma GCC unroll 8
  for (size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (size_t j = 0; j < N; ++j) {
      sum[i][j] = p.add ? load(c + static_cast<int64_t>(i) * p.c_row, j) : hn::Zero(d);
    }
  }
  for (int64_t k = 0; k < p.k; ++k) {
    VF right[N];
#pragma GCC unroll 8
    for (size_t j = 0; j < N; ++j) right[j] = load(b, j);
#pragma GCC unroll 8
    for (size_t i = 0; i < M; ++i) {
      const VF left = hn::Set(d, a[static_cast<int64_t>(i) * p.a_row]);
#pragma GCC unroll 8
      for (size_t j = 0; j < N; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
    a += p.a_column;
    b += p.b_row;
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (size_t j = 0; j < N; ++j) {
      float* out = c + static_cast<int64_t>(i) * p.c_row + j * lanes;
      if (kPartial && j == N - 1) {
        hn::StoreN(sum[i][j], d, out, last);
      } else {
        hn::StoreU(sum[i][j], d, out);
      }
    }
  }
}

template <size_t N, bool kPartial>
void columns(const Product& p, int64_t j, size_t last) {
  int64_t i = 0;
  const auto run = [&]<size_t M>() HWY_ATTR {
    tile<M, N, kPartial>(p, p.a + i * p.a_row, p.b + j, p.c + i * p.c_row + j, last);
    i += M;
  };
  while (i + static_cast<int64_t>(kRows) <= p.m) run.template operator()<kRows>();
  switch (p.m - i) {
    case 5:
      return run.template operator()<5>();
    case 4:
      return run.template operator()<4>();
    case 3:
      return run.template operator()<3>();
    case 2:
      return run.template operator()<2>();
    case 1:
      return run.template operator()<1>();
    default:
      return;
  }
}

template <bool kPartial>
void columns(size_t vectors, const Product& p, int64_t j, size_t last) {
  if (vectors == 1) return columns<1, kPartial>(p, j, last);
  if (vectors == 2) return columns<2, kPartial>(p, j, last);
  if constexpr (kVectors == 4) {
    if (vectors == 3) return columns<3, kPartial>(p, j, last);
    columns<4, kPartial>(p, j, last);
  }
}

void multiply(const Product& p) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(DF()));
  for (int64_t j = 0; j < p.n;) {
    const int64_t vectors =
        std::min<int64_t>((p.n - j + lanes - 1) / lanes, static_cast<int64_t>(kVectors));
    const int64_t full = p.n - j - (vectors - 1) * lanes;
    if (full >= lanes) {
      columns<false>(static_cast<size_t>(vectors), p, j, 0);
    } else {
      columns<true>(static_cast<size_t>(vectors), p, j, static_cast<size_t>(full));
    }
    j += vectors * lanes;
  }
}

/// out[c][r] = x[r][c], four by four.
void transpose(const float* x, int64_t x_row, int64_t rows, int64_t count, float* out,
               int64_t out_row) {
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto join_low = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
  };
  const auto join_high = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
  };
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* from = x + r * x_row;
    int64_t c = 0;
    for (; c + 4 <= count; c += 4) {
      const auto r0 = hn::LoadU(d, from + c), r1 = hn::LoadU(d, from + x_row + c),
                 r2 = hn::LoadU(d, from + 2 * x_row + c), r3 = hn::LoadU(d, from + 3 * x_row + c);
      const auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveUpper(d, r0, r1),
                 e = hn::InterleaveLower(d, r2, r3), f = hn::InterleaveUpper(d, r2, r3);
      float* to = out + c * out_row + r;
      hn::StoreU(join_low(a, e), d, to);
      hn::StoreU(join_high(a, e), d, to + out_row);
      hn::StoreU(join_low(b, f), d, to + 2 * out_row);
      hn::StoreU(join_high(b, f), d, to + 3 * out_row);
    }
    for (; c < count; ++c) {
      for (int64_t i = 0; i < 4; ++i) out[c * out_row + r + i] = from[i * x_row + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < count; ++c) out[c * out_row + r] = x[r * x_row + c];
  }
}

/// f(reader, i) for every vector of a row; the reader's load fills lanes behind the end.
template <typename F>
HWY_INLINE void each(int64_t count, const F& f) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, lanes);
  if (i < n) f(i, n - i);
}

HWY_INLINE VF load(DF d, const float* p, size_t n) {
  return n == hn::Lanes(d) ? hn::LoadU(d, p) : hn::LoadN(d, p, n);
}
HWY_INLINE void store(DF d, VF v, float* p, size_t n) {
  if (n == hn::Lanes(d)) {
    hn::StoreU(v, d, p);
  } else {
    hn::StoreN(v, d, p, n);
  }
}

HWY_INLINE VF masked_score(DF d, const AttentionHead& h, VF s, const float* mask, size_t i,
                           size_t n) {
  const VF scaled = hn::Mul(s, hn::Set(d, h.scale));
  if (mask == nullptr) return scaled;
  return hn::Add(scaled, h.mask_column == 0 ? hn::Set(d, *mask) : load(d, mask + i, n));
}

/// Turns the raw scores of a row into e^(score - peak); their sum and the peak.
float exponentials(const AttentionHead& h, const float* mask, float* s, int64_t seen, float* peak) {
  const DF d;
  const VF low = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF best = low;
  MF nan = hn::MaskFalse(d);
  each(seen, [&](size_t i, size_t n) HWY_ATTR {
    const VF v = masked_score(d, h, load(d, s + i, n), mask, i, n);
    store(d, v, s + i, n);
    nan = hn::Or(nan, hn::And(hn::IsNaN(v), hn::FirstN(d, n)));
    best = hn::Max(best, hn::IfThenElse(hn::FirstN(d, n), v, low));
  });
  *peak = hn::AllFalse(d, nan) ? hn::ReduceMax(d, best) : std::numeric_limits<float>::quiet_NaN();
  const VF shift = hn::Set(d, *peak);
  VF sum = hn::Zero(d);
  each(seen, [&](size_t i, size_t n) HWY_ATTR {
    const VF e = vexp(d, hn::Sub(load(d, s + i, n), shift));
    store(d, e, s + i, n);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, n), e));
  });
  return hn::ReduceSum(d, sum);
}

const float* mask_row(const AttentionHead& h, int64_t i) {
  return h.mask == nullptr ? nullptr : h.mask + i * h.mask_row;
}

int64_t visible(const AttentionHead& h, int64_t i) {
  AttentionAttrs attrs;
  attrs.causal = h.causal;
  return h.n.visible(attrs, i);
}

void forward(const AttentionHead& h, int64_t begin, int64_t end, float* y, float* log_sums,
             float* scratch) {
  const DF d;
  float *keys = scratch, *scores = scratch + h.n.size * h.width;
  transpose(h.k, h.k_stride, visible(h, end - 1), h.n.size, keys, h.width);
  for (int64_t first = begin; first < end; first += h.block) {
    const int64_t rows = std::min(h.block, end - first), most = visible(h, first + rows - 1);
    multiply({h.q + first * h.q_stride, h.q_stride, 1, keys, h.width, scores, h.width, rows, most,
              h.n.size, false});
    std::array<float, 64> inverse;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = first + r, seen = visible(h, i);
      float *s = scores + r * h.width, peak = 0;
      // Without a key the softmax is 0/0, as it is where the mask leaves none.
      const float sum = seen == 0 ? std::numeric_limits<float>::quiet_NaN()
                                  : exponentials(h, mask_row(h, i), s, seen, &peak);
      std::fill(s + seen, s + most, 0.0f);
      inverse[static_cast<size_t>(r)] = 1.0f / sum;
      log_sums[i] = peak + std::log(sum);
    }
    float* out = y + first * h.y_stride;
    multiply(
        {scores, h.width, 1, h.v, h.v_stride, out, h.y_stride, rows, h.n.value_size, most, false});
    for (int64_t r = 0; r < rows; ++r) {
      const VF factor = hn::Set(d, inverse[static_cast<size_t>(r)]);
      float* row = out + r * h.y_stride;
      each(h.n.value_size, [&](size_t i, size_t n) HWY_ATTR {
        store(d, hn::Mul(load(d, row + i, n), factor), row + i, n);
      });
    }
  }
}

void pack(const AttentionHead& h, float* keys) {
  transpose(h.k, h.k_stride, h.n.keys, h.n.size, keys, h.width);
  transpose(h.v, h.v_stride, h.n.keys, h.n.value_size, keys + h.n.size * h.width, h.width);
}

/// Turns raw scores into P = e^(score - log_sum), and dP into dS = scale P (dP - dot).
void weights(const AttentionHead& h, const float* mask, float log_sum, float dot, float* s,
             float* ds, int64_t seen) {
  const DF d;
  const VF shift = hn::Set(d, log_sum), subtrahend = hn::Set(d, dot), scale = hn::Set(d, h.scale);
  each(seen, [&](size_t i, size_t n) HWY_ATTR {
    const VF p = vexp(d, hn::Sub(masked_score(d, h, load(d, s + i, n), mask, i, n), shift));
    const VF difference = hn::Sub(load(d, ds + i, n), subtrahend);
    const VF product = hn::Mul(hn::Mul(difference, p), scale);
    store(d, p, s + i, n);
    // Where nothing flows in nothing flows on.
    store(d, hn::IfThenElse(hn::Eq(difference, hn::Zero(d)), difference, product), ds + i, n);
  });
}

/// Sum of dy y, where dy is not 0.
float flow(const float* dy, const float* y, int64_t size) {
  const DF d;
  VF sum = hn::Zero(d);
  each(size, [&](size_t i, size_t n) HWY_ATTR {
    const VF g = load(d, dy + i, n);
    const VF product = hn::Mul(g, load(d, y + i, n));
    sum = hn::Add(sum, hn::IfThenElse(hn::Eq(g, hn::Zero(d)), g, product));
  });
  return hn::ReduceSum(d, sum);
}

void backward(const AttentionHead& h, const float* dy, const float* y, const float* log_sums,
              const float* keys, float* dq, float* dk, float* dv, float* scratch) {
  float *scores = scratch, *ds = scratch + h.block * h.width;
  const float* values = keys + h.n.size * h.width;
  for (int64_t first = 0; first < h.n.queries; first += h.block) {
    const int64_t rows = std::min(h.block, h.n.queries - first);
    const int64_t most = visible(h, first + rows - 1);
    const float *q = h.q + first * h.q_stride, *g = dy + first * h.y_stride;
    multiply({q, h.q_stride, 1, keys, h.width, scores, h.width, rows, most, h.n.size, false});
    multiply({g, h.y_stride, 1, values, h.width, ds, h.width, rows, most, h.n.value_size, false});
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = first + r, seen = visible(h, i);
      const float dot = flow(dy + i * h.y_stride, y + i * h.y_stride, h.n.value_size);
      float *s = scores + r * h.width, *t = ds + r * h.width;
      weights(h, mask_row(h, i), log_sums[i], dot, s, t, seen);
      std::fill(s + seen, s + most, 0.0f);
      std::fill(t + seen, t + most, 0.0f);
    }
    multiply({ds, h.width, 1, h.k, h.k_stride, dq + first * h.q_stride, h.q_stride, rows, h.n.size,
              most, false});
    multiply({ds, 1, h.width, q, h.q_stride, dk, h.k_stride, most, h.n.size, rows, true});
    multiply({scores, 1, h.width, g, h.y_stride, dv, h.v_stride, most, h.n.value_size, rows, true});
  }
}

}  // namespace

AttentionLoops attention_loops() { return {forward, pack, backward}; }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(attention_loops);

namespace {

/// A node's heads, and how its scratch is laid out.
struct AttentionPlan {
  AttentionDims n;
  HeadStrides q, k, v, y;
  AttentionHead head;
  bool packed, masked;
  std::array<int64_t, 4> mask{};  // strides
  int64_t parts;                  // threads: each has a scratch
  AttentionLoops loops;

  /// The head with its operands, given the addresses of q, k, v (or what is packed) and the mask.
  AttentionHead at(const void* const* operands, int64_t b, int64_t h) const {
    AttentionHead result = head;
    const auto address = [&](size_t i) { return static_cast<const float*>(operands[i]); };
    const int64_t kv = h / (n.heads / n.kv_heads), part = n.heads * n.size;
    result.q = address(0) + b * q.batch + h * q.head;
    result.k = (packed ? address(0) + part : address(1)) + b * k.batch + kv * k.head;
    result.v = (packed ? address(0) + 2 * part : address(2)) + b * v.batch + kv * v.head;
    return result;
  }
  const float* mask_at(const float* m, int64_t b, int64_t h) const {
    return masked ? m + b * mask[0] + h * mask[1] : nullptr;
  }
};

AttentionPlan make_plan(const NodeView& node, size_t first, size_t mask) {
  const auto& attrs = node.attr<AttentionAttrs>();
  const AttentionDims n(attrs, node.inputs.subspan(first));
  AttentionPlan p{n,
                  n.q_strides(attrs),
                  n.k_strides(attrs),
                  n.v_strides(attrs),
                  n.y_strides(attrs),
                  {n, attrs.causal, static_cast<float>(attrs.scale), 0, 0, 0, 0, 0, 0, nullptr, 0,
                   0, nullptr, nullptr, nullptr},
                  attrs.packed,
                  node.inputs.size() > mask,
                  {},
                  cpu_threads(),
                  HWY_DYNAMIC_DISPATCH(attention_loops)()};
  AttentionHead& h = p.head;
  h.q_stride = p.q.token;
  h.k_stride = p.k.token;
  h.v_stride = p.v.token;
  h.y_stride = p.y.token;
  h.block = std::min<int64_t>(n.keys <= 256 ? 24 : 48, n.queries);
  // Rows of scores start on different sets of the cache.
  h.width = (n.keys + 15) / 16 * 16 + 16;
  if (p.masked) {
    const auto strides =
        broadcast_strides(node.inputs[mask].shape, Shape{n.batch, n.heads, n.queries, n.keys});
    std::copy(strides.begin(), strides.end(), p.mask.begin());
    h.mask_row = p.mask[2];
    h.mask_column = p.mask[3];
  }
  return p;
}

Support takes_attention(const NodeView& node) {
  Support s = all_float(node);
  for (const TensorType& t : node.inputs) {
    if (s.ok && t.size() == 0) s = Support::no("takes no empty operand");
  }
  return s;
}

size_t floats(int64_t count) { return sizeof(float) * static_cast<size_t>(count); }

std::unique_ptr<Kernel> plan_attention(const NodeView& node, Scratch& scratch) {
  const size_t operands = node.attr<AttentionAttrs>().packed ? 1 : 3;
  const AttentionPlan p = make_plan(node, 0, operands);
  const int64_t size = (p.n.size + p.head.block) * p.head.width, heads = p.n.batch * p.n.heads;
  const size_t offset = book(scratch, floats(size * p.parts));
  // Few heads are cut into runs of blocks.
  const int64_t blocks = (p.n.queries + p.head.block - 1) / p.head.block;
  const int64_t cuts = std::clamp<int64_t>((2 * p.parts + heads - 1) / heads, 1, blocks);
  return make_kernel([=](const KernelArgs& args) {
    const int64_t items = heads * cuts;
    parallel_ranges(p.parts, 1, [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; ++part) {
        float* memory = scratch_at<float>(args, offset) + part * size;
        for (int64_t i = items * part / p.parts; i < items * (part + 1) / p.parts; ++i) {
          const int64_t bh = i / cuts, cut = i % cuts, b = bh / p.n.heads, h = bh % p.n.heads;
          AttentionHead head = p.at(args.in, b, h);
          if (p.masked) head.mask = p.mask_at(args.input<float>(operands), b, h);
          const int64_t begin = blocks * cut / cuts * head.block;
          const int64_t end = std::min(blocks * (cut + 1) / cuts * head.block, p.n.queries);
          p.loops.forward(head, begin, end, args.output<float>(0) + b * p.y.batch + h * p.y.head,
                          args.output<float>(1) + bh * p.n.queries, memory);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> plan_attention_grad(const NodeView& node, Scratch& scratch) {
  const size_t operands = node.attr<AttentionAttrs>().packed ? 1 : 3;
  const AttentionPlan p = make_plan(node, 1, operands + 3);
  const int64_t keys = (p.n.size + p.n.value_size) * p.head.width;
  const int64_t size = keys + 2 * p.head.block * p.head.width;
  const size_t offset = book(scratch, floats(size * p.parts));
  return make_kernel([=](const KernelArgs& args) {
    const int64_t items = p.n.batch * p.n.kv_heads, group = p.n.heads / p.n.kv_heads;
    const float *dy = args.input<float>(0), *y = args.input<float>(operands + 1),
                *log_sums = args.input<float>(operands + 2),
                *mask = p.masked ? args.input<float>(operands + 3) : nullptr;
    const int64_t section = p.n.heads * p.n.size;
    float* dq = args.output<float>(0);
    float* dk = p.packed ? dq + section : args.output<float>(1);
    float* dv = p.packed ? dq + 2 * section : args.output<float>(2);
    const auto clear = [&](float* x, int64_t stride, int64_t row) {
      for (int64_t t = 0; t < p.n.keys; ++t) std::fill_n(x + t * stride, row, 0.0f);
    };
    parallel_ranges(p.parts, 1, [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; ++part) {
        float* memory = scratch_at<float>(args, offset) + part * size;
        for (int64_t i = items * part / p.parts; i < items * (part + 1) / p.parts; ++i) {
          const int64_t b = i / p.n.kv_heads, kv = i % p.n.kv_heads;
          float* head_dk = dk + b * p.k.batch + kv * p.k.head;
          float* head_dv = dv + b * p.v.batch + kv * p.v.head;
          clear(head_dk, p.k.token, p.n.size);
          clear(head_dv, p.v.token, p.n.value_size);
          for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
            AttentionHead head = p.at(args.in + 1, b, h);
            head.mask = p.mask_at(mask, b, h);
            if (h == kv * group) p.loops.pack(head, memory);
            const int64_t at = b * p.y.batch + h * p.y.head;
            p.loops.backward(head, dy + at, y + at, log_sums + (b * p.n.heads + h) * p.n.queries,
                             memory, dq + b * p.q.batch + h * p.q.head, head_dk, head_dv,
                             memory + keys);
          }
        }
      }
    });
  });
}

constexpr KernelRow kAttentionRows[] = {
    {Op::kAttention, "cpu.attention", takes_attention, plan_attention},
    {Op::kAttentionGrad, "cpu.attention", takes_attention, plan_attention_grad},
};

}  // namespace

std::span<const KernelRow> attention_rows() { return kAttentionRows; }

}  // namespace trainrt
#endif
