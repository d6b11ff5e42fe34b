#include "kernels/cpu/bfloat16.h"

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bfloat16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/bfloat16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

using DF = hn::ScalableTag<float>;

// Of loads and stores of part of a vector.
HWY_INLINE hn::Vec<DF> load_n(DF d, const float* x, size_t n) { return hn::LoadN(d, x, n); }
HWY_INLINE hn::Vec<DF> load_n(DF d, const uint16_t* x, size_t n) {
  return widen(d, hn::LoadN(hn::Rebind<uint16_t, DF>(), x, n));
}
HWY_INLINE void store_n(DF d, hn::Vec<DF> v, float* y, size_t n) { hn::StoreN(v, d, y, n); }
HWY_INLINE void store_n(DF d, hn::Vec<DF> v, uint16_t* y, size_t n) {
  hn::StoreN(narrow(d, v), hn::Rebind<uint16_t, DF>(), y, n);
}

template <typename From, typename To>
void convert(const From* x, To* y, int64_t count) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(d, load(d, x + i), y + i);
  if (i < n) store_n(d, load_n(d, x + i, n - i), y + i, n - i);
}

}  // namespace

void narrow_row(const float* x, uint16_t* y, int64_t n) { convert(x, y, n); }
void widen_row(const uint16_t* x, float* y, int64_t n) { convert(x, y, n); }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

Support blocks_of_one_type(const NodeView& node) {
  const bool bf16 = is_bf16(node.inputs[0]);
  for (const auto list : {node.inputs, node.outputs}) {
    for (const TensorType& t : list) {
      const bool wanted = bf16 && t.layout != Layout::kPlain;
      if (is_bf16(t) != wanted) return Support::no("takes activations of one type");
      if (!wanted && t.dtype != DType::kFloat32) {
        return Support::no("takes float32, not " + std::string(dtype_name(t.dtype)));
      }
    }
  }
  return Support::yes();
}

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
