// Fills.
#include "kernels/cuda/device/source.h"

#include <cstring>

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

std::unique_ptr<Kernel> plan_fill(const NodeView& node, Scratch& scratch) {
  const FillAttrs& attrs = node.attr<FillAttrs>();
  Tensor element(attrs.dtype, {});
  element.fill(attrs.value);
  FillArguments shaped{nullptr, static_cast<long long>(node.outputs[0].bytes()), 0};
  auto* pattern = reinterpret_cast<std::byte*>(&shaped.pattern);
  for (size_t at = 0; at < sizeof(shaped.pattern); at += element.bytes()) {
    std::memcpy(pattern + at, element.raw(), element.bytes());
  }
  return make_kernel([shaped, f = function(scratch, "fill")](const KernelArgs& k) {
    FillArguments args = shaped;
    if (args.bytes == 0) return;
    args.y = k.out[0];
    k.stream->launch(f, blocks_for(args.bytes / 16), kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kFill, "cuda.fill", nullptr, plan_fill},
};

}  // namespace

std::span<const KernelRow> source_rows() { return kRows; }

}  // namespace trainrt::cuda
