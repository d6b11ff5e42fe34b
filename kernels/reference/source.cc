#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

std::unique_ptr<Kernel> plan_constant(const NodeView& node, Scratch&) {
  return make_kernel([value = node.attr<ConstantAttrs>().value](const KernelArgs& args) {
    copy_bytes(args.out[0], value.raw(), value.bytes());
  });
}

struct FillPlan {
  int64_t size;
  uint64_t pattern;  // the element's bytes, at the front
};

template <typename T>
void fill(const FillPlan& p, const KernelArgs& args) {
  T value;
  std::memcpy(&value, &p.pattern, sizeof(T));
  std::fill_n(args.output<T>(0), p.size, value);
}

std::unique_ptr<Kernel> plan_fill(const NodeView& node, Scratch&) {
  const FillAttrs& attrs = node.attr<FillAttrs>();
  Tensor element(attrs.dtype, {});
  element.fill(attrs.value);
  FillPlan plan{node.outputs[0].size(), 0};
  std::memcpy(&plan.pattern, element.raw(), element.bytes());
  return bind_size(attrs.dtype, plan, []<typename T>() { return fill<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kConstant, "reference", nullptr, plan_constant},
    {Op::kFill, "reference", nullptr, plan_fill},
};

}  // namespace

std::span<const KernelRow> reference_source_kernels() { return kRows; }

}  // namespace trainrt::reference
