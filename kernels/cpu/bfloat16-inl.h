// Vectors of floats from and to memory that holds float32 or bfloat16. Included once per target.
#if defined(TRAINRT_KERNELS_CPU_BFLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRAINRT_KERNELS_CPU_BFLOAT16_INL_H_
#undef TRAINRT_KERNELS_CPU_BFLOAT16_INL_H_
#else
#define TRAINRT_KERNELS_CPU_BFLOAT16_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// To nearest even; NaN stays NaN.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> narrow(DF, hn::Vec<DF> x) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto near = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  return hn::TruncateTo(hn::Rebind<uint16_t, DF>(),
                        hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, near)));
}

template <class DF>
HWY_INLINE hn::Vec<DF> widen(DF d, hn::Vec<hn::Rebind<uint16_t, DF>> x) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<DF>(), x)));
}

template <class DF>
HWY_INLINE hn::Vec<DF> load(DF d, const float* x) {
  return hn::LoadU(d, x);
}
template <class DF>
HWY_INLINE hn::Vec<DF> load(DF d, const uint16_t* x) {
  return widen(d, hn::LoadU(hn::Rebind<uint16_t, DF>(), x));
}

template <class DF>
HWY_INLINE void store(DF d, hn::Vec<DF> v, float* to) {
  hn::StoreU(v, d, to);
}
template <class DF>
HWY_INLINE void store(DF d, hn::Vec<DF> v, uint16_t* to) {
  hn::StoreU(narrow(d, v), hn::Rebind<uint16_t, DF>(), to);
}

/// Past the cache: `to` is aligned to the vector's size there.
template <class DF>
HWY_INLINE void stream(DF d, hn::Vec<DF> v, float* to) {
  hn::Stream(v, d, to);
}
template <class DF>
HWY_INLINE void stream(DF d, hn::Vec<DF> v, uint16_t* to) {
  hn::Stream(narrow(d, v), hn::Rebind<uint16_t, DF>(), to);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
