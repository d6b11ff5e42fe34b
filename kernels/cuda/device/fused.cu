#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/fused.h"

namespace trainrt::cuda {
namespace {

constexpr i64 kManySums = 4096;  // from here on a thread each, else a warp

template <typename Sum, typename T>
__device__ void add_parts(const AddPartsArguments& args) {
  const Sum* values = static_cast<const Sum*>(args.values);
  T* out = static_cast<T*>(args.out);
  if (args.size >= kManySums) {
    for (i64 i = global_index(); i < args.size; i += global_size()) {
      Sum sum = 0;
      for (i64 p = 0; p < args.parts; ++p) sum += values[p * args.size + i];
      out[i] = Stored<T>::from(sum);
    }
    return;
  }
  const i64 warps = global_size() / 32;
  for (i64 i = global_index() / 32; i < args.size; i += warps) {
    Sum sum = 0;
    for (i64 p = threadIdx.x % 32; p < args.parts; p += 32) sum += values[p * args.size + i];
    sum = group_sum<32>(sum);
    if (threadIdx.x % 32 == 0) out[i] = Stored<T>::from(sum);
  }
}

}  // namespace

#define ADD_PARTS(Sum, T, suffix) \
  TRAINRT_KERNEL(add_parts_##suffix, AddPartsArguments) { add_parts<Sum, T>(args); }

ADD_PARTS(float, float, f32)
ADD_PARTS(float, bf16, bf16)
ADD_PARTS(double, double, f64)
ADD_PARTS(u64, u8, 1)
ADD_PARTS(u64, u16, 2)
ADD_PARTS(u64, u32, 4)
ADD_PARTS(u64, u64, 8)

}  // namespace trainrt::cuda
