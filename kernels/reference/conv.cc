#include "kernels/reference/elementwise.h"
#include "kernels/reference/spatial.h"

namespace trainrt::reference {
namespace {

struct ConvPlan {
  Window window;
  int64_t batch, group;
  int64_t in_channels, out_channels;  // per group
  bool bias, relu;
};

ConvPlan conv_plan(const ConvAttrs& attrs, const Shape& x, const Shape& w, const Shape& y) {
  ConvPlan plan;
  plan.window = {last_three(x, 1, 2),
                 last_three(y, 1, 2),
                 last_three(w, 1, 2),
                 last_three(attrs.strides, 1),
                 last_three(attrs.dilations, 1),
                 last_three(attrs.pads_begin, 0),
                 last_three(attrs.pads_end, 0)};
  plan.batch = x[0];
  plan.group = attrs.group;
  plan.in_channels = w[1];
  plan.out_channels = w[0] / attrs.group;
  plan.bias = false;
  plan.relu = attrs.relu;
  return plan;
}

/// Outputs o of [begin, end) along the last dim whose cell for tap t lies inside the input.
std::pair<int64_t, int64_t> valid_outputs(const Window& s, int64_t t, int64_t begin, int64_t end) {
  const int64_t shift = t * s.dilation[2] - s.pad[2];  // cell = o * stride + shift
  const int64_t first = shift >= 0 ? 0 : div_up(-shift, s.stride[2]);
  const int64_t last = shift >= s.in[2] ? 0 : (s.in[2] - 1 - shift) / s.stride[2] + 1;
  return {std::max(begin, first), std::min(end, last)};
}

// y[n,m,o] = bias[m] + sum over c, t of w[m,c,t] x[n,c,o*stride + t*dilation - pad]
template <typename T>
void conv(const ConvPlan& p, const KernelArgs& args) {
  const Window& s = p.window;
  const int64_t pieces = div_up(s.out[2], kBlock);
  const int64_t maps = p.group * p.out_channels;
  const int64_t tasks = p.batch * maps * s.out[0] * s.out[1] * pieces;
#pragma omp parallel for schedule(static) if (tasks * kBlock > kParallel / 8)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t begin = task % pieces * kBlock, line = task / pieces;
    const int64_t o1 = line % s.out[1], o0 = line / s.out[1] % s.out[0];
    const int64_t map = line / (s.out[0] * s.out[1]), m = map % maps, n = map / maps;
    const int64_t end = std::min(s.out[2], begin + kBlock);
    Wide<T> acc[kBlock];
    std::fill_n(acc, kBlock, p.bias ? static_cast<Wide<T>>(args.input<T>(2)[m]) : Wide<T>{0});
    for (int64_t c = 0; c < p.in_channels; ++c) {
      const int64_t plane = n * p.group * p.in_channels + m / p.out_channels * p.in_channels + c;
      const T* x = args.input<T>(0) + plane * volume(s.in);
      const T* w = args.input<T>(1) + (m * p.in_channels + c) * volume(s.kernel);
      for (int64_t t0 = 0; t0 < s.kernel[0]; ++t0) {
        const int64_t i0 = s.cell(0, o0, t0);
        if (!s.inside(0, i0)) continue;
        for (int64_t t1 = 0; t1 < s.kernel[1]; ++t1) {
          const int64_t i1 = s.cell(1, o1, t1);
          if (!s.inside(1, i1)) continue;
          const T* row = x + (i0 * s.in[1] + i1) * s.in[2];
          const T* taps = w + (t0 * s.kernel[1] + t1) * s.kernel[2];
          for (int64_t t2 = 0; t2 < s.kernel[2]; ++t2) {
            const Wide<T> weight = static_cast<Wide<T>>(taps[t2]);
            const auto [first, last] = valid_outputs(s, t2, begin, end);
            for (int64_t o = first; o < last; ++o) {
              acc[o - begin] += weight * static_cast<Wide<T>>(row[s.cell(2, o, t2)]);
            }
          }
        }
      }
    }
    T* y = args.output<T>(0) + line * s.out[2];
    for (int64_t o = begin; o < end; ++o) {
      y[o] = static_cast<T>(acc[o - begin]);
      if (p.relu) y[o] = relu(y[o]);
    }
  }
}

/// The output that meets input cell i with tap t, or -1.
int64_t output_of(const Window& s, size_t d, int64_t i, int64_t t) {
  const int64_t scaled = i + s.pad[d] - t * s.dilation[d];
  if (scaled < 0 || scaled % s.stride[d] != 0) return -1;
  const int64_t o = scaled / s.stride[d];
  return o < s.out[d] ? o : -1;
}

// dx[n,c,i] = sum over m, t of w[m,c,t] dy[n,m,o] with o*stride + t*dilation - pad = i
template <typename T>
void conv_data_grad(const ConvPlan& p, const KernelArgs& args) {
  const Window& s = p.window;
  const int64_t pieces = div_up(s.in[2], kBlock);
  const int64_t channels = p.group * p.in_channels;
  const int64_t tasks = p.batch * channels * s.in[0] * s.in[1] * pieces;
#pragma omp parallel for schedule(static) if (tasks * kBlock > kParallel / 8)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t begin = task % pieces * kBlock, line = task / pieces;
    const int64_t i1 = line % s.in[1], i0 = line / s.in[1] % s.in[0];
    const int64_t plane = line / (s.in[0] * s.in[1]), channel = plane % channels;
    const int64_t n = plane / channels, g = channel / p.in_channels, c = channel % p.in_channels;
    const int64_t end = std::min(s.in[2], begin + kBlock);
    Wide<T> acc[kBlock] = {};
    for (int64_t m = g * p.out_channels; m < (g + 1) * p.out_channels; ++m) {
      const T* dy = args.input<T>(0) + (n * p.group * p.out_channels + m) * volume(s.out);
      const T* w = args.input<T>(1) + (m * p.in_channels + c) * volume(s.kernel);
      for (int64_t t0 = 0; t0 < s.kernel[0]; ++t0) {
        const int64_t o0 = output_of(s, 0, i0, t0);
        if (o0 < 0) continue;
        for (int64_t t1 = 0; t1 < s.kernel[1]; ++t1) {
          const int64_t o1 = output_of(s, 1, i1, t1);
          if (o1 < 0) continue;
          const T* row = dy + (o0 * s.out[1] + o1) * s.out[2];
          const T* taps = w + (t0 * s.kernel[1] + t1) * s.kernel[2];
          for (int64_t t2 = 0; t2 < s.kernel[2]; ++t2) {
            const Wide<T> weight = static_cast<Wide<T>>(taps[t2]);
            // The first output whose cell is not before `begin`, then one every `stride` cells.
            const int64_t shift = t2 * s.dilation[2] - s.pad[2];
            int64_t o = begin > shift ? div_up(begin - shift, s.stride[2]) : 0;
            for (; o < s.out[2]; ++o) {
              const int64_t i = o * s.stride[2] + shift;
              if (i >= end) break;
              acc[i - begin] += weight * static_cast<Wide<T>>(row[o]);
            }
          }
        }
      }
    }
    T* dx = args.output<T>(0) + line * s.in[2];
    for (int64_t i = begin; i < end; ++i) dx[i] = static_cast<T>(acc[i - begin]);
  }
}

