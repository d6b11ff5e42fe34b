#include <cmath>

#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

std::unique_ptr<Kernel> plan_assign(const NodeView& node, Scratch&) {
  return make_kernel([bytes = node.outputs[0].bytes()](const KernelArgs& args) {
    copy_bytes(args.out[0], args.in[1], bytes);
  });
}

struct AddPlan {
  int64_t size;
};

template <typename T>
void assign_add(const AddPlan& p, const KernelArgs& args) {
  const T *state = args.input<T>(0), *increment = args.input<T>(1);
  T* out = args.output<T>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) out[i] = add(state[i], increment[i]);
}

std::unique_ptr<Kernel> plan_assign_add(const NodeView& node, Scratch&) {
  return bind_number(node.outputs[0].dtype, AddPlan{node.outputs[0].size()},
                     []<typename T>() { return assign_add<T>; });
}

struct UpdatePlan {
  int64_t size;
  OptimizerAttrs attrs;
};

/// Slots are read before they are written, element by element: in place or not makes no difference.
template <typename T>
void optimizer_update(const UpdatePlan& p, const KernelArgs& args) {
  const OptimizerAttrs& a = p.attrs;
  const double lr = args.input<double>(2)[0], step = args.input<double>(2)[1];
  const double scale = args.input<T>(3)[0];
  const bool adam = a.kind == OptimizerKind::kAdam || a.kind == OptimizerKind::kAdamW;
  const bool decoupled = a.kind == OptimizerKind::kAdamW;
  const double correction1 = 1 - std::pow(a.beta1, step);
  const double correction2 = std::sqrt(1 - std::pow(a.beta2, step));
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) {
    double w = args.input<T>(0)[i];
    // Rounded, as where gradients are clipped in place before the update.
    double g = static_cast<T>(args.input<T>(1)[i] * scale);
    if (decoupled) {
      w *= 1 - lr * a.weight_decay;
    } else if (a.weight_decay != 0) {
      g += a.weight_decay * w;
    }
    if (adam) {
      const double m = a.beta1 * args.input<T>(4)[i] + (1 - a.beta1) * g;
      const double v = a.beta2 * args.input<T>(5)[i] + (1 - a.beta2) * g * g;
      args.output<T>(1)[i] = static_cast<T>(m);
      args.output<T>(2)[i] = static_cast<T>(v);
      g = m / correction1 / (std::sqrt(v) / correction2 + a.epsilon);
    } else if (a.kind != OptimizerKind::kSgd) {
      const double buffer =
          step <= 1 ? g : a.momentum * args.input<T>(4)[i] + (1 - a.dampening) * g;
      args.output<T>(1)[i] = static_cast<T>(buffer);
      g = a.kind == OptimizerKind::kNesterov ? g + a.momentum * buffer : buffer;
    }
    args.output<T>(0)[i] = static_cast<T>(w - lr * g);
  }
}

std::unique_ptr<Kernel> plan_optimizer_update(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype,
                    UpdatePlan{node.outputs[0].size(), node.attr<OptimizerAttrs>()},
                    []<typename T>() { return optimizer_update<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kAssign, "reference", nullptr, plan_assign},
    {Op::kAssignAdd, "reference", takes_numbers, plan_assign_add},
    {Op::kOptimizerUpdate, "reference", takes_floats, plan_optimizer_update},
};

}  // namespace

std::span<const KernelRow> reference_state_kernels() { return kRows; }

}  // namespace trainrt::reference
