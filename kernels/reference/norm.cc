#include <cmath>

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

struct LayerPlan {
  int64_t rows, width;
  double epsilon;
  bool scale;
};

LayerPlan layer_plan(const NodeView& node, bool scale) {
  const NormAttrs& attrs = node.attr<NormAttrs>();
  const std::span<const int64_t> shape = node.inputs[0].shape;
  const auto axis = static_cast<size_t>(attrs.axis);
  return {element_count(shape.first(axis)), element_count(shape.subspan(axis)), attrs.epsilon,
          scale};
}

// mean = sum x / n, variance = sum (x - mean)^2 / n, y = (x - mean) / sqrt(variance + eps)
template <typename T>
void layer_norm(const LayerPlan& p, const KernelArgs& args) {
  const auto n = static_cast<double>(p.width);
#pragma omp parallel for schedule(static) if (p.rows * p.width > kParallel)
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* x = args.input<T>(0) + r * p.width;
    T* y = args.output<T>(0) + r * p.width;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < p.width; ++i) sum += x[i];
    const double mean = sum / n;
    for (int64_t i = 0; i < p.width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double inverse = 1 / std::sqrt(squares / n + p.epsilon);
    for (int64_t i = 0; i < p.width; ++i) {
      const double normal = (x[i] - mean) * inverse;
      y[i] = static_cast<T>(p.scale ? normal * args.input<T>(1)[i] + args.input<T>(2)[i] : normal);
    }
    args.output<T>(1)[r] = static_cast<T>(mean);
    args.output<T>(2)[r] = static_cast<T>(inverse);
  }
}

// With h = (x - mean) / sd and g = dy * scale: dx = (g - mean(g) - h mean(g h)) / sd,
// dscale = sum over rows of dy h, dbias = sum over rows of dy
template <typename T>
void layer_norm_grad(const LayerPlan& p, const KernelArgs& args) {
  const T *dy = args.input<T>(0), *x = args.input<T>(1), *mean = args.input<T>(2),
          *inverse = args.input<T>(3);
  const auto normal = [&](int64_t r, int64_t i) {
    return (static_cast<double>(x[r * p.width + i]) - mean[r]) * inverse[r];
  };
  const auto n = static_cast<double>(p.width);
#pragma omp parallel for schedule(static) if (p.rows * p.width > kParallel)
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto g = [&](int64_t i) {
      const double d = dy[r * p.width + i];
      return p.scale ? d * args.input<T>(4)[i] : d;
    };
    double sum = 0, product = 0;
    for (int64_t i = 0; i < p.width; ++i) {
      sum += g(i);
      product += g(i) * normal(r, i);
    }
    T* dx = args.output<T>(0) + r * p.width;
    for (int64_t i = 0; i < p.width; ++i) {
      dx[i] = static_cast<T>((g(i) - sum / n - normal(r, i) * (product / n)) * inverse[r]);
    }
  }
  if (!p.scale) return;
#pragma omp parallel for schedule(static) if (p.rows * p.width > kParallel)
  for (int64_t begin = 0; begin < p.width; begin += kBlock) {
    const int64_t end = std::min(p.width, begin + kBlock);
    double scale[kBlock] = {}, bias[kBlock] = {};
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t i = begin; i < end; ++i) {
        const double d = dy[r * p.width + i];
        scale[i - begin] += d * normal(r, i);
        bias[i - begin] += d;
      }
    }
    for (int64_t i = begin; i < end; ++i) {
      args.output<T>(1)[i] = static_cast<T>(scale[i - begin]);
      args.output<T>(2)[i] = static_cast<T>(bias[i - begin]);
    }
  }
}

std::unique_ptr<Kernel> plan_layer_norm(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, layer_plan(node, node.inputs.size() > 1),
                    []<typename T>() { return layer_norm<T>; });
}

std::unique_ptr<Kernel> plan_layer_norm_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, layer_plan(node, node.inputs.size() > 4),
                    []<typename T>() { return layer_norm_grad<T>; });
}

// y = x / sqrt(mean x^2 + eps), times scale
template <typename T>
void rms_norm(const LayerPlan& p, const KernelArgs& args) {
#pragma omp parallel for schedule(static) if (p.rows * p.width > kParallel)
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* x = args.input<T>(0) + r * p.width;
    T* y = args.output<T>(0) + r * p.width;
    double squares = 0;
    for (int64_t i = 0; i < p.width; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(p.width) + p.epsilon);
    for (int64_t i = 0; i < p.width; ++i) {
      const double normal = x[i] * inverse;
      y[i] = static_cast<T>(p.scale ? normal * args.input<T>(1)[i] : normal);
    }
    args.output<T>(1)[r] = static_cast<T>(inverse);
  }
}

