#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct ArgPlan {
  AxisView view;
  bool last;
};

/// Whether a comes before b in descending order; NaN counts as the largest value.
template <typename T>
bool before(T a, T b) {
  return a > b || (is_nan(a) && !is_nan(b));
}

/// Index of the extreme element; NaN wins, as in NumPy.
template <typename T, bool kLargest>
void arg_extreme(const ArgPlan& p, const KernelArgs& args) {
  const AxisView& view = p.view;
  const T* x = args.input<T>(0);
  int64_t* y = args.output<int64_t>(0);
  const auto better = [](T a, T b) {
    if (is_nan(a) || is_nan(b)) return is_nan(a) && !is_nan(b);
    return kLargest ? a > b : a < b;
  };
#pragma omp parallel for schedule(static) if (view.count() > kParallel)
  for (int64_t t = 0; t < view.outer * view.inner; ++t) {
    const int64_t o = t / view.inner, j = t % view.inner;
    int64_t best = 0;
    for (int64_t i = 1; i < view.size; ++i) {
      const T candidate = x[view.at(o, i, j)], leader = x[view.at(o, best, j)];
      if (p.last ? !better(leader, candidate) : better(candidate, leader)) best = i;
    }
    y[t] = best;
  }
}

template <bool kLargest>
std::unique_ptr<Kernel> plan_arg(const NodeView& node, Scratch&) {
  const ArgAttrs& attrs = node.attr<ArgAttrs>();
  return bind_number(node.inputs[0].dtype,
                     ArgPlan{AxisView(node.inputs[0].shape, attrs.axis), attrs.last},
                     []<typename T>() { return arg_extreme<T, kLargest>; });
}

struct CumPlan {
  AxisView view;
  bool exclusive, reverse;
};

template <typename T, bool kProduct>
void cumulate(const CumPlan& p, const KernelArgs& args) {
  const AxisView& view = p.view;
  const T* x = args.input<T>(0);
  T* y = args.output<T>(0);
#pragma omp parallel for schedule(static) if (view.count() > kParallel)
  for (int64_t t = 0; t < view.outer * view.inner; ++t) {
    Wide<T> acc = kProduct ? 1 : 0;
    for (int64_t k = 0; k < view.size; ++k) {
      const int64_t i = view.at(t / view.inner, p.reverse ? view.size - 1 - k : k, t % view.inner);
      const Wide<T> value = static_cast<Wide<T>>(x[i]);
      if (p.exclusive) y[i] = static_cast<T>(acc);
      acc = kProduct ? acc * value : acc + value;
      if (!p.exclusive) y[i] = static_cast<T>(acc);
    }
  }
}

template <bool kProduct>
std::unique_ptr<Kernel> plan_cum(const NodeView& node, Scratch&) {
  const CumAttrs& attrs = node.attr<CumAttrs>();
  return bind_number(
      node.outputs[0].dtype,
      CumPlan{AxisView(node.outputs[0].shape, attrs.axis), attrs.exclusive, attrs.reverse},
      []<typename T>() { return cumulate<T, kProduct>; });
}

struct TopKPlan {
  AxisView view;
  int64_t k;
  bool largest;
};

template <typename T>
void top_k(const TopKPlan& p, const KernelArgs& args) {
  const AxisView& view = p.view;
  const AxisView out = [&] {
    AxisView v = view;
    v.size = p.k;
    return v;
  }();
  int64_t* order = static_cast<int64_t*>(args.scratch);
  T* values = args.output<T>(0);
  int64_t* indices = args.output<int64_t>(1);
  for (int64_t t = 0; t < view.outer * view.inner; ++t) {
    const int64_t o = t / view.inner, j = t % view.inner;
    const T* x = args.input<T>(0) + view.at(o, 0, j);
    for (int64_t i = 0; i < view.size; ++i) order[i] = i;
    std::partial_sort(order, order + p.k, order + view.size, [&](int64_t a, int64_t b) {
      const T left = x[a * view.inner], right = x[b * view.inner];
      if (before(left, right)) return p.largest;
      if (before(right, left)) return !p.largest;
      return a < b;
    });
    for (int64_t i = 0; i < p.k; ++i) {
      values[out.at(o, i, j)] = x[order[i] * view.inner];
      indices[out.at(o, i, j)] = order[i];
    }
  }
}

std::unique_ptr<Kernel> plan_top_k(const NodeView& node, Scratch& scratch) {
  const TopKAttrs& attrs = node.attr<TopKAttrs>();
  const AxisView view(node.inputs[0].shape, attrs.axis);
  scratch.bytes = std::max(scratch.bytes, static_cast<size_t>(view.size) * sizeof(int64_t));
  return bind_number(node.inputs[0].dtype, TopKPlan{view, attrs.k, attrs.largest},
                     []<typename T>() { return top_k<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kArgMax, "reference", takes_numbers, plan_arg<true>},
    {Op::kArgMin, "reference", takes_numbers, plan_arg<false>},
    {Op::kCumSum, "reference", takes_numbers, plan_cum<false>},
    {Op::kCumProd, "reference", takes_numbers, plan_cum<true>},
    {Op::kTopK, "reference", takes_numbers, plan_top_k},
};

}  // namespace

std::span<const KernelRow> reference_scan_kernels() { return kRows; }

}  // namespace trainrt::reference