// dw[m,c,t] = sum over n, o of x[n,c,o*stride + t*dilation - pad] dy[n,m,o]
template <typename T>
void conv_weight_grad(const ConvPlan& p, const KernelArgs& args) {
  const Window& s = p.window;
  const int64_t taps = volume(s.kernel);
  const int64_t tasks = p.group * p.out_channels * p.in_channels * taps;
#pragma omp parallel for schedule(static) if (tasks * p.batch * volume(s.out) > kParallel)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t tap = task % taps, c = task / taps % p.in_channels;
    const int64_t m = task / taps / p.in_channels;
    const int64_t t2 = tap % s.kernel[2], t1 = tap / s.kernel[2] % s.kernel[1];
    const int64_t t0 = tap / (s.kernel[2] * s.kernel[1]);
    const auto [first, last] = valid_outputs(s, t2, 0, s.out[2]);
    Wide<T> acc = 0;
    for (int64_t n = 0; n < p.batch; ++n) {
      const int64_t plane = n * p.group * p.in_channels + m / p.out_channels * p.in_channels + c;
      const T* x = args.input<T>(0) + plane * volume(s.in);
      const T* dy = args.input<T>(1) + (n * p.group * p.out_channels + m) * volume(s.out);
      for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
        const int64_t i0 = s.cell(0, o0, t0);
        if (!s.inside(0, i0)) continue;
        for (int64_t o1 = 0; o1 < s.out[1]; ++o1) {
          const int64_t i1 = s.cell(1, o1, t1);
          if (!s.inside(1, i1)) continue;
          const T* x_row = x + (i0 * s.in[1] + i1) * s.in[2];
          const T* dy_row = dy + (o0 * s.out[1] + o1) * s.out[2];
          for (int64_t o = first; o < last; ++o) {
            acc += static_cast<Wide<T>>(x_row[s.cell(2, o, t2)]) * static_cast<Wide<T>>(dy_row[o]);
          }
        }
      }
    }
    args.output<T>(0)[task] = static_cast<T>(acc);
  }
}

std::unique_ptr<Kernel> plan_conv(const NodeView& node, Scratch&) {
  ConvPlan plan = conv_plan(node.attr<ConvAttrs>(), node.inputs[0].shape, node.inputs[1].shape,
                            node.outputs[0].shape);
  plan.bias = node.inputs.size() > 2;
  return bind_float(node.outputs[0].dtype, plan, []<typename T>() { return conv<T>; });
}

std::unique_ptr<Kernel> plan_conv_data_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype,
                    conv_plan(node.attr<ConvAttrs>(), node.outputs[0].shape, node.inputs[1].shape,
                              node.inputs[0].shape),
                    []<typename T>() { return conv_data_grad<T>; });
}

std::unique_ptr<Kernel> plan_conv_weight_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype,
                    conv_plan(node.attr<ConvAttrs>(), node.inputs[0].shape, node.outputs[0].shape,
                              node.inputs[1].shape),
                    []<typename T>() { return conv_weight_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kConv, "reference", takes_floats, plan_conv},
    {Op::kConvDataGrad, "reference", takes_floats, plan_conv_data_grad},
    {Op::kConvWeightGrad, "reference", takes_floats, plan_conv_weight_grad},
};

}  // namespace

std::span<const KernelRow> reference_conv_kernels() { return kRows; }

}  // namespace trainrt::reference
