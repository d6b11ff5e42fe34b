#include "kernels/cuda/device/state.h"

#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {
namespace {

template <typename T>
__device__ void assign_add(const AddArguments& args) {
  const T *state = static_cast<const T*>(args.state), *more = static_cast<const T*>(args.increment);
  T* out = static_cast<T*>(args.out);
  for (i64 i = global_index(); i < args.size; i += global_size()) out[i] = state[i] + more[i];
}

/// What the formulas need of hyper and attributes, in the type of the parameters.
template <typename T>
struct Factors {
  T rate, decay, kept, correction1, correction2;
};

/// PyTorch's formulas. Slots are read before they are written, element by element.
template <typename T>
__device__ void update(const UpdateArguments& args) {
  __shared__ Factors<T> shared;
  if (threadIdx.x == 0) {
    const double rate = args.hyper[0], step = args.hyper[1];
    shared.rate = static_cast<T>(rate);
    shared.decay = static_cast<T>(args.weight_decay);
    shared.kept = static_cast<T>(1 - rate * args.weight_decay);
    shared.correction1 = static_cast<T>(1 / (1 - pow(args.beta1, step)));
    shared.correction2 = static_cast<T>(1 / sqrt(1 - pow(args.beta2, step)));
  }
  __syncthreads();
  const Factors<T> f = shared;
  const bool first = args.hyper[1] <= 1;
  const bool adam = args.rule == UpdateRule::kAdam || args.rule == UpdateRule::kAdamW;
  const T scale = *static_cast<const T*>(args.scale);
  const T beta1 = static_cast<T>(args.beta1), rest1 = static_cast<T>(1 - args.beta1);
  const T beta2 = static_cast<T>(args.beta2), rest2 = static_cast<T>(1 - args.beta2);
  const T epsilon = static_cast<T>(args.epsilon), momentum = static_cast<T>(args.momentum);
  const T undamped = static_cast<T>(1 - args.dampening);
  const T* slots[2] = {static_cast<const T*>(args.slots[0]), static_cast<const T*>(args.slots[1])};
  T* slots_out[2] = {static_cast<T*>(args.slots_out[0]), static_cast<T*>(args.slots_out[1])};
  for (i64 i = global_index(); i < args.size; i += global_size()) {
    T w = static_cast<const T*>(args.parameter)[i];
    T g = static_cast<const T*>(args.gradient)[i] * scale;
    if (args.rule == UpdateRule::kAdamW) {
      w *= f.kept;
    } else if (f.decay != T(0)) {
      g += f.decay * w;
    }
    if (adam) {
      const T m = beta1 * slots[0][i] + rest1 * g;
      const T v = beta2 * slots[1][i] + rest2 * g * g;
      slots_out[0][i] = m;
      slots_out[1][i] = v;
      g = m * f.correction1 / (sqrt(v) * f.correction2 + epsilon);
    } else if (args.rule != UpdateRule::kSgd) {
      const T buffer = first ? g : momentum * slots[0][i] + undamped * g;
      slots_out[0][i] = buffer;
      g = args.rule == UpdateRule::kNesterov ? g + momentum * buffer : buffer;
    }
    static_cast<T*>(args.parameter_out)[i] = w - f.rate * g;
  }
}

}  // namespace

TRAINRT_KERNEL(assign_add_f32, AddArguments) { assign_add<float>(args); }
TRAINRT_KERNEL(assign_add_f64, AddArguments) { assign_add<double>(args); }
TRAINRT_KERNEL(assign_add_i32, AddArguments) { assign_add<int>(args); }
TRAINRT_KERNEL(assign_add_i64, AddArguments) { assign_add<i64>(args); }
TRAINRT_KERNEL(update_f32, UpdateArguments) { update<float>(args); }
TRAINRT_KERNEL(update_f64, UpdateArguments) { update<double>(args); }

}  // namespace trainrt::cuda