// With h = x / rms and g = dy * scale: dx = (g - h mean(g h)) / rms, dscale = sum over rows of dy h
template <typename T>
void rms_norm_grad(const LayerPlan& p, const KernelArgs& args) {
  const T *dy = args.input<T>(0), *x = args.input<T>(1), *inverse = args.input<T>(2);
  const auto normal = [&](int64_t r, int64_t i) {
    return static_cast<double>(x[r * p.width + i]) * inverse[r];
  };
#pragma omp parallel for schedule(static) if (p.rows * p.width > kParallel)
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto g = [&](int64_t i) {
      const double d = dy[r * p.width + i];
      return p.scale ? d * args.input<T>(3)[i] : d;
    };
    double product = 0;
    for (int64_t i = 0; i < p.width; ++i) product += g(i) * normal(r, i);
    product /= static_cast<double>(p.width);
    T* dx = args.output<T>(0) + r * p.width;
    for (int64_t i = 0; i < p.width; ++i) {
      dx[i] = static_cast<T>((g(i) - normal(r, i) * product) * inverse[r]);
    }
  }
  if (!p.scale) return;
#pragma omp parallel for schedule(static) if (p.rows * p.width > kParallel)
  for (int64_t begin = 0; begin < p.width; begin += kBlock) {
    const int64_t end = std::min(p.width, begin + kBlock);
    double scale[kBlock] = {};
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t i = begin; i < end; ++i) scale[i - begin] += dy[r * p.width + i] * normal(r, i);
    }
    for (int64_t i = begin; i < end; ++i) {
      args.output<T>(1)[i] = static_cast<T>(scale[i - begin]);
    }
  }
}

std::unique_ptr<Kernel> plan_rms_norm(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, layer_plan(node, node.inputs.size() > 1),
                    []<typename T>() { return rms_norm<T>; });
}

std::unique_ptr<Kernel> plan_rms_norm_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, layer_plan(node, node.inputs.size() > 3),
                    []<typename T>() { return rms_norm_grad<T>; });
}

struct BatchPlan {
  AxisView view;
  NormAttrs attrs;
  bool extra = false;     // BatchNorm, BatchNormApply: a residual
  bool recompute = true;  // BatchNormGrad: the activation's mask follows from x

  double activated(double v) const {
    switch (attrs.activation) {
      case Activation::kNone:
        return v;
      case Activation::kRelu:
        return v > 0 || std::isnan(v) ? v : 0;
      case Activation::kClip:
        return v < attrs.lo ? attrs.lo : v > attrs.hi ? attrs.hi : v;
    }
    return v;
  }
  /// Whether the gradient passes where the activation's operand (kRelu: or its result) is v.
  bool passes(double v) const {
    switch (attrs.activation) {
      case Activation::kNone:
        return true;
      case Activation::kRelu:
        return v > 0;
      case Activation::kClip:
        return v >= attrs.lo && v <= attrs.hi;
    }
    return true;
  }
};

/// Calls f(element) for all elements of a channel.
template <typename F>
void for_channel(const AxisView& view, int64_t channel, F f) {
  for (int64_t o = 0; o < view.outer; ++o) {
    const int64_t first = view.at(o, channel, 0);
    for (int64_t i = first; i < first + view.inner; ++i) f(i);
  }
}

/// y of one channel from its statistics.
template <typename T>
void normalize_channel(const BatchPlan& p, const KernelArgs& args, int64_t c, T mean, T variance,
                       const T* residual) {
  const T* x = args.input<T>(0);
  const double factor = args.input<T>(1)[c] / std::sqrt(variance + p.attrs.epsilon);
  const double bias = args.input<T>(2)[c];
  for_channel(p.view, c, [&](int64_t i) {
    double y = (static_cast<double>(x[i]) - mean) * factor + bias;
    if (residual != nullptr) y += residual[i];
    args.output<T>(0)[i] = static_cast<T>(p.activated(y));
  });
}

