// Dropout and random numbers: the bits of the CPU, from keys that the device reads.
#include "kernels/cuda/device/random.h"

#include <cmath>

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

Support takes_float(const NodeView& node) {
  const DType type = computed(node.outputs[0]).dtype;
  return type == DType::kFloat32 || type == DType::kFloat64
             ? Support::yes()
             : Support::no("gives no " + std::string(dtype_name(type)));
}

std::unique_ptr<Kernel> plan_dropout(const NodeView& node, Scratch& scratch) {
  const DropoutAttrs& attrs = node.attr<DropoutAttrs>();
  RandomArguments shaped{};
  shaped.size = node.outputs[0].size();
  shaped.stream = static_cast<unsigned>(attrs.stream);
  shaped.half_x = node.inputs[0].dtype == DType::kBFloat16;
  shaped.half_out = node.outputs[0].dtype == DType::kBFloat16;
  shaped.a = attrs.ratio;
  shaped.b = attrs.ratio < 1 ? 1 / (1 - attrs.ratio) : 0;
  return make_kernel([shaped, f = function(scratch, "dropout", computed(node.outputs[0]).dtype)](
                         const KernelArgs& k) {
    if (shaped.size == 0) return;
    RandomArguments args = shaped;
    args.x = k.in[0];
    args.rng = k.input<long long>(1);
    args.out = k.out[0];
    k.stream->launch(f, blocks_for((args.size + 3) / 4), kThreads, args);
  });
}

std::unique_ptr<Kernel> plan_random(const NodeView& node, Scratch& scratch) {
  const RandomAttrs& attrs = node.attr<RandomAttrs>();
  const bool normal = attrs.kind == RandomKind::kNormal;
  RandomArguments shaped{};
  shaped.size = node.outputs[0].size();
  shaped.stream = static_cast<unsigned>(attrs.stream);
  shaped.a = attrs.a;
  shaped.b = attrs.b;
  shaped.below = attrs.dtype == DType::kFloat32
                     ? std::nextafter(static_cast<float>(attrs.b), static_cast<float>(attrs.a))
                     : std::nextafter(attrs.b, attrs.a);
  return make_kernel(
      [shaped, f = function(scratch, normal ? "random_normal" : "random_uniform", attrs.dtype)](
          const KernelArgs& k) {
        if (shaped.size == 0) return;
        RandomArguments args = shaped;
        args.rng = k.input<long long>(0);
        args.out = k.out[0];
        k.stream->launch(f, blocks_for((args.size + 1) / 2), kThreads, args);
      });
}

constexpr KernelRow kRows[] = {
    {Op::kDropout, "cuda.dropout", takes_float, plan_dropout, true, false, true},
    {Op::kRandom, "cuda.random", takes_float, plan_random},
};

}  // namespace

std::span<const KernelRow> random_rows() { return kRows; }

}  // namespace trainrt::cuda
