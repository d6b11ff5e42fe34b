#include "kernels/cuda/device/loss.h"

#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {
namespace {

__device__ i64 read_id(const LossArguments& args, i64 i) {
  switch (args.id_bytes) {
    case 1:
      return args.id_signed ? static_cast<const signed char*>(args.ids)[i]
                            : static_cast<const unsigned char*>(args.ids)[i];
    case 2:
      return args.id_signed ? static_cast<const short*>(args.ids)[i]
                            : static_cast<const unsigned short*>(args.ids)[i];
    case 4:
      return args.id_signed ? static_cast<const int*>(args.ids)[i]
                            : static_cast<i64>(static_cast<const unsigned*>(args.ids)[i]);
    default:
      return static_cast<const i64*>(args.ids)[i];
  }
}

/// Where class 0 of a position is.
__device__ i64 first_of(const LossArguments& args, i64 position) {
  return position / args.inner * args.classes * args.inner + position % args.inner;
}

/// The position's class, or -1 where it is ignored; what is neither is reported and ignored.
__device__ i64 class_of(const LossArguments& args, i64 position) {
  const i64 id = read_id(args, position);
  if (id == args.ignore) return -1;
  if (id >= 0 && id < args.classes) return id;
  report(args.status, args.step);
  return -1;
}

template <typename T>
struct Position {
  T peak, log_sum;
};

/// A warp finds the largest element and the logarithm of the sum of e^(x - max); all lanes get them.
template <typename T>
__device__ Position<T> log_sum_exp(const T* x, i64 classes, i64 inner, u32 lane) {
  T peak = -static_cast<T>(INFINITY), sum = 0;
  for (i64 c = lane; c < classes; c += 32) peak = MaxOf::join(peak, x[c * inner]);
  for (int d = 16; d > 0; d /= 2) peak = MaxOf::join(peak, __shfl_xor_sync(0xffffffffu, peak, d));
  for (i64 c = lane; c < classes; c += 32) sum += exp(x[c * inner] - peak);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  return {peak, log(sum)};
}

/// A warp for each position.
template <typename T, bool kGradient>
__device__ void cross_entropy(const LossArguments& args) {
  const u32 lane = threadIdx.x % 32;
  const i64 warps = global_size() / 32;
  for (i64 p = global_index() / 32; p < args.positions; p += warps) {
    const i64 first = first_of(args, p), id = class_of(args, p);
    const T* x = static_cast<const T*>(args.logits) + first;
    const Position<T> at = log_sum_exp(x, args.classes, args.inner, lane);
    if (!kGradient) {
      if (lane == 0) {
        static_cast<T*>(args.out)[p] = id < 0 ? T(0) : at.log_sum - (x[id * args.inner] - at.peak);
      }
      continue;
    }
    T* dx = static_cast<T*>(args.out) + first;
    const T dloss = static_cast<const T*>(args.dloss)[p];
    for (i64 c = lane; c < args.classes; c += 32) {
      const T share = exp(x[c * args.inner] - at.peak - at.log_sum);
      dx[c * args.inner] = id < 0 ? T(0) : dloss * (share - T(c == id ? 1 : 0));
    }
  }
}

template <typename T>
__device__ void nll(const LossArguments& args) {
  for (i64 p = global_index(); p < args.positions; p += global_size()) {
    const i64 id = class_of(args, p);
    static_cast<T*>(args.out)[p] =
        id < 0 ? T(0) : -static_cast<const T*>(args.logits)[first_of(args, p) + id * args.inner];
  }
}

/// The rest of the result is zero already.
template <typename T>
__device__ void nll_grad(const LossArguments& args) {
  for (i64 p = global_index(); p < args.positions; p += global_size()) {
    const i64 id = class_of(args, p);
    if (id < 0) continue;
    static_cast<T*>(args.out)[first_of(args, p) + id * args.inner] =
        -static_cast<const T*>(args.dloss)[p];
  }
}

}  // namespace

#define LOSSES(T, suffix)                                                                   \
  TRAINRT_KERNEL(cross_entropy_##suffix, LossArguments) { cross_entropy<T, false>(args); }  \
  TRAINRT_KERNEL(cross_entropy_grad_##suffix, LossArguments) { cross_entropy<T, true>(args); } \
  TRAINRT_KERNEL(nll_##suffix, LossArguments) { nll<T>(args); }                             \
  TRAINRT_KERNEL(nll_grad_##suffix, LossArguments) { nll_grad<T>(args); }

LOSSES(float, f32)
LOSSES(double, f64)

}  // namespace trainrt::cuda
