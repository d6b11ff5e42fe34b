// Dropout and random numbers from the Philox streams that every backend draws from.
#include "kernels/cuda/device/random.h"

#include <cmath>

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

// The key is int64.
Support takes_dropout(const NodeView& node) {
  return all_float_or_bf16({node.op, node.attrs, node.inputs.first(1), node.outputs}, 1, 1);
}
Support takes_random(const NodeView& node) {
  return all_float({node.op, node.attrs, {}, node.outputs});
}

std::unique_ptr<Kernel> plan_dropout(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<DropoutAttrs>();
  DropoutArguments shaped{};
  shaped.size = node.outputs[0].size();
  shaped.scale = attrs.ratio < 1 ? 1 / (1 - attrs.ratio) : 0;
  // to_uniform(word) >= ratio, in whole numbers
  shaped.threshold = static_cast<unsigned>(std::ceil(attrs.ratio * 16777216.0));
  shaped.stream = static_cast<unsigned>(attrs.stream);
  shaped.x_half = node.inputs[0].dtype == DType::kBFloat16;
  shaped.y_half = node.outputs[0].dtype == DType::kBFloat16;
  const DType type = computed(node.outputs[0]).dtype;
  return make_kernel([shaped, f = function(scratch, "dropout", type)](const KernelArgs& k) {
    DropoutArguments args = shaped;
    if (args.size == 0) return;
    args.x = k.in[0];
    args.key = k.in[1];
    args.y = k.out[0];
    k.stream->launch(f, blocks_for((args.size + 3) / 4), kThreads, args);
  });
}

std::unique_ptr<Kernel> plan_random(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<RandomAttrs>();
  const bool uniform = attrs.kind == RandomKind::kUniform;
  RandomArguments shaped{};
  shaped.size = node.outputs[0].size();
  shaped.a = attrs.a;
  shaped.b = uniform ? attrs.b - attrs.a : attrs.b;
  shaped.stream = static_cast<unsigned>(attrs.stream);
  with_float_type(attrs.dtype, [&]<typename T>(T) {
    const T high = static_cast<T>(attrs.b);
    shaped.high = high;
    shaped.below = std::nextafter(high, static_cast<T>(attrs.a));
  });
  const int64_t threads = (shaped.size + 3) / (uniform ? 4 : 2);
  return make_kernel([shaped, threads,
                      f = function(scratch, uniform ? "random_uniform" : "random_normal",
                                   attrs.dtype)](const KernelArgs& k) {
    RandomArguments args = shaped;
    if (args.size == 0) return;
    args.key = k.in[0];
    args.y = k.out[0];
    k.stream->launch(f, blocks_for(threads), kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kDropout, "cuda.dropout", takes_dropout, plan_dropout, true, false, true},
    {Op::kRandom, "cuda.random", takes_random, plan_random},
};

}  // namespace

std::span<const KernelRow> random_rows() { return kRows; }

}  // namespace trainrt::cuda
