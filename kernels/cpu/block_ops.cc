#include "kernels/cpu/block_ops.h"

#include <algorithm>

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/block_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {
using DI = hn::RebindToSigned<D>;
using M = hn::Mask<D>;

// Pixels that are summed in float32 before double takes over; 16 KiB of one operand.
constexpr int64_t kChunk = 256;

/// f(begin, pixels) over chunks.
template <typename F>
HWY_INLINE void for_each_chunk(int64_t pixels, const F& f) {
  for (int64_t p = 0; p < pixels; p += kChunk) f(p, std::min(kChunk, pixels - p));
}

/// Adds x - shift and its square over `pixels` to `sum` and `squares`, with four chains each.
template <typename T>
HWY_INLINE void add_deviations(const T* x, int64_t pixels, V shift, double* sum, double* squares) {
  const D d;
  V s[4], q[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) s[k] = q[k] = hn::Zero(d);
  const auto step = [&](int64_t p, int k) HWY_ATTR {
    const V e = hn::Sub(load(d, x + p * kStride), shift);
    s[k] = hn::Add(s[k], e);
    q[k] = hn::MulAdd(e, e, q[k]);
  };
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) step(p + k, k);
  }
  for (; p < pixels; ++p) step(p, 0);
  HWY_ALIGN float total[kBlockChannels], total_squares[kBlockChannels];
  hn::Store(hn::Add(hn::Add(s[0], s[1]), hn::Add(s[2], s[3])), d, total);
  hn::Store(hn::Add(hn::Add(q[0], q[1]), hn::Add(q[2], q[3])), d, total_squares);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < lanes; ++i) {
    sum[i] += total[i];
    squares[i] += total_squares[i];
  }
}

// One sweep, of deviations from the mean of the first pixels. That mean is at most
// sqrt(pixels / kLead) standard deviations off, so that little is lost when its part is taken out.
template <typename T>
void moments(const T* x, int64_t pixels, BlockMoments& m) {
  constexpr int64_t kLead = 64;
  const D d;
  const int64_t lead = std::min(pixels, kLead);
  const double count = static_cast<double>(pixels), total = m.count + count;
  HWY_ALIGN float shift[kBlockChannels];
  double sum[kBlockChannels] = {}, squares[kBlockChannels] = {}, unused[kBlockChannels] = {};
  for_each_part([&](int64_t c)
                    HWY_ATTR { add_deviations(x + c, lead, hn::Zero(d), sum + c, unused + c); });
  for (int64_t i = 0; i < kBlockChannels; ++i) {
    shift[i] = static_cast<float>(sum[i] / static_cast<double>(lead));
    sum[i] = 0;
  }
  for_each_chunk(pixels, [&](int64_t begin, int64_t n) HWY_ATTR {
    for_each_part([&](int64_t c) HWY_ATTR {
      add_deviations(x + begin * kStride + c, n, hn::Load(d, shift + c), sum + c, squares + c);
    });
  });
  for (int64_t i = 0; i < kBlockChannels; ++i) {
    const double mean = sum[i] / count, delta = shift[i] + mean - m.mean[i];
    m.squares[i] += squares[i] - mean * sum[i] + delta * delta * m.count * count / total;
    m.mean[i] += delta * count / total;
  }
  m.count = total;
}

template <Activation A, bool kResidual, bool kPastCache, typename T>
void normalize_as(const BlockNorm& n, const T* x, const T* residual, T* y, int64_t pixels) {
  const D d;
  BlockNorm fixed = n;
  fixed.activation = A;
  for_each_chunk(pixels, [&](int64_t begin, int64_t count) HWY_ATTR {
    for_each_part([&](int64_t c) HWY_ATTR {
      const Part part(d, n, c);
      for (int64_t p = begin; p < begin + count; ++p) {
        const int64_t i = p * kStride + c;
        V v = part.apply(load(d, x + i));
        if constexpr (kResidual) v = hn::Add(v, load(d, residual + i));
        put<kPastCache>(activated(d, fixed, v), y + i);
      }
    });
  });
  if constexpr (kPastCache) hwy::FlushStream();
}

