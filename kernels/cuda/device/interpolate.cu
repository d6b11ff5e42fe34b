#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/interpolate.h"

namespace trainrt::cuda {
namespace {

template <typename T>
__device__ void interpolate(const InterpolateArguments& args) {
  const i64 count = args.outer * args.to * args.inner;
  for (i64 i = global_index(); i < count; i += global_size()) {
    const i64 column = i % args.inner, row = i / args.inner;
    const i64 cell = row % args.to, base = row / args.to * args.from * args.inner + column;
    T sum = 0;
    for (i64 k = args.start[cell]; k < args.start[cell + 1]; ++k) {
      sum += static_cast<T>(args.weight[k]) *
             load<T>(args.x, args.half_x, base + args.index[k] * args.inner);
    }
    store<T>(args.out, args.half_out, i, sum);
  }
}

}  // namespace

TRAINRT_KERNEL(interpolate_f32, InterpolateArguments) { interpolate<float>(args); }
TRAINRT_KERNEL(interpolate_f64, InterpolateArguments) { interpolate<double>(args); }

}  // namespace trainrt::cuda
