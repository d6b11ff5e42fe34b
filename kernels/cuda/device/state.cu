#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/state.h"

namespace trainrt::cuda {
namespace {

template <typename T>
__device__ void assign_add(const AssignAddArguments& args) {
  for (i64 i = global_index(); i < args.size; i += global_size()) {
    static_cast<T*>(args.out)[i] = static_cast<T>(static_cast<const T*>(args.state)[i] +
                                                  static_cast<const T*>(args.increment)[i]);
  }
}

// Rounded, as where gradients are clipped in place before the update.
__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }

/// What is the same for all elements of one step; the formulas are kernels/cpu/optimizer.cc's.
template <typename T>
struct Factors {
  T scale, decay, shrink, rate, keep0, add0, keep1, add1, root, epsilon, ahead;
};

template <typename T>
__device__ Factors<T> make_factors(const UpdateArguments& a) {
  const double lr = static_cast<const double*>(a.hyper)[0];
  const double step = static_cast<const double*>(a.hyper)[1];
  const bool adam = a.kind >= 3, decoupled = a.kind == 4, first = step <= 1;
  Factors<T> f;
  f.scale = *static_cast<const T*>(a.scale);
  f.decay = static_cast<T>(decoupled ? 0 : a.weight_decay);
  f.shrink = static_cast<T>(decoupled ? 1 - lr * a.weight_decay : 1);
  f.rate = static_cast<T>(adam ? lr / (1 - pow(a.beta1, step)) : lr);
  f.keep0 = static_cast<T>(adam ? a.beta1 : first ? 0 : a.momentum);
  f.add0 = static_cast<T>(adam ? 1 - a.beta1 : first ? 1 : 1 - a.dampening);
  f.keep1 = static_cast<T>(a.beta2);
  f.add1 = static_cast<T>(1 - a.beta2);
  f.root = static_cast<T>(adam ? 1 / sqrt(1 - pow(a.beta2, step)) : 0);
  f.epsilon = static_cast<T>(a.epsilon);
  f.ahead = static_cast<T>(a.momentum);
  return f;
}

template <typename T>
__device__ T element(const void* values, i64 i) {
  return static_cast<const T*>(values)[i];
}

template <typename T>
__device__ void update(const UpdateArguments& args) {
  __shared__ Factors<T> shared;  // powers are dear
  if (threadIdx.x == 0) shared = make_factors<T>(args);
  __syncthreads();
  const Factors<T> f = shared;
  for (i64 i = global_index(); i < args.size; i += global_size()) {
    T w = element<T>(args.w, i), g = rounded_product(element<T>(args.g, i), f.scale);
    if (f.decay != 0) g += f.decay * w;
    w *= f.shrink;
    if (args.kind >= 3) {
      const T m = f.keep0 * element<T>(args.slot0, i) + f.add0 * g;
      const T v = f.keep1 * element<T>(args.slot1, i) + f.add1 * g * g;
      static_cast<T*>(args.slot0_out)[i] = m;
      static_cast<T*>(args.slot1_out)[i] = v;
      g = m / (sqrt(v) * f.root + f.epsilon);
    } else if (args.kind > 0) {
      // In a first step what the slot held counts for nothing, NaN included.
      T buffer = f.add0 * g;
      if (f.keep0 != 0) buffer += f.keep0 * element<T>(args.slot0, i);
      static_cast<T*>(args.slot0_out)[i] = buffer;
      g = args.kind == 2 ? g + f.ahead * buffer : buffer;
    }
    static_cast<T*>(args.w_out)[i] = w - f.rate * g;
  }
}

}  // namespace

#define ASSIGN_ADD(T, suffix) \
  TRAINRT_KERNEL(assign_add_##suffix, AssignAddArguments) { assign_add<T>(args); }
ASSIGN_ADD(float, f32)
ASSIGN_ADD(double, f64)
// Integers wrap around, signed or not.
ASSIGN_ADD(unsigned char, u8)
ASSIGN_ADD(unsigned short, u16)
ASSIGN_ADD(u32, u32)
ASSIGN_ADD(u64, u64)

TRAINRT_KERNEL(optimizer_update_f32, UpdateArguments) { update<float>(args); }
TRAINRT_KERNEL(optimizer_update_f64, UpdateArguments) { update<double>(args); }

}  // namespace trainrt::cuda