template <Activation A, typename T>
void normalize_with(const BlockNorm& n, const T* x, const T* residual, bool stream, T* y,
                    int64_t pixels) {
  if (residual != nullptr) {
    stream ? normalize_as<A, true, true>(n, x, residual, y, pixels)
           : normalize_as<A, true, false>(n, x, residual, y, pixels);
  } else {
    stream ? normalize_as<A, false, true>(n, x, residual, y, pixels)
           : normalize_as<A, false, false>(n, x, residual, y, pixels);
  }
}

template <typename T>
void normalize(const BlockNorm& n, const T* x, const T* residual, bool stream, T* y,
               int64_t pixels) {
  switch (n.activation) {
    case Activation::kNone:
      return normalize_with<Activation::kNone>(n, x, residual, stream, y, pixels);
    case Activation::kRelu:
      return normalize_with<Activation::kRelu>(n, x, residual, stream, y, pixels);
    case Activation::kClip:
      return normalize_with<Activation::kClip>(n, x, residual, stream, y, pixels);
  }
}

template <Activation A, bool FromY, typename G, typename T>
void grad_sums_as(const BlockNorm& n, const G* dy, const T* x, const T* y, T* g, int64_t pixels,
                  BlockSums& sums) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_chunk(pixels, [&](int64_t begin, int64_t count) HWY_ATTR {
    for_each_part([&](int64_t c) HWY_ATTR {
      const Part part(d, n, c);
      V s0 = hn::Zero(d), s1 = s0, t0 = s0, t1 = s0;
      const auto step = [&](int64_t p, V& s, V& t) HWY_ATTR {
        const int64_t i = p * kStride + c;
        const V e = hn::Sub(load(d, x + i), part.mean);
        V v = load(d, dy + i);
        if constexpr (A != Activation::kNone) {
          v = passed<A>(d, n, FromY ? load(d, y + i) : hn::MulAdd(part.a, e, part.b), v);
        }
        if (g != nullptr) store(d, v, g + i);
        s = hn::Add(s, v);
        t = hn::MulAdd(v, e, t);
      };
      int64_t p = begin;
      for (; p + 2 <= begin + count; p += 2) {
        step(p, s0, t0);
        step(p + 1, s1, t1);
      }
      if (p < begin + count) step(p, s0, t0);
      HWY_ALIGN float s[kBlockChannels], t[kBlockChannels];
      hn::Store(hn::Add(s0, s1), d, s);
      hn::Store(hn::Add(t0, t1), d, t);
      for (int64_t i = 0; i < lanes; ++i) {
        sums.g[c + i] += s[i];
        sums.gx[c + i] += t[i];
      }
    });
  });
}

template <typename G, typename T>
void grad_sums(const BlockNorm& n, const G* dy, const T* x, const T* y, T* g, int64_t pixels,
               BlockSums& sums) {
  switch (n.activation) {
    case Activation::kNone:
      return grad_sums_as<Activation::kNone, false>(n, dy, x, y, g, pixels, sums);
    case Activation::kRelu:
      return y != nullptr ? grad_sums_as<Activation::kRelu, true>(n, dy, x, y, g, pixels, sums)
                          : grad_sums_as<Activation::kRelu, false>(n, dy, x, y, g, pixels, sums);
    case Activation::kClip:
      return grad_sums_as<Activation::kClip, false>(n, dy, x, y, g, pixels, sums);
  }
}

template <Activation A, bool kPastCache, typename G, typename T>
void grad_as(const BlockNorm& n, const BlockNormGrad& k, const G* dy, const T* x, T* dx,
             int64_t pixels) {
  const D d;
  for_each_chunk(pixels, [&](int64_t begin, int64_t count) HWY_ATTR {
    for_each_part([&](int64_t c) HWY_ATTR {
      const Part part(d, n, c);
      const GradPart factors(d, k, c);
      for (int64_t p = begin; p < begin + count; ++p) {
        const int64_t i = p * kStride + c;
        const V e = hn::Sub(load(d, x + i), part.mean);
        V v = load(d, dy + i);
        if constexpr (A != Activation::kNone) {
          v = passed<A>(d, n, hn::MulAdd(part.a, e, part.b), v);
        }
        put<kPastCache>(factors.apply(v, e), dx + i);
      }
    });
  });
}

template <Activation A, typename G, typename T>
void grad_with(const BlockNorm& n, const BlockNormGrad& k, const G* dy, const T* x, bool stream,
               T* dx, int64_t pixels) {
  stream ? grad_as<A, true>(n, k, dy, x, dx, pixels) : grad_as<A, false>(n, k, dy, x, dx, pixels);
}

