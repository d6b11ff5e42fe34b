#include <cmath>

#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

/// Calls f(offset of the first element) for every line along the axis.
template <typename F>
void for_each_line(const AxisView& view, F f) {
#pragma omp parallel for schedule(static) if (view.count() > kParallel)
  for (int64_t t = 0; t < view.outer * view.inner; ++t) {
    f(view.at(t / view.inner, 0, t % view.inner));
  }
}

// y = e^(x - max) / sum of e^(x - max), or its logarithm
template <typename T, bool kLog>
void softmax(const AxisView& view, const KernelArgs& args) {
  for_each_line(view, [&](int64_t first) {
    const T* x = args.input<T>(0) + first;
    T* y = args.output<T>(0) + first;
    const int64_t end = view.size * view.inner;
    T peak = lowest<T>();
    for (int64_t i = 0; i < end; i += view.inner) peak = maximum(peak, x[i]);
    double sum = 0;
    for (int64_t i = 0; i < end; i += view.inner) {
      sum += std::exp(static_cast<double>(x[i]) - static_cast<double>(peak));
    }
    const double log_sum = std::log(sum);
    for (int64_t i = 0; i < end; i += view.inner) {
      const double shifted = static_cast<double>(x[i]) - static_cast<double>(peak);
      y[i] = static_cast<T>(kLog ? shifted - log_sum : std::exp(shifted) / sum);
    }
  });
}

// dx = y (dy - sum of dy y)
/// The chain rule's product: 0 where nothing flows in, whatever the factor is.
double chain(double dy, double factor) { return dy == 0 ? 0 : dy * factor; }

template <typename T>
void softmax_grad(const AxisView& view, const KernelArgs& args) {
  for_each_line(view, [&](int64_t first) {
    const T *dy = args.input<T>(0) + first, *y = args.input<T>(1) + first;
    T* dx = args.output<T>(0) + first;
    const int64_t end = view.size * view.inner;
    double sum = 0;
    for (int64_t i = 0; i < end; i += view.inner) sum += chain(static_cast<double>(dy[i]), y[i]);
    for (int64_t i = 0; i < end; i += view.inner) dx[i] = static_cast<T>(chain(dy[i] - sum, y[i]));
  });
}

// dx = dy - e^y * sum of dy
template <typename T>
void log_softmax_grad(const AxisView& view, const KernelArgs& args) {
  for_each_line(view, [&](int64_t first) {
    const T *dy = args.input<T>(0) + first, *y = args.input<T>(1) + first;
    T* dx = args.output<T>(0) + first;
    const int64_t end = view.size * view.inner;
    double sum = 0;
    for (int64_t i = 0; i < end; i += view.inner) sum += dy[i];
    for (int64_t i = 0; i < end; i += view.inner) {
      dx[i] = static_cast<T>(dy[i] - chain(sum, std::exp(static_cast<double>(y[i]))));
    }
  });
}

AxisView view_of(const NodeView& node) {
  return AxisView(node.outputs[0].shape, node.attr<AxisAttrs>().axis);
}

template <bool kLog>
std::unique_ptr<Kernel> plan_softmax(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, view_of(node),
                    []<typename T>() { return softmax<T, kLog>; });
}

std::unique_ptr<Kernel> plan_softmax_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, view_of(node),
                    []<typename T>() { return softmax_grad<T>; });
}

std::unique_ptr<Kernel> plan_log_softmax_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, view_of(node),
                    []<typename T>() { return log_softmax_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kSoftmax, "reference", takes_floats, plan_softmax<false>},
    {Op::kSoftmaxGrad, "reference", takes_floats, plan_softmax_grad},
    {Op::kLogSoftmax, "reference", takes_floats, plan_softmax<true>},
    {Op::kLogSoftmaxGrad, "reference", takes_floats, plan_log_softmax_grad},
};

}  // namespace

std::span<const KernelRow> reference_softmax_kernels() { return kRows; }

}  // namespace trainrt::reference
