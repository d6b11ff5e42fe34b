#include <cmath>

#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct LossPlan {
  AxisView view;  // of the logits
  int64_t ignore;
  Indices targets;
  std::string_view op;

  int64_t positions() const { return view.outer * view.inner; }
  int64_t first(int64_t position) const {
    return view.at(position / view.inner, 0, position % view.inner);
  }

  /// Throws Error(kRuntime) for a class id that is neither a class nor ignored.
  void check(const void* ids) const {
    for (int64_t i = 0; i < positions(); ++i) {
      const int64_t id = targets.read(ids, i);
      if (id == ignore || (id >= 0 && id < view.size)) continue;
      throw Error(
          ErrorCode::kRuntime,
          std::string(op) + ": target " + std::to_string(id) + " at position " + std::to_string(i) +
              " is no class id: there are " + std::to_string(view.size) + " classes (0 to " +
              std::to_string(view.size - 1) + "), and " + std::to_string(ignore) + " is ignored");
    }
  }
};

LossPlan loss_plan(const NodeView& node, const Shape& logits, size_t ids) {
  const LossAttrs& attrs = node.attr<LossAttrs>();
  return {AxisView(logits, attrs.class_axis), attrs.ignore_index, Indices(node.inputs[ids].dtype),
          op_info(node.op).name};
}

/// max x and log of the sum of e^(x - max)
template <typename T>
std::pair<double, double> log_sum_exp(const AxisView& view, const T* x) {
  T peak = lowest<T>();
  for (int64_t c = 0; c < view.size; ++c) peak = maximum(peak, x[c * view.inner]);
  double sum = 0;
  for (int64_t c = 0; c < view.size; ++c) {
    sum += std::exp(static_cast<double>(x[c * view.inner]) - static_cast<double>(peak));
  }
  return {peak, std::log(sum)};
}

// loss = log of the sum of e^x - x[target]
template <typename T>
void cross_entropy(const LossPlan& p, const KernelArgs& args) {
  p.check(args.in[1]);
#pragma omp parallel for schedule(static) if (p.view.count() > kParallel)
  for (int64_t i = 0; i < p.positions(); ++i) {
    const T* x = args.input<T>(0) + p.first(i);
    const int64_t id = p.targets.read(args.in[1], i);
    T loss = 0;
    if (id != p.ignore) {
      const auto [peak, log_sum] = log_sum_exp(p.view, x);
      loss = static_cast<T>(log_sum - (static_cast<double>(x[id * p.view.inner]) - peak));
    }
    args.output<T>(0)[i] = loss;
  }
}

// dx = dloss (softmax(x) - onehot(target))
template <typename T>
void cross_entropy_grad(const LossPlan& p, const KernelArgs& args) {
  p.check(args.in[2]);
#pragma omp parallel for schedule(static) if (p.view.count() > kParallel)
  for (int64_t i = 0; i < p.positions(); ++i) {
    const T* x = args.input<T>(1) + p.first(i);
    T* dx = args.output<T>(0) + p.first(i);
    const int64_t id = p.targets.read(args.in[2], i);
    const double dloss = args.input<T>(0)[i];
    const auto [peak, log_sum] = log_sum_exp(p.view, x);
    for (int64_t c = 0; c < p.view.size; ++c) {
      const int64_t at = c * p.view.inner;
      const double share = std::exp(static_cast<double>(x[at]) - peak - log_sum);
      dx[at] = id == p.ignore ? T{0} : static_cast<T>(dloss * (share - (c == id ? 1 : 0)));
    }
  }
}

// loss = -x[target]
template <typename T>
void nll_loss(const LossPlan& p, const KernelArgs& args) {
  p.check(args.in[1]);
  for (int64_t i = 0; i < p.positions(); ++i) {
    const int64_t id = p.targets.read(args.in[1], i);
    args.output<T>(0)[i] =
        id == p.ignore ? T{0} : -args.input<T>(0)[p.first(i) + id * p.view.inner];
  }
}

template <typename T>
void nll_loss_grad(const LossPlan& p, const KernelArgs& args) {
  p.check(args.in[1]);
  T* dx = args.output<T>(0);
  zero_bytes(dx, static_cast<size_t>(p.view.count()) * sizeof(T));
  for (int64_t i = 0; i < p.positions(); ++i) {
    const int64_t id = p.targets.read(args.in[1], i);
    if (id != p.ignore) dx[p.first(i) + id * p.view.inner] = -args.input<T>(0)[i];
  }
}

std::unique_ptr<Kernel> plan_cross_entropy(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, loss_plan(node, node.inputs[0].shape, 1),
                    []<typename T>() { return cross_entropy<T>; });
}

std::unique_ptr<Kernel> plan_cross_entropy_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, loss_plan(node, node.outputs[0].shape, 2),
                    []<typename T>() { return cross_entropy_grad<T>; });
}

std::unique_ptr<Kernel> plan_nll_loss(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, loss_plan(node, node.inputs[0].shape, 1),
                    []<typename T>() { return nll_loss<T>; });
}

std::unique_ptr<Kernel> plan_nll_loss_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, loss_plan(node, node.outputs[0].shape, 1),
                    []<typename T>() { return nll_loss_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kCrossEntropy, "reference", takes_floats, plan_cross_entropy},
    {Op::kCrossEntropyGrad, "reference", takes_floats, plan_cross_entropy_grad},
    {Op::kNllLoss, "reference", takes_floats, plan_nll_loss},
    {Op::kNllLossGrad, "reference", takes_floats, plan_nll_loss_grad},
};

}  // namespace

std::span<const KernelRow> reference_loss_kernels() { return kRows; }

}  // namespace trainrt::reference
