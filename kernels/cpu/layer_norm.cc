// LayerNorm and RmsNorm over the trailing axes, and their gradients.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/bfloat16.h"
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

/// Rows of bfloat16 are converted on the stack.
constexpr int64_t kMaxBf16Row = 8192;

/// Operands of the rows' size may be bfloat16; the others are small.
Support takes_norm(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  const bool backward = node.op == Op::kLayerNormGrad || node.op == Op::kRmsNormGrad;
  const size_t rows_in = backward ? 2 : 1;
  bool bf16 = is_bf16(node.outputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!is_bf16(node.inputs[i])) continue;
    if (i >= rows_in) return Support::no("takes float32 scales, biases and statistics");
    bf16 = true;
  }
  for (const TensorType& t : node.outputs.subspan(1)) {
    if (is_bf16(t)) return Support::no("gives float32 statistics and sums");
  }
  if (bf16 && norm_shape(node, rows_in - 1).size > kMaxBf16Row) {
    return Support::no("takes rows of bfloat16 up to " + std::to_string(kMaxBf16Row));
  }
  return node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

/// y = (x - mean) rsd scale + bias; RmsNorm: the mean is taken as 0
template <bool kRms>
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch&) {
  const NormShape s = norm_shape(node, 0);
  const double epsilon = node.attr<NormAttrs>().epsilon;
  const size_t inputs = node.inputs.size();
  const bool half_x = is_bf16(node.inputs[0]), half_y = is_bf16(node.outputs[0]);
  return make_kernel([=](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const FloatInput x(args.in[0], half_x);
    const FloatOutput y(args.out[0], half_y);
    const float *scale = inputs > 1 ? args.input<float>(1) : nullptr,
                *bias = inputs > 2 ? args.input<float>(2) : nullptr;
    float *means = kRms ? nullptr : args.output<float>(1), *rsds = args.output<float>(kRms ? 1 : 2);
    parallel_items(s.rows, 2 * s.size, [&](int64_t begin, int64_t end) {
      alignas(64) float in[kMaxBf16Row], out[kMaxBf16Row];
      for (int64_t r = begin; r < end; ++r) {
        const float* row = x.read(r * s.size, s.size, in);
        const double count = static_cast<double>(s.size);
        const float mean = kRms ? 0.0f : static_cast<float>(v.sum(row, s.size) / count);
        const double variance = v.square_deviation(row, mean, s.size) / count;
        const float rsd = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
        v.normalize(row, mean, rsd, scale, bias, y.place(r * s.size, out), s.size);
        y.write(r * s.size, s.size, out);
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
  const bool half_dy = is_bf16(node.inputs[0]), half_x = is_bf16(node.inputs[1]),
             half_dx = is_bf16(node.outputs[0]);
  const int64_t parts = sums ? std::clamp<int64_t>(s.rows / 64, 1, 64) : 1;
  const size_t partial =
      sums ? book(scratch, sizeof(float) * 2 * static_cast<size_t>(parts * s.size)) : 0;
  return make_kernel([=](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const FloatInput dys(args.in[0], half_dy), xs(args.in[1], half_x);
    const FloatOutput dxs(args.out[0], half_dx);
    const float *means = kRms ? nullptr : args.input<float>(2),
                *rsds = args.input<float>(kRms ? 2 : 3),
                *scale = scaled ? args.input<float>(kRms ? 3 : 4) : nullptr;
    float* sum = sums ? scratch_at<float>(args, partial) : nullptr;
    const auto rows = [&](int64_t begin, int64_t end, float* dscale, float* dbias) {
      alignas(64) float in0[kMaxBf16Row], in1[kMaxBf16Row], out[kMaxBf16Row];
      for (int64_t r = begin; r < end; ++r) {
        const int64_t i = r * s.size;
        const float *dy = dys.read(i, s.size, in0), *x = xs.read(i, s.size, in1);
        const float mean = kRms ? 0.0f : means[r], rsd = rsds[r];
        double g = 0, gz = 0;
        v.layer_norm_sums(dy, x, scale, mean, rsd, s.size, &g, &gz);
        const double count = static_cast<double>(s.size);
        v.layer_norm_grad(dy, x, scale, mean, rsd, kRms ? 0.0f : static_cast<float>(g / count),
                          static_cast<float>(gz / count), dxs.place(i, out), dscale, dbias, s.size);
        dxs.write(i, s.size, out);
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
    {Op::kLayerNorm, "cpu.layer_norm", takes_norm, plan_norm<false>, true, false, true},
    {Op::kLayerNormGrad, "cpu.layer_norm", takes_norm, plan_norm_grad<false>, true, false, true},
    {Op::kRmsNorm, "cpu.layer_norm", takes_norm, plan_norm<true>, true, false, true},
    {Op::kRmsNormGrad, "cpu.layer_norm", takes_norm, plan_norm_grad<true>, true, false, true},
};

}  // namespace

std::span<const KernelRow> layer_norm_rows() { return kRows; }

}  // namespace trainrt
