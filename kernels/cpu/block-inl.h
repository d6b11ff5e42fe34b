// Vectors over blocks of 16 channels, and BatchNorm's formulas on them. Included once per target.
#if defined(TRAINRT_KERNELS_CPU_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRAINRT_KERNELS_CPU_BLOCK_INL_H_
#undef TRAINRT_KERNELS_CPU_BLOCK_INL_H_
#else
#define TRAINRT_KERNELS_CPU_BLOCK_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/bfloat16-inl.h"
#include "kernels/cpu/block_ops.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, kBlockChannels>;
using V = hn::Vec<D>;

constexpr int64_t kStride = kBlockChannels;

/// f(offset of the channels) once per vector of a block: vectors narrower than a block sweep a
/// chunk, which the cache holds, several times.
template <typename F>
HWY_INLINE void for_each_part(const F& f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t c = 0; c < kBlockChannels; c += lanes) f(c);
}

/// Stores 16 channels past the cache, if wanted and if a vector has them all. Somebody has to call
/// hwy::FlushStream() before other threads read.
template <bool kPastCache, typename T>
HWY_INLINE void put(V v, T* to) {
  if constexpr (kPastCache && HWY_MAX_LANES_D(D) == kBlockChannels) {
    stream(D(), v, to);
  } else {
    store(D(), v, to);
  }
}

HWY_INLINE V activated(D d, const BlockNorm& n, V v) {
  if (n.activation == Activation::kRelu) return hn::IfThenZeroElse(hn::Le(v, hn::Zero(d)), v);
  if (n.activation != Activation::kClip) return v;
  const V lo = hn::Set(d, n.lo), hi = hn::Set(d, n.hi);
  v = hn::IfThenElse(hn::Lt(v, lo), lo, v);
  return hn::IfThenElse(hn::Gt(v, hi), hi, v);
}

/// dy where the activation of v (or v itself, kRelu) lets it pass.
template <Activation A>
HWY_INLINE V passed(D d, const BlockNorm& n, V v, V dy) {
  if constexpr (A == Activation::kRelu) return hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), dy);
  if constexpr (A == Activation::kClip) {
    return hn::IfThenElseZero(hn::And(hn::Ge(v, hn::Set(d, n.lo)), hn::Le(v, hn::Set(d, n.hi))),
                              dy);
  }
  return dy;
}

/// Channels [c, c + lanes) of a BlockNorm.
struct Part {
  V mean, a, b;
  Part(D d, const BlockNorm& n, int64_t c)
      : mean(hn::LoadU(d, n.mean + c)), a(hn::LoadU(d, n.a + c)), b(hn::LoadU(d, n.b + c)) {}
  HWY_INLINE V apply(V x) const { return hn::MulAdd(a, hn::Sub(x, mean), b); }
};

/// Channels [c, c + lanes) of a BlockNormGrad.
struct GradPart {
  V dy, x, constant;
  GradPart(D d, const BlockNormGrad& k, int64_t c)
      : dy(hn::LoadU(d, k.dy + c)),
        x(hn::LoadU(d, k.x + c)),
        constant(hn::LoadU(d, k.constant + c)) {}
  /// dx from g and x - mean
  HWY_INLINE V apply(V g, V e) const { return hn::MulAdd(dy, g, hn::MulAdd(x, e, constant)); }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
