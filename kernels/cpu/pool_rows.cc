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

bool larger(float x, float best) { return x > best || (x != x && best == best); }

template <class V>
HWY_INLINE auto larger_lanes(V x, V best) {
  return hn::Or(hn::Gt(x, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(x)));
}

/// vector(tag, j, inputs) for whole vectors of outputs from j on; where that stops. Stride 2 loads
/// pairs and takes the even ones, or, where `shift` is 1, pairs that start one earlier.
template <class D, typename Vector>
HWY_INLINE int64_t walk_vectors(D d, const float* x, int64_t stride, int64_t offset, int64_t shift,
                                int64_t j, int64_t end, const Vector& vector) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (stride == 1) {
    for (; j + lanes <= end; j += lanes) vector(d, j, hn::LoadU(d, x + j + offset));
  } else {
    for (; j + lanes <= end; j += lanes) {
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, x + 2 * j + offset - shift, even, odd);
      vector(d, j, shift ? odd : even);
    }
  }
  return j;
}

/// As walk_vectors, with full vectors, then with four lanes (maps are often narrow), then
/// scalar(j, input) for the rest.
template <typename Vector, typename Scalar>
HWY_INLINE void walk(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
                     int64_t end, const Vector& vector, const Scalar& scalar) {
  int64_t j = begin;
  if (stride <= 2) {
    // The last pair must not reach behind the row.
    const int64_t shift = stride == 2 && 2 * end + offset > size ? 1 : 0;
    if (shift && j < end && 2 * j + offset == 0) {
      scalar(j, x[0]);
      ++j;
    }
    j = walk_vectors(hn::ScalableTag<float>(), x, stride, offset, shift, j, end, vector);
    j = walk_vectors(hn::CappedTag<float, 4>(), x, stride, offset, shift, j, end, vector);
  }
  for (; j < end; ++j) scalar(j, x[j * stride + offset]);
}

void max_row(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
             int64_t end, float* best) {
  walk(
      x, size, stride, offset, begin, end,
      [&](auto d, int64_t j, auto v) HWY_ATTR {
        const auto old = hn::LoadU(d, best + j);
        hn::StoreU(hn::IfThenElse(larger_lanes(v, old), v, old), d, best + j);
      },
      [&](int64_t j, float v) HWY_ATTR {
        if (larger(v, best[j])) best[j] = v;
      });
}

void arg_max_row(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
                 int64_t end, int32_t base, float* best, int32_t* at) {
  const int32_t first = base + static_cast<int32_t>(offset), step = static_cast<int32_t>(stride);
  walk(
      x, size, stride, offset, begin, end,
      [&](auto d, int64_t j, auto v) HWY_ATTR {
        const hn::RebindToSigned<decltype(d)> di;
        const auto old = hn::LoadU(d, best + j);
        const auto where = hn::LoadU(di, at + j);
        const auto empty = hn::RebindMask(d, hn::Lt(where, hn::Zero(di)));
        const auto take = hn::Or(larger_lanes(v, old), empty);
        hn::StoreU(hn::IfThenElse(take, v, old), d, best + j);
        const auto ramp = hn::Mul(hn::Iota(di, 0), hn::Set(di, step));
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
  walk(
      x, size, stride, offset, begin, end,
      [&](auto d, int64_t j, auto v)
          HWY_ATTR { hn::StoreU(hn::Add(v, hn::LoadU(d, sum + j)), d, sum + j); },
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
