#include "kernels/cpu/bfloat16.h"

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bfloat16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using DH = hn::Rebind<uint16_t, DF>;
using VF = hn::Vec<DF>;

HWY_INLINE hn::Vec<DH> round(VF x) {
  const DU du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto near = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  return hn::TruncateTo(DH(), hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, near)));
}

HWY_INLINE VF widen(hn::Vec<DH> x) {
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), x)));
}

}  // namespace

void narrow_row(const float* x, uint16_t* y, int64_t count) {
  const DF d;
  const DH half;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(round(hn::LoadU(d, x + i)), half, y + i);
  if (i < n) hn::StoreN(round(hn::LoadN(d, x + i, n - i)), half, y + i, n - i);
}

void widen_row(const uint16_t* x, float* y, int64_t count) {
  const DF d;
  const DH half;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(widen(hn::LoadU(half, x + i)), d, y + i);
  if (i < n) hn::StoreN(widen(hn::LoadN(half, x + i, n - i)), d, y + i, n - i);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(narrow_row);
HWY_EXPORT(widen_row);

void to_bf16(const float* x, uint16_t* y, int64_t n) {
  static const auto row = HWY_DYNAMIC_POINTER(narrow_row);
  row(x, y, n);
}

void from_bf16(const uint16_t* x, float* y, int64_t n) {
  static const auto row = HWY_DYNAMIC_POINTER(widen_row);
  row(x, y, n);
}

}  // namespace trainrt
#endif
