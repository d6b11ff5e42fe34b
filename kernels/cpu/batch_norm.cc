// BatchNorm on plain tensors: [N, C] by columns, [N, C, spatial…] by one channel after another, so
// that the second pass over a channel finds it in the cache.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

constexpr int64_t kPanel = 256;

struct BatchShape {
  int64_t batch, channels, spatial;
  double count() const { return static_cast<double>(batch * spatial); }
  /// The first element of a channel of an image.
  int64_t at(int64_t n, int64_t c) const { return (n * channels + c) * spatial; }
};

BatchShape batch_shape(const Shape& x) { return {x[0], x[1], size_of(x, 2, x.size())}; }

Support takes_norm(const NodeView& node) {
  Support s = all_float(node);
  if (!s.ok) return s;
  if (node.outputs[0].rank() < 2 || node.attr<NormAttrs>().axis != 1) {
    return Support::no("takes channels on axis 1");
  }
  return node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

/// What follows the normalisation.
struct Tail {
  Activation activation;
  float lo, hi;

  explicit Tail(const NormAttrs& a)
      : activation(a.activation), lo(static_cast<float>(a.lo)), hi(static_cast<float>(a.hi)) {}

  /// normalize(begin, out, n) gives n normalised elements from `begin` on; piece by piece on the
  /// stack, because y may lie on the residual.
  template <typename F>
  void apply(const F& normalize, const float* residual, float* y, int64_t n) const {
    if (activation == Activation::kNone && residual == nullptr) return normalize(0, y, n);
    for (int64_t i = 0; i < n; i += kPanel) {
      const int64_t count = std::min(kPanel, n - i);
      float part[kPanel];
      normalize(i, part, count);
      if (residual != nullptr) vector_ops().add(part, residual + i, part, count);
      if (activation == Activation::kRelu) unary_loop(Op::kRelu)(part, part, count, 0, 0);
      if (activation == Activation::kClip) unary_loop(Op::kClip)(part, part, count, lo, hi);
      std::copy_n(part, count, y + i);
    }
  }
  /// g = dy where the activation of v (kRelu: or its result) lets it pass.
  void mask(const float* dy, const float* v, float* g, int64_t n) const {
    const Op op = activation == Activation::kRelu ? Op::kReluGrad : Op::kClipGrad;
    binary_loop(op, Operands::kBoth)(dy, v, g, n, lo, hi);
  }
};

template <typename F>
void for_each_panel(const BatchShape& s, const F& f) {
  const int64_t panels = (s.channels + kPanel - 1) / kPanel;
  parallel_items(panels, s.batch * std::min(kPanel, s.channels), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) f(p * kPanel, std::min(kPanel, s.channels - p * kPanel));
  });
}

/// Batch mean and population variance of `n` columns from c on.
void column_statistics(const BatchShape& s, const float* x, int64_t c, int64_t n, float* means,
                       float* vars) {
  const VectorOps& v = vector_ops();
  const float inverse = static_cast<float>(1.0 / s.count());
  v.column_sum(x + c, s.batch, s.channels, means + c, n);
  v.affine(means + c, inverse, 0.0f, means + c, n);
  v.column_square_deviation(x + c, means + c, s.batch, s.channels, vars + c, n);
  v.affine(vars + c, inverse, 0.0f, vars + c, n);
}

/// The same of channel c.
void channel_statistics(const BatchShape& s, const float* x, int64_t c, float* means, float* vars) {
  const VectorOps& v = vector_ops();
  double sum = 0, square = 0;
  for (int64_t n = 0; n < s.batch; ++n) sum += v.sum(x + s.at(n, c), s.spatial);
  means[c] = static_cast<float>(sum / s.count());
  for (int64_t n = 0; n < s.batch; ++n) {
    square += v.square_deviation(x + s.at(n, c), means[c], s.spatial);
  }
  vars[c] = static_cast<float>(square / s.count());
}

/// y = (x - mean) / sqrt(var + epsilon) scale + bias; BatchNormApply: the statistics are given
template <bool kGiven>
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch&) {
  const BatchShape s = batch_shape(node.inputs[0].shape);
  const double epsilon = node.attr<NormAttrs>().epsilon;
  constexpr size_t kResidual = kGiven ? 5 : 3;
  const bool residual = node.inputs.size() > kResidual;
  return make_kernel([=, tail = Tail(node.attr<NormAttrs>())](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *x = args.input<float>(0), *scale = args.input<float>(1),
                *bias = args.input<float>(2);
    const float* means = kGiven ? args.input<float>(3) : args.output<float>(1);
    const float* vars = kGiven ? args.input<float>(4) : args.output<float>(2);
    float* y = args.output<float>(0);
    if (s.spatial == 1) {
      for_each_panel(s, [&](int64_t c, int64_t n) {
        float a[kPanel];
        if constexpr (!kGiven) {
          column_statistics(s, x, c, n, args.output<float>(1), args.output<float>(2));
        }
        for (int64_t j = 0; j < n; ++j) {
          a[j] = static_cast<float>(scale[c + j] / std::sqrt(vars[c + j] + epsilon));
        }
        for (int64_t r = 0; r < s.batch; ++r) {
          const int64_t i = r * s.channels + c;
          tail.apply(
              [&](int64_t j, float* out, int64_t count) {
                v.centered_rows(x + i + j, means + c + j, a + j, bias + c + j, out, count);
              },
              residual ? args.input<float>(kResidual) + i : nullptr, y + i, n);
        }
      });
      return;
    }
    parallel_items(s.channels, 2 * s.batch * s.spatial, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        if constexpr (!kGiven) {
          channel_statistics(s, x, c, args.output<float>(1), args.output<float>(2));
        }
        const float mean = means[c], b = bias[c];
        const float a = static_cast<float>(scale[c] / std::sqrt(vars[c] + epsilon));
        for (int64_t n = 0; n < s.batch; ++n) {
          const int64_t i = s.at(n, c);
          tail.apply([&](int64_t j, float* out,
                         int64_t count) { v.centered(x + i + j, mean, a, b, out, count); },
                     residual ? args.input<float>(kResidual) + i : nullptr, y + i, s.spatial);
        }
      }
    });
  });
}

