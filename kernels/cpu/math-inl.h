// Float32 functions on vectors, with IEEE results outside the range where Highway's hold: lanes
// out there go through the scalar library. Included once per target.
#if defined(TRAINRT_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRAINRT_KERNELS_CPU_MATH_INL_H_
#undef TRAINRT_KERNELS_CPU_MATH_INL_H_
#else
#define TRAINRT_KERNELS_CPU_MATH_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using MF = hn::Mask<DF>;

/// y, with fn(x) in the lanes of `special`.
HWY_INLINE VF patch(DF d, VF x, VF y, MF special, float (*fn)(float)) {
  if (HWY_LIKELY(hn::AllFalse(d, special))) return y;
  HWY_ALIGN float xs[HWY_MAX_LANES_D(DF)], ys[HWY_MAX_LANES_D(DF)], ms[HWY_MAX_LANES_D(DF)];
  hn::Store(x, d, xs);
  hn::Store(y, d, ys);
  hn::Store(hn::IfThenElseZero(special, hn::Set(d, 1.0f)), d, ms);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (ms[i] != 0.0f) ys[i] = fn(xs[i]);
  }
  return hn::Load(d, ys);
}

/// Lanes whose magnitude is above `limit`, and NaN.
HWY_INLINE MF beyond(DF d, VF x, float limit) {
  return hn::Not(hn::Le(hn::Abs(x), hn::Set(d, limit)));
}

HWY_INLINE VF vexp(DF d, VF x) {
  const VF y = hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE VF vlog(DF d, VF x) {
  const VF tiny = hn::Set(d, std::numeric_limits<float>::min());
  const VF huge = hn::Set(d, std::numeric_limits<float>::max());
  const MF special = hn::Not(hn::And(hn::Ge(x, tiny), hn::Le(x, huge)));
  return patch(d, x, hn::Log(d, x), special, [](float v) { return std::log(v); });
}

HWY_INLINE VF vsin(DF d, VF x) {
  return patch(d, x, hn::Sin(d, x), beyond(d, x, 30000.0f), [](float v) { return std::sin(v); });
}

HWY_INLINE VF vcos(DF d, VF x) {
  return patch(d, x, hn::Cos(d, x), beyond(d, x, 30000.0f), [](float v) { return std::cos(v); });
}

HWY_INLINE VF vtan(DF d, VF x) {
  return patch(d, x, hn::Div(hn::Sin(d, x), hn::Cos(d, x)), beyond(d, x, 1.0f),
               [](float v) { return std::tan(v); });
}

HWY_INLINE VF vasin(DF d, VF x) {
  return patch(d, x, hn::Asin(d, x), beyond(d, x, 0.999f), [](float v) { return std::asin(v); });
}

HWY_INLINE VF vacos(DF d, VF x) {
  return patch(d, x, hn::Acos(d, x), beyond(d, x, 0.999f), [](float v) { return std::acos(v); });
}

HWY_INLINE VF vatan(DF d, VF x) {
  return patch(d, x, hn::Atan(d, x), beyond(d, x, 1e30f), [](float v) { return std::atan(v); });
}

HWY_INLINE VF vsinh(DF d, VF x) {
  return patch(d, x, hn::Sinh(d, x), beyond(d, x, 80.0f), [](float v) { return std::sinh(v); });
}

HWY_INLINE VF vcosh(DF d, VF x) {
  const VF e = hn::Exp(d, hn::Min(hn::Abs(x), hn::Set(d, 80.0f)));
  const VF half = hn::Set(d, 0.5f);
  return patch(d, x, hn::MulAdd(half, e, hn::Div(half, e)), beyond(d, x, 80.0f),
               [](float v) { return std::cosh(v); });
}

HWY_INLINE VF vasinh(DF d, VF x) {
  return patch(d, x, hn::Asinh(d, x), beyond(d, x, 1e4f), [](float v) { return std::asinh(v); });
}

HWY_INLINE VF vacosh(DF d, VF x) {
  const MF safe = hn::And(hn::Ge(x, hn::Set(d, 1.01f)), hn::Le(x, hn::Set(d, 1e4f)));
  return patch(d, x, hn::Acosh(d, x), hn::Not(safe), [](float v) { return std::acosh(v); });
}

HWY_INLINE VF vatanh(DF d, VF x) {
  return patch(d, x, hn::Atanh(d, x), beyond(d, x, 0.99f), [](float v) { return std::atanh(v); });
}

HWY_INLINE VF vtanh(DF d, VF x) {
  const VF bound = hn::Set(d, 10.0f);  // tanh is 1 in float32 from 9.02 on
  const VF y = hn::Tanh(d, hn::Max(hn::Min(x, bound), hn::Neg(bound)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE VF vsigmoid(DF d, VF x) {
  const VF one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, vexp(d, hn::Neg(x))));
}

/// log(1 + e^x) = max(x, 0) + log1p(e^-|x|)
HWY_INLINE VF vsoftplus(DF d, VF x) {
  const VF tail = hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x))));
  const VF y = hn::Add(hn::Max(x, hn::Zero(d)), tail);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// x P(x^2) / Q(x^2), a minimax fit on [0, 3.95] with a relative error of 2e-8 (4e-7 in float32).
HWY_INLINE VF verf(DF d, VF x) {
  const VF one = hn::Set(d, 1.0f);
  const VF a = hn::Min(hn::Abs(x), hn::Set(d, 3.95f));
  const VF s = hn::Mul(a, a);
  VF p = hn::Set(d, 2.025955508e-06f);
  p = hn::MulAdd(p, s, hn::Set(d, 2.846804999e-04f));
  p = hn::MulAdd(p, s, hn::Set(d, 3.807863609e-03f));
  p = hn::MulAdd(p, s, hn::Set(d, 5.287453481e-02f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.915434354e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.128379144e+00f));
  VF q = hn::Set(d, 3.783191145e-05f);
  q = hn::MulAdd(q, s, hn::Set(d, 1.170652305e-03f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.505449726e-02f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.145567778e-01f));
  q = hn::MulAdd(q, s, hn::Set(d, 5.030836281e-01f));
  q = hn::MulAdd(q, s, one);
  const VF y = hn::CopySign(hn::Min(hn::Div(hn::Mul(a, p), q), one), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// a where a > b or a is NaN, else b.
HWY_INLINE VF vmax(VF a, VF b) { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); }
HWY_INLINE VF vmin(VF a, VF b) { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); }

/// Loads `n` lanes, the others are 0.
HWY_INLINE VF load_tail(DF d, const float* p, size_t n) { return hn::LoadN(d, p, n); }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