template <typename G, typename T>
void grad(const BlockNorm& n, const BlockNormGrad& k, bool masked, const G* dy, const T* x,
          bool stream, T* dx, int64_t pixels) {
  switch (masked ? Activation::kNone : n.activation) {
    case Activation::kNone:
      return grad_with<Activation::kNone>(n, k, dy, x, stream, dx, pixels);
    case Activation::kRelu:
      return grad_with<Activation::kRelu>(n, k, dy, x, stream, dx, pixels);
    case Activation::kClip:
      return grad_with<Activation::kClip>(n, k, dy, x, stream, dx, pixels);
  }
}

template <typename T>
void row_grad_sums(const BlockNorm& n, const float* dy, const T* x, T* g, int64_t pixels,
                   BlockSums& sums) {
  grad_sums<float, T>(n, dy, x, nullptr, g, pixels, sums);
}

template <typename T>
void row_grad(const BlockNorm& n, const BlockNormGrad& k, const float* dy, const T* x, T* dx,
              int64_t pixels) {
  grad<float, T>(n, k, false, dy, x, true, dx, pixels);
}

/// Whether x beats the best so far: the first NaN stays.
HWY_INLINE M beats(V x, V best) {
  return hn::Or(hn::Gt(x, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(x)));
}

template <typename T>
void max(const T* x, int64_t stride, T* best, int64_t outputs) {
  const D d;
  for_each_part([&](int64_t c) HWY_ATTR {
    for (int64_t j = 0; j < outputs; ++j) {
      const V v = load(d, x + j * stride * kStride + c);
      const V old = load(d, best + j * kStride + c);
      store(d, hn::IfThenElse(beats(v, old), v, old), best + j * kStride + c);
    }
  });
}

template <typename T>
void arg_max(const T* x, int64_t stride, int32_t tap, float* best, int32_t* at, int64_t outputs) {
  const D d;
  const DI di;
  for_each_part([&](int64_t c) HWY_ATTR {
    for (int64_t j = 0; j < outputs; ++j) {
      const int64_t o = j * kStride + c;
      const V v = load(d, x + j * stride * kStride + c), old = hn::LoadU(d, best + o);
      const auto where = hn::LoadU(di, at + o);
      const M take = hn::Or(beats(v, old), hn::RebindMask(d, hn::Lt(where, hn::Zero(di))));
      hn::StoreU(hn::IfThenElse(take, v, old), d, best + o);
      hn::StoreU(hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, tap), where), di, at + o);
    }
  });
}

template <typename T>
void scatter(const T* dy, const int32_t* at, int32_t tap, int64_t stride, float* dx,
             int64_t outputs) {
  const D d;
  const DI di;
  for_each_part([&](int64_t c) HWY_ATTR {
    for (int64_t j = 0; j < outputs; ++j) {
      const int64_t o = j * kStride + c;
      const M here = hn::RebindMask(d, hn::Eq(hn::LoadU(di, at + o), hn::Set(di, tap)));
      float* to = dx + j * stride * kStride + c;
      const V v = hn::IfThenElseZero(here, load(d, dy + o));
      hn::StoreU(hn::Add(hn::LoadU(d, to), v), d, to);
    }
  });
}

template <typename T>
BlockOps<T> make_ops() {
  return {moments<T>,  normalize<T>, grad_sums<T, T>, grad<T, T>, row_grad_sums<T>,
          row_grad<T>, max<T>,       arg_max<T>,      scatter<T>};
}

}  // namespace

BlockOps<float> make_float_blocks() { return make_ops<float>(); }
BlockOps<uint16_t> make_bf16_blocks() { return make_ops<uint16_t>(); }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(make_float_blocks);
HWY_EXPORT(make_bf16_blocks);

template <>
const BlockOps<float>& block_ops<float>() {
  static const BlockOps<float> ops = HWY_DYNAMIC_DISPATCH(make_float_blocks)();
  return ops;
}

template <>
const BlockOps<uint16_t>& block_ops<uint16_t>() {
  static const BlockOps<uint16_t> ops = HWY_DYNAMIC_DISPATCH(make_bf16_blocks)();
  return ops;
}

}  // namespace trainrt
#endif
