// Updates of state in place.
#include "kernels/cuda/device/state.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

std::unique_ptr<Kernel> plan_assign(const NodeView& node, Scratch&) {
  return make_kernel([bytes = node.outputs[0].bytes()](const KernelArgs& k) {
    if (bytes > 0) k.stream->copy_on_device(k.out[0], k.in[1], bytes);
  });
}

Support takes_numbers(const NodeView& node) {
  return all_of(node, {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64});
}

std::unique_ptr<Kernel> plan_assign_add(const NodeView& node, Scratch& scratch) {
  const TensorType& type = node.outputs[0];
  return make_kernel(
      [size = type.size(), f = function(scratch, "assign_add", type.dtype)](const KernelArgs& k) {
        if (size == 0) return;
        const AddArguments args{k.in[0], k.in[1], k.out[0], size};
        k.stream->launch(f, blocks_for(size), kThreads, args);
      });
}

/// The hyper input is float64 whatever the parameters are.
Support takes_update(const NodeView& node) {
  const DType type = node.outputs[0].dtype;
  if (type != DType::kFloat32 && type != DType::kFloat64) {
    return Support::no("takes no " + std::string(dtype_name(type)));
  }
  return Support::yes();
}

UpdateRule rule_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kMomentum:
      return UpdateRule::kMomentum;
    case OptimizerKind::kNesterov:
      return UpdateRule::kNesterov;
    case OptimizerKind::kAdam:
      return UpdateRule::kAdam;
    case OptimizerKind::kAdamW:
      return UpdateRule::kAdamW;
    default:
      return UpdateRule::kSgd;
  }
}

std::unique_ptr<Kernel> plan_update(const NodeView& node, Scratch& scratch) {
  const OptimizerAttrs& a = node.attr<OptimizerAttrs>();
  UpdateArguments shaped{};
  shaped.size = node.outputs[0].size();
  shaped.rule = rule_of(a.kind);
  shaped.weight_decay = a.weight_decay;
  shaped.momentum = a.momentum;
  shaped.dampening = a.dampening;
  shaped.beta1 = a.beta1;
  shaped.beta2 = a.beta2;
  shaped.epsilon = a.epsilon;
  return make_kernel([shaped, slots = node.inputs.size() - 4,
                      f = function(scratch, "update", node.outputs[0].dtype)](const KernelArgs& k) {
    if (shaped.size == 0) return;
    UpdateArguments args = shaped;
    args.parameter = k.in[0];
    args.gradient = k.in[1];
    args.hyper = k.input<double>(2);
    args.scale = k.in[3];
    args.parameter_out = k.out[0];
    for (size_t i = 0; i < slots; ++i) {
      args.slots[i] = k.in[4 + i];
      args.slots_out[i] = k.out[1 + i];
    }
    k.stream->launch(f, blocks_for(args.size), kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kAssign, "cuda.assign", nullptr, plan_assign},
    {Op::kAssignAdd, "cuda.assign", takes_numbers, plan_assign_add},
    {Op::kOptimizerUpdate, "cuda.update", takes_update, plan_update},
};

}  // namespace

std::span<const KernelRow> state_rows() { return kRows; }

}  // namespace trainrt::cuda
