// LayerNorm and RmsNorm over the trailing axes, and their gradients.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

struct NormShape {
  int64_t rows, size;
};

NormShape norm_shape(const NodeView& node, size_t x) {
  const Shape& shape = node.inputs[x].shape;
  const size_t axis = static_cast<size_t>(node.attr<NormAttrs>().axis);
  return {size_of(shape, 0, axis), size_of(shape, axis, shape.size())};
}

Support takes_norm(const NodeView& node) {
  Support s = all_float(node);
  if (!s.ok) return s;
  return node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

/// y = (x - mean) rsd scale + bias; RmsNorm: the mean is taken as 0
template <bool kRms>
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch&) {
  const NormShape s = norm_shape(node, 0);
  const double epsilon = node.attr<NormAttrs>().epsilon;
  const size_t inputs = node.inputs.size();
  return make_kernel([=](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *x = args.input<float>(0), *scale = inputs > 1 ? args.input<float>(1) : nullptr,
                *bias = inputs > 2 ? args.input<float>(2) : nullptr;
    float *y = args.output<float>(0), *means = kRms ? nullptr : args.output<float>(1),
          *rsds = args.output<float>(kRms ? 1 : 2);
    parallel_items(s.rows, 2 * s.size, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* row = x + r * s.size;
        const double count = static_cast<double>(s.size);
        const float mean = kRms ? 0.0f : static_cast<float>(v.sum(row, s.size) / count);
        const double variance = v.square_deviation(row, mean, s.size) / count;
        const float rsd = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
        v.normalize(row, mean, rsd, scale, bias, y + r * s.size, s.size);
        if constexpr (!kRms) means[r] = mean;
        rsds[r] = rsd;
      }
    });
  });
}

/// With z = (x - mean) rsd and g = dy scale: dx = rsd (g - mean(g) - z mean(g z)),
/// dscale = sum over rows of dy z, dbias = sum over rows of dy. RmsNorm: mean and mean(g) are 0.
template <bool kRms>
std::unique_ptr<Kernel> plan_norm_grad(const NodeView& node, Scratch& scratch) {
  const NormShape s = norm_shape(node, 1);
  const bool scaled = node.inputs.size() > (kRms ? 3 : 4), sums = node.outputs.size() > 1;
  const int64_t parts = sums ? std::clamp<int64_t>(s.rows / 64, 1, 64) : 1;
  const size_t partial =
      sums ? book(scratch, sizeof(float) * 2 * static_cast<size_t>(parts * s.size)) : 0;
  return make_kernel([=](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *dy = args.input<float>(0), *x = args.input<float>(1),
                *means = kRms ? nullptr : args.input<float>(2),
                *rsds = args.input<float>(kRms ? 2 : 3),
                *scale = scaled ? args.input<float>(kRms ? 3 : 4) : nullptr;
    float* dx = args.output<float>(0);
    float* sum = sums ? scratch_at<float>(args, partial) : nullptr;
    const auto rows = [&](int64_t begin, int64_t end, float* dscale, float* dbias) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t i = r * s.size;
        const float mean = kRms ? 0.0f : means[r], rsd = rsds[r];
        double g = 0, gz = 0;
        v.layer_norm_sums(dy + i, x + i, scale, mean, rsd, s.size, &g, &gz);
        const double count = static_cast<double>(s.size);
        v.layer_norm_grad(dy + i, x + i, scale, mean, rsd,
                          kRms ? 0.0f : static_cast<float>(g / count),
                          static_cast<float>(gz / count), dx + i, dscale, dbias, s.size);
      }
    };
    if (!sums) {
      parallel_items(s.rows, 2 * s.size,
                     [&](int64_t begin, int64_t end) { rows(begin, end, nullptr, nullptr); });
      return;
    }
    parallel_items(parts, s.rows / parts * s.size, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        float* dscale = sum + 2 * p * s.size;
        std::fill(dscale, dscale + 2 * s.size, 0.0f);
        rows(s.rows * p / parts, s.rows * (p + 1) / parts, dscale, dscale + s.size);
      }
    });
    v.column_sum(sum, parts, 2 * s.size, args.output<float>(1), s.size);
    if constexpr (kRms) return;
    v.column_sum(sum + s.size, parts, 2 * s.size, args.output<float>(2), s.size);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kLayerNorm, "cpu.layer_norm", takes_norm, plan_norm<false>, true},
    {Op::kLayerNormGrad, "cpu.layer_norm", takes_norm, plan_norm_grad<false>, true},
    {Op::kRmsNorm, "cpu.layer_norm", takes_norm, plan_norm<true>, true},
    {Op::kRmsNormGrad, "cpu.layer_norm", takes_norm, plan_norm_grad<true>, true},
};

}  // namespace

std::span<const KernelRow> layer_norm_rows() { return kRows; }

}  // namespace trainrt
