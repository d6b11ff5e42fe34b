// The second stage of sums with few results.
#include "kernels/cuda/device/parts.h"
#include "kernels/cuda/device/team-inl.h"

namespace trainrt::cuda {
namespace {

template <typename T>
__device__ void sum_parts(const void* in, void* out, i64 column, int parts) {
  const T* from = static_cast<const T*>(in) + column * parts;
  T sum = 0;
  for (int p = Warp::rank(); p < parts; p += Warp::kSize) sum += from[p];
  sum = Warp::join<SumOf>(sum, T(0));
  if (Warp::rank() == 0) static_cast<T*>(out)[column] = sum;
}

template <typename T>
__device__ void sum_both(const SumPartsArguments& args) {
  for (i64 c = Warp::index(); c < args.columns; c += Warp::count()) {
    sum_parts<T>(args.in0, args.out0, c, args.parts);
    if (args.out1 != nullptr) sum_parts<T>(args.in1, args.out1, c, args.parts);
  }
}

}  // namespace

TRAINRT_KERNEL(sum_parts_f32, SumPartsArguments) { sum_both<float>(args); }
TRAINRT_KERNEL(sum_parts_f64, SumPartsArguments) { sum_both<double>(args); }

}  // namespace trainrt::cuda
