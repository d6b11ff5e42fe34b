// Functions from outside the IR.
#include "graph/call.h"

#include <cstring>

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

struct CallKernel final : Kernel {
  CallKernel(const NodeView& node, bool passes)
      : function(find_call(node.attr<CallAttrs>().function)),
        in(node.inputs.begin(), node.inputs.end()),
        out(node.outputs.begin(), node.outputs.end()),
        passes_through(passes) {}

  void run(const KernelArgs& args) const override {
    std::vector<Tensor> inputs, outputs;
    for (size_t i = 0; i < in.size(); ++i) {
      inputs.push_back(Tensor::view(const_cast<void*>(args.in[i]), in[i].dtype, in[i].shape));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (passes_through && args.out[i] != args.in[i]) {
        std::memcpy(args.out[i], args.in[i], out[i].bytes());
      }
      outputs.push_back(Tensor::view(args.out[i], out[i].dtype, out[i].shape));
    }
    function->run({inputs, outputs});
  }

  std::shared_ptr<const CallFunction> function;
  std::vector<TensorType> in, out;
  bool passes_through;
};

std::unique_ptr<Kernel> plan_call(const NodeView& node, Scratch&) {
  return std::make_unique<CallKernel>(node, false);
}

std::unique_ptr<Kernel> plan_hook(const NodeView& node, Scratch&) {
  return std::make_unique<CallKernel>(node, true);
}

constexpr KernelRow kRows[] = {
    {Op::kCall, "reference", nullptr, plan_call},
    {Op::kHook, "reference", nullptr, plan_hook},
};

}  // namespace

std::span<const KernelRow> reference_call_kernels() { return kRows; }

}  // namespace trainrt::reference
