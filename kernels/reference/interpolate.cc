#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

/// Every result cell is a weighted sum of source cells along one axis: terms [start[i], start[i+1])
/// belong to result cell i.
struct InterpolatePlan {
  int64_t outer, inner, from_size, to_size;
  std::vector<int64_t> start, index;
  std::vector<double> weight;
};

template <typename T>
void interpolate(const InterpolatePlan& p, const KernelArgs& args) {
  const int64_t tasks = p.outer * p.to_size;
#pragma omp parallel for schedule(static) if (tasks * p.inner > kParallel)
  for (int64_t t = 0; t < tasks; ++t) {
    const T* x = args.input<T>(0) + t / p.to_size * p.from_size * p.inner;
    T* y = args.output<T>(0) + t * p.inner;
    const auto cell = static_cast<size_t>(t % p.to_size);
    for (int64_t begin = 0; begin < p.inner; begin += kBlock) {
      const int64_t n = std::min(kBlock, p.inner - begin);
      double acc[kBlock] = {};
      for (int64_t k = p.start[cell]; k < p.start[cell + 1]; ++k) {
        const T* row = x + p.index[static_cast<size_t>(k)] * p.inner + begin;
        const double weight = p.weight[static_cast<size_t>(k)];
        for (int64_t j = 0; j < n; ++j) acc[j] += weight * row[j];
      }
      for (int64_t j = 0; j < n; ++j) y[begin + j] = static_cast<T>(acc[j]);
    }
  }
}

/// Unused taps (weight 0) are left out, so that they carry no NaN over.
template <bool kGrad>
std::unique_ptr<Kernel> plan_interpolate(const NodeView& node, Scratch&) {
  const InterpolateAttrs& attrs = node.attr<InterpolateAttrs>();
  const AxisView view(node.inputs[0].shape, attrs.axis);
  InterpolatePlan plan{view.outer, view.inner, view.size, kGrad ? attrs.in_size : attrs.out_size,
                       {},         {},         {}};
  const auto taps = static_cast<size_t>(attrs.taps);
  const auto cell_of = [&](size_t tap) {
    return kGrad ? static_cast<size_t>(attrs.index[tap]) : tap / taps;
  };
  plan.start.resize(static_cast<size_t>(plan.to_size) + 1);
  for (size_t tap = 0; tap < attrs.weight.size(); ++tap) {
    if (attrs.weight[tap] != 0) ++plan.start[cell_of(tap) + 1];
  }
  for (size_t i = 1; i < plan.start.size(); ++i) plan.start[i] += plan.start[i - 1];
  plan.index.resize(static_cast<size_t>(plan.start.back()));
  plan.weight.resize(plan.index.size());
  std::vector<int64_t> next = plan.start;
  for (size_t tap = 0; tap < attrs.weight.size(); ++tap) {
    if (attrs.weight[tap] == 0) continue;
    const auto at = static_cast<size_t>(next[cell_of(tap)]++);
    plan.index[at] = kGrad ? static_cast<int64_t>(tap / taps) : attrs.index[tap];
    plan.weight[at] = attrs.weight[tap];
  }
  return bind_float(node.outputs[0].dtype, std::move(plan),
                    []<typename T>() { return interpolate<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kInterpolate, "reference", takes_floats, plan_interpolate<false>},
    {Op::kInterpolateGrad, "reference", takes_floats, plan_interpolate<true>},
};

}  // namespace

std::span<const KernelRow> reference_interpolate_kernels() { return kRows; }

}  // namespace trainrt::reference
