// Updates of state in place.
#include "kernels/cuda/device/state.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

std::unique_ptr<Kernel> plan_assign(const NodeView& node, Scratch&) {
  return make_kernel([bytes = node.outputs[0].bytes()](const KernelArgs& k) {
    if (bytes > 0 && k.out[0] != k.in[1]) k.stream->copy_on_device(k.out[0], k.in[1], bytes);
  });
}

Support takes_numbers(const NodeView& node) {
  const DType type = node.outputs[0].dtype;
  if (type == DType::kFloat16 || type == DType::kBFloat16) {
    return Support::no("takes no " + std::string(dtype_name(type)));
  }
  return Support::yes();
}

std::unique_ptr<Kernel> plan_assign_add(const NodeView& node, Scratch& scratch) {
  DType type = node.outputs[0].dtype;
  if (type != DType::kFloat32 && type != DType::kFloat64) {
    const size_t size = dtype_size(type);
    type = size == 1   ? DType::kUInt8
           : size == 2 ? DType::kUInt16
           : size == 4 ? DType::kUInt32
                       : DType::kUInt64;
  }
  return make_kernel([size = node.outputs[0].size(),
                      f = function(scratch, "assign_add", type)](const KernelArgs& k) {
    if (size == 0) return;
    const AssignAddArguments args{k.in[0], k.in[1], k.out[0], size};
    k.stream->launch(f, blocks_for(size), kThreads, args);
  });
}

static_assert(static_cast<int>(OptimizerKind::kSgd) == 0 &&
              static_cast<int>(OptimizerKind::kMomentum) == 1 &&
              static_cast<int>(OptimizerKind::kNesterov) == 2 &&
              static_cast<int>(OptimizerKind::kAdam) == 3 &&
              static_cast<int>(OptimizerKind::kAdamW) == 4);

// The hyper input is float64.
Support takes_update(const NodeView& node) {
  return all_float({node.op, node.attrs, node.inputs.first(2), node.outputs});
}

std::unique_ptr<Kernel> plan_update(const NodeView& node, Scratch& scratch) {
  const auto& o = node.attr<OptimizerAttrs>();
  UpdateArguments shaped{};
  shaped.size = node.outputs[0].size();
  shaped.weight_decay = o.weight_decay;
  shaped.momentum = o.momentum;
  shaped.dampening = o.dampening;
  shaped.beta1 = o.beta1;
  shaped.beta2 = o.beta2;
  shaped.epsilon = o.epsilon;
  shaped.kind = static_cast<int>(o.kind);
  // Blocks work out the step's powers once each: no more of them than fill any GPU.
  gpu::Size3 grid = blocks_for(shaped.size);
  grid.x = std::min(grid.x, 4096u);
  return make_kernel(
      [shaped, grid, slots = node.outputs.size() - 1,
       f = function(scratch, "optimizer_update", node.outputs[0].dtype)](const KernelArgs& k) {
        UpdateArguments args = shaped;
        if (args.size == 0) return;
        args.w = k.in[0];
        args.g = k.in[1];
        args.hyper = k.in[2];
        args.scale = k.in[3];
        args.w_out = k.out[0];
        if (slots > 0) {
          args.slot0 = k.in[4];
          args.slot0_out = k.out[1];
        }
        if (slots > 1) {
          args.slot1 = k.in[5];
          args.slot1_out = k.out[2];
        }
        k.stream->launch(f, grid, kThreads, args);
      });
}

constexpr KernelRow kRows[] = {
    {Op::kAssign, "cuda.assign", nullptr, plan_assign},
    {Op::kAssignAdd, "cuda.assign_add", takes_numbers, plan_assign_add},
    {Op::kOptimizerUpdate, "cuda.optimizer", takes_update, plan_update},
};

}  // namespace

std::span<const KernelRow> state_rows() { return kRows; }

}  // namespace trainrt::cuda
