#include "kernels/cuda/device/product.h"
#include "kernels/cuda/device/tiles.h"

namespace trainrt::cuda {
namespace {

template <typename Out, typename Bias>
__device__ void join(const JoinArguments& args) {
  using S = Sum<Out>;
  const S* sums = static_cast<const S*>(args.sums);
  const Bias* bias = static_cast<const Bias*>(args.bias);
  Out* out = static_cast<Out*>(args.out);
  for (i64 i = global_index(); i < args.size; i += global_size()) {
    S sum = 0;
    for (int part = 0; part < args.parts; ++part) sum += sums[part * args.size + i];
    if (bias != nullptr)
      sum += to_sum(bias[divide(divide(i, args.inner).quotient, args.columns).rest]);
    out[i] = finished<Out>(sum, args.relu);
  }
}

}  // namespace

#define JOIN(T, Bias, suffix) \
  TRAINRT_KERNEL(product_join_##suffix, JoinArguments) { join<T, Bias>(args); }

JOIN(float, float, f32)
JOIN(double, double, f64)
JOIN(bf16, float, bf16)
JOIN(signed char, signed char, i8)
JOIN(short, short, i16)
JOIN(int, int, i32)
JOIN(i64, i64, i64)
JOIN(unsigned char, unsigned char, u8)
JOIN(unsigned short, unsigned short, u16)
JOIN(u32, u32, u32)
JOIN(u64, u64, u64)

}  // namespace trainrt::cuda