// As LayerNorm, over all axes but the channels'
template <typename T>
void batch_norm(const BatchPlan& p, const KernelArgs& args) {
  const T* x = args.input<T>(0);
  const auto n = static_cast<double>(p.view.outer * p.view.inner);
#pragma omp parallel for schedule(static) if (p.view.count() > kParallel)
  for (int64_t c = 0; c < p.view.size; ++c) {
    double sum = 0, squares = 0;
    for_channel(p.view, c, [&](int64_t i) { sum += x[i]; });
    const double mean = sum / n;
    for_channel(p.view, c, [&](int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    const T rounded = static_cast<T>(mean), variance = static_cast<T>(squares / n);
    normalize_channel(p, args, c, rounded, variance, p.extra ? args.input<T>(3) : nullptr);
    args.output<T>(1)[c] = rounded;
    args.output<T>(2)[c] = variance;
  }
}

template <typename T>
void batch_norm_apply(const BatchPlan& p, const KernelArgs& args) {
#pragma omp parallel for schedule(static) if (p.view.count() > kParallel)
  for (int64_t c = 0; c < p.view.size; ++c) {
    normalize_channel(p, args, c, args.input<T>(3)[c], args.input<T>(4)[c],
                      p.extra ? args.input<T>(5) : nullptr);
  }
}

// dx = scale / sd (g - mean(g) - h mean(g h)), dscale = sum of g h, dbias = sum of g, with h =
// (x - mean) / sd and g = dy where the activation lets it pass; g is the residual's gradient too
template <typename T>
void batch_norm_grad(const BatchPlan& p, const KernelArgs& args) {
  const T *dy = args.input<T>(0), *x = args.input<T>(1);
  const auto n = static_cast<double>(p.view.outer * p.view.inner);
#pragma omp parallel for schedule(static) if (p.view.count() > kParallel)
  for (int64_t c = 0; c < p.view.size; ++c) {
    const double mean = args.input<T>(3)[c];
    const double inverse = 1 / std::sqrt(args.input<T>(4)[c] + p.attrs.epsilon);
    const double factor = args.input<T>(2)[c] * inverse;
    const auto gradient = [&](int64_t i) -> double {
      if (p.attrs.activation == Activation::kNone) return dy[i];
      const double v = p.recompute ? (x[i] - mean) * factor + args.input<T>(5)[c]
                                   : static_cast<double>(args.input<T>(5)[i]);
      return p.passes(v) ? dy[i] : 0;
    };
    double sum = 0, product = 0;
    for_channel(p.view, c, [&](int64_t i) {
      sum += gradient(i);
      product += gradient(i) * ((x[i] - mean) * inverse);
    });
    for_channel(p.view, c, [&](int64_t i) {
      const double normal = (x[i] - mean) * inverse, g = gradient(i);
      args.output<T>(0)[i] = static_cast<T>(factor * (g - sum / n - normal * (product / n)));
      if (!p.recompute) args.output<T>(3)[i] = static_cast<T>(g);
    });
    args.output<T>(1)[c] = static_cast<T>(product);
    args.output<T>(2)[c] = static_cast<T>(sum);
  }
}

BatchPlan batch_plan(const NodeView& node) {
  const NormAttrs& attrs = node.attr<NormAttrs>();
  return {AxisView(node.inputs[0].shape, attrs.axis), attrs,
          node.inputs.size() == (node.op == Op::kBatchNormApply ? 6 : 4), node.outputs.size() == 3};
}

std::unique_ptr<Kernel> plan_batch_norm(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, batch_plan(node),
                    []<typename T>() { return batch_norm<T>; });
}

std::unique_ptr<Kernel> plan_batch_norm_apply(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, batch_plan(node),
                    []<typename T>() { return batch_norm_apply<T>; });
}

std::unique_ptr<Kernel> plan_batch_norm_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, batch_plan(node),
                    []<typename T>() { return batch_norm_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kLayerNorm, "reference", takes_floats, plan_layer_norm},
    {Op::kLayerNormGrad, "reference", takes_floats, plan_layer_norm_grad},
    {Op::kRmsNorm, "reference", takes_floats, plan_rms_norm},
    {Op::kRmsNormGrad, "reference", takes_floats, plan_rms_norm_grad},
    {Op::kBatchNorm, "reference", takes_floats, plan_batch_norm},
    {Op::kBatchNormApply, "reference", takes_floats, plan_batch_norm_apply},
    {Op::kBatchNormGrad, "reference", takes_floats, plan_batch_norm_grad},
};

}  // namespace

std::span<const KernelRow> reference_norm_kernels() { return kRows; }

}  // namespace trainrt::reference
