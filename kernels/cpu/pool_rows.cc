#include "kernels/cpu/pool_rows.h"

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pool_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;

bool larger(float x, float best) { return x > best || (x != x && best == best); }

HWY_INLINE hn::Mask<DF> larger(VF x, VF best) {
  return hn::Or(hn::Gt(x, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(x)));
}

/// vector(j, inputs) for whole vectors of outputs, scalar(j, input) for the others. Stride 2 loads
/// pairs; where the last pair would reach behind the row, pairs start one earlier.
template <typename Vector, typename Scalar>
HWY_INLINE void walk(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
                     int64_t end, const Vector& vector, const Scalar& scalar) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = begin;
  if (stride == 1) {
    for (; j + lanes <= end; j += lanes) vector(j, hn::LoadU(d, x + j + offset));
  } else if (stride == 2 && end - begin >= lanes) {
    if (2 * end + offset <= size) {
      for (; j + lanes <= end; j += lanes) {
        VF even, odd;
        hn::LoadInterleaved2(d, x + 2 * j + offset, even, odd);
        vector(j, even);
      }
    } else {
      if (2 * j + offset == 0) {
        scalar(j, x[0]);
        ++j;
      }
      for (; j + lanes <= end; j += lanes) {
        VF even, odd;
        hn::LoadInterleaved2(d, x + 2 * j + offset - 1, even, odd);
        vector(j, odd);
      }
    }
  }
  for (; j < end; ++j) scalar(j, x[j * stride + offset]);
}

void max_row(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
             int64_t end, float* best) {
  const DF d;
  walk(
      x, size, stride, offset, begin, end,
      [&](int64_t j, VF v) HWY_ATTR {
        const VF old = hn::LoadU(d, best + j);
        hn::StoreU(hn::IfThenElse(larger(v, old), v, old), d, best + j);
      },
      [&](int64_t j, float v) HWY_ATTR {
        if (larger(v, best[j])) best[j] = v;
      });
}

void arg_max_row(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
                 int64_t end, int32_t base, float* best, int32_t* at) {
  const DF d;
  const DI di;
  const int32_t first = base + static_cast<int32_t>(offset), step = static_cast<int32_t>(stride);
  const auto ramp = hn::Mul(hn::Iota(di, 0), hn::Set(di, step));
  walk(
      x, size, stride, offset, begin, end,
      [&](int64_t j, VF v) HWY_ATTR {
        const VF old = hn::LoadU(d, best + j);
        const auto where = hn::LoadU(di, at + j);
        const auto empty = hn::RebindMask(d, hn::Lt(where, hn::Zero(di)));
        const auto take = hn::Or(larger(v, old), empty);
        hn::StoreU(hn::IfThenElse(take, v, old), d, best + j);
        const auto here = hn::Add(ramp, hn::Set(di, first + static_cast<int32_t>(j) * step));
        hn::StoreU(hn::IfThenElse(hn::RebindMask(di, take), here, where), di, at + j);
      },
      [&](int64_t j, float v) HWY_ATTR {
        if (at[j] >= 0 && !larger(v, best[j])) return;
        best[j] = v;
        at[j] = first + static_cast<int32_t>(j) * step;
      });
}

void add_row(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
             int64_t end, float* sum) {
  const DF d;
  walk(
      x, size, stride, offset, begin, end,
      [&](int64_t j, VF v) HWY_ATTR { hn::StoreU(hn::Add(v, hn::LoadU(d, sum + j)), d, sum + j); },
      [&](int64_t j, float v) HWY_ATTR { sum[j] += v; });
}

}  // namespace

PoolRows make_pool_rows() { return {max_row, arg_max_row, add_row}; }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(make_pool_rows);

const PoolRows& pool_rows_of_target() {
  static const PoolRows rows = HWY_DYNAMIC_DISPATCH(make_pool_rows)();
  return rows;
}

}  // namespace trainrt
#endif
