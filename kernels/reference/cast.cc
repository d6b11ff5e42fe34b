#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

struct CastPlan {
  int64_t size;
};

template <typename From, typename To>
void cast_numbers(const CastPlan& p, const KernelArgs& args) {
  const From* x = args.input<From>(0);
  To* y = args.output<To>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) y[i] = convert<To>(x[i]);
}

template <typename From>
void cast_to_bool(const CastPlan& p, const KernelArgs& args) {
  const From* x = args.input<From>(0);
  uint8_t* y = args.output<uint8_t>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) y[i] = x[i] != 0;
}

template <typename To>
void cast_from_bool(const CastPlan& p, const KernelArgs& args) {
  const uint8_t* x = args.input<uint8_t>(0);
  To* y = args.output<To>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) y[i] = x[i] != 0 ? To{1} : To{0};
}

std::unique_ptr<Kernel> plan_cast(const NodeView& node, Scratch&) {
  const DType from = node.inputs[0].dtype, to = node.outputs[0].dtype;
  const CastPlan plan{node.outputs[0].size()};
  if (to == DType::kBool) {
    return bind_number(from, plan, []<typename From>() { return cast_to_bool<From>; });
  }
  if (from == DType::kBool) {
    return bind_number(to, plan, []<typename To>() { return cast_from_bool<To>; });
  }
  Run<CastPlan> run = nullptr;
  with_type(from, [&](auto x) {
    with_type(to, [&](auto y) { run = cast_numbers<Number<decltype(x)>, Number<decltype(y)>>; });
  });
  if (run == nullptr) throw_type(to);
  return bind(plan, run);
}

struct CopyPlan {
  size_t bytes;
};

std::unique_ptr<Kernel> plan_bit_cast(const NodeView& node, Scratch&) {
  return bind<CopyPlan>({node.outputs[0].bytes()}, [](const CopyPlan& p, const KernelArgs& args) {
    copy_bytes(args.out[0], args.in[0], p.bytes);
  });
}

// Cast is not in place: source and target would be the same memory under two types.
constexpr KernelRow kRows[] = {
    {Op::kBitCast, "reference", takes_numbers, plan_bit_cast, true},
    {Op::kCast, "reference", takes_numbers, plan_cast},
};

}  // namespace

std::span<const KernelRow> reference_cast_kernels() { return kRows; }

}  // namespace trainrt::reference