/// With r = 1 / sqrt(var + epsilon) and dy what the activation lets pass: dbias = sum dy,
/// dscale = r sum dy (x - mean), dx = scale r (dy - dbias / count - (x - mean) r dscale / count).
std::unique_ptr<Kernel> plan_norm_grad(const NodeView& node, Scratch& scratch) {
  const BatchShape s = batch_shape(node.inputs[0].shape);
  const double epsilon = node.attr<NormAttrs>().epsilon;
  struct Factors {
    float dy, x, constant;
  };
  const auto factors = [=](double sum, double dscale, double scale, double r) {
    const double a = scale * r;
    return Factors{static_cast<float>(a), static_cast<float>(-a * r * dscale / s.count()),
                   static_cast<float>(-a * sum / s.count())};
  };
  const bool masked = node.inputs.size() == 6, residual = node.outputs.size() == 4;
  const size_t work = masked && !residual ? book(scratch, node.outputs[0].bytes()) : 0;
  return make_kernel([=, tail = Tail(node.attr<NormAttrs>())](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *dy = args.input<float>(0), *x = args.input<float>(1),
                *scale = args.input<float>(2), *means = args.input<float>(3),
                *vars = args.input<float>(4);
    if (masked) {
      float* g = residual ? args.output<float>(3) : scratch_at<float>(args, work);
      parallel_items(s.batch * s.channels, s.spatial, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t c = i % s.channels, at = i * s.spatial;
          const float* source = args.input<float>(5) + at;
          if (!residual) {
            const double a = scale[c] / std::sqrt(vars[c] + epsilon);
            v.centered(x + at, means[c], static_cast<float>(a), args.input<float>(5)[c], g + at,
                       s.spatial);
            source = g + at;
          }
          tail.mask(dy + at, source, g + at, s.spatial);
        }
      });
      dy = g;
    }
    float *dx = args.output<float>(0), *dscales = args.output<float>(1),
          *dbiases = args.output<float>(2);
    if (s.spatial == 1) {
      for_each_panel(s, [&](int64_t c, int64_t n) {
        float a[kPanel], b[kPanel], k[kPanel];
        v.column_sum(dy + c, s.batch, s.channels, dbiases + c, n);
        v.column_deviation_dot(x + c, means + c, dy + c, s.batch, s.channels, dscales + c, n);
        for (int64_t j = 0; j < n; ++j) {
          const double r = 1.0 / std::sqrt(vars[c + j] + epsilon), dscale = dscales[c + j] * r;
          const Factors f = factors(dbiases[c + j], dscale, scale[c + j], r);
          dscales[c + j] = static_cast<float>(dscale);
          a[j] = f.dy;
          b[j] = f.x;
          k[j] = f.constant;
        }
        for (int64_t row = 0; row < s.batch; ++row) {
          const int64_t i = row * s.channels + c;
          v.centered2_rows(x + i, means + c, b, dy + i, a, k, dx + i, n);
        }
      });
      return;
    }
    parallel_items(s.channels, 2 * s.batch * s.spatial, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const auto at = [&](int64_t n) { return s.at(n, c); };
        const float mean = means[c];
        double sum = 0, product = 0;
        for (int64_t n = 0; n < s.batch; ++n) {
          sum += v.sum(dy + at(n), s.spatial);
          product += v.deviation_dot(x + at(n), mean, dy + at(n), s.spatial);
        }
        const double r = 1.0 / std::sqrt(vars[c] + epsilon), dscale = product * r;
        const Factors f = factors(sum, dscale, scale[c], r);
        for (int64_t n = 0; n < s.batch; ++n) {
          v.centered2(x + at(n), mean, f.x, dy + at(n), f.dy, f.constant, dx + at(n), s.spatial);
        }
        dscales[c] = static_cast<float>(dscale);
        dbiases[c] = static_cast<float>(sum);
      }
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kBatchNorm, "cpu.batch_norm", takes_norm, plan_norm<false>, true},
    {Op::kBatchNormApply, "cpu.batch_norm", takes_norm, plan_norm<true>, true},
    {Op::kBatchNormGrad, "cpu.batch_norm", takes_norm, plan_norm_grad, true},
};

}  // namespace

std::span<const KernelRow> batch_norm_rows() { return kRows; }

}  // namespace trainrt
