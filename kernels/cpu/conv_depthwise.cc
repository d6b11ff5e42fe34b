// Depthwise convolutions of stride 1 and 2 and their gradients, in float32 on blocks of 16
// channels that are kept as float32 or bfloat16.
#include "kernels/cpu/conv_depthwise.h"

#include <algorithm>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {

Support takes_depthwise(const TensorType& x, const TensorType& w, const TensorType& y,
                        const ConvAttrs& attrs) {
  if (x.layout != Layout::kNChw16c || y.layout != Layout::kNChw16c) {
    return Support::no("takes activations in nChw16c");
  }
  if (attrs.group != x.shape[1] || attrs.group != y.shape[1]) {
    return Support::no("takes a group for each channel");
  }
  if (2 * x.size() < x.stored_size()) {
    return Support::no("takes channels that fill half of their blocks");
  }
  const int64_t kernel = w.shape[2];
  if (w.shape[3] != kernel || (kernel != 3 && kernel != 5)) {
    return Support::no("takes 3x3 and 5x5 filters");
  }
  const int64_t stride = attrs.strides[0];
  if (attrs.strides[1] != stride || stride > 2 || attrs.dilations[0] != 1 ||
      attrs.dilations[1] != 1) {
    return Support::no("takes strides 1 and 2, the same both ways, and no dilation");
  }
  for (const auto* pads : {&attrs.pads_begin, &attrs.pads_end}) {
    if (std::max((*pads)[0], (*pads)[1]) >= kernel) {
      return Support::no("takes pads smaller than the filter");
    }
  }
  return x.size() == 0 || y.size() == 0 ? Support::no("takes no empty operand") : Support::yes();
}

DepthwisePlan::DepthwisePlan(const TensorType& x, const TensorType& w, const TensorType& y,
                             const ConvAttrs& attrs, Scratch& scratch)
    : shape_{x.shape[2], x.shape[3],       y.shape[2],          y.shape[3],
             w.shape[2], attrs.strides[0], attrs.pads_begin[0], attrs.pads_begin[1]},
      batch_(x.shape[0]),
      channels_(x.shape[1]),
      blocks_((channels_ + kBlockChannels - 1) / kBlockChannels),
      threads_(x.size() < kParallelElements ? 1 : cpu_threads()) {
  const auto floats = [&](int64_t n) {
    return book(scratch, sizeof(float) * static_cast<size_t>(n));
  };
  buffers_ = floats(threads_ * shape_.buffer());
  weights_ = floats(blocks_ * filter());
  parts_ = floats(blocks_ * batch_ * filter());
}

void DepthwisePlan::load_weights(const KernelArgs& args, const FloatInput& w) const {
  const int64_t taps = shape_.taps();
  float* to = scratch_at<float>(args, weights_);
  // Zeros in the channels that pad the last block: its results are 0 there.
  std::fill_n(to + (blocks_ - 1) * filter(), filter(), 0.0f);
  for (int64_t c = 0; c < channels_; ++c) {
    float* channel = to + c / kBlockChannels * filter() + c % kBlockChannels;
    float buffer[25];  // of 5x5
    const float* from = w.read(c * taps, taps, buffer);
    for (int64_t t = 0; t < taps; ++t) channel[t * kBlockChannels] = from[t];
  }
}

void DepthwisePlan::sum_weight_parts(const KernelArgs& args, int64_t block, float* dw) const {
  const int64_t taps = shape_.taps(), first = block * kBlockChannels;
  const float* parts = weight_part(args, 0, block);
  float* to = dw + first * taps;
  for (int64_t c = 0; c < std::min(kBlockChannels, channels_ - first); ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      double sum = 0;
      for (int64_t n = 0; n < batch_; ++n) sum += parts[n * filter() + t * kBlockChannels + c];
      *to++ = static_cast<float>(sum);
    }
  }
}

namespace {

// One thread on AVX-512, ms here / oneDNN: 32@112 forward 1.6/2.2, dX 2.1/2.4; 144@56 2.0/2.4 and
// 2.2/2.7; 192@28 0.87/0.75 and 0.92/0.84. Stride 2: 144@56 forward 1.4/1.3, dX 1.1/2.7. The
// gradient of the weights is nowhere faster here.
bool is_faster(const NodeView& node) {
  constexpr int64_t kLarge = 48 * 48;
  if (node.op == Op::kConvWeightGrad) return false;
  if (node.attr<ConvAttrs>().strides[0] == 2) return node.op == Op::kConvDataGrad;
  const Shape& out = node.outputs[0].shape;
  return out[2] * out[3] >= kLarge;
}

Support takes_conv(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  const auto& attrs = node.attr<ConvAttrs>();
  if (attrs.relu || node.inputs.size() > 2) return Support::no("takes no bias and no ReLU");
  const auto [x, w, y] = conv_operands(node);
  if (is_bf16(x) != is_bf16(y)) return Support::no("takes activations of one type");
  if (is_bf16(node.outputs[0]) && node.op == Op::kConvWeightGrad) {
    return Support::no("gives float32 to the weights");
  }
  s = takes_depthwise(x, w, y, attrs);
  if (!s.ok || is_faster(node)) return s;
  for (const KernelRow& row : conv_rows()) {
    if (row.op == node.op && row.supports(node).ok) {
      return Support::no("leaves this shape to oneDNN, which is faster");
    }
  }
  return s;
}

template <typename T>
std::unique_ptr<Kernel> plan_conv(const NodeView& node, Scratch& scratch) {
  const TensorType &x = node.inputs[0], &w = node.inputs[1], &y = node.outputs[0];
  const DepthwisePlan plan(x, w, y, node.attr<ConvAttrs>(), scratch);
  const bool stream = passes_by_cache(y), bf16_weights = is_bf16(w);
  return make_kernel([=](const KernelArgs& args) {
    plan.load_weights(args, {args.in[1], bf16_weights});
    plan.for_each_plane(args, [&](int64_t block, int64_t n, float* buffer) {
      depthwise_ops<T>().forward(plan.shape(), args.input<T>(0) + plan.x_at(n, block), nullptr,
                                 plan.weights(args, block), stream, buffer,
                                 args.output<T>(0) + plan.y_at(n, block));
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> plan_data_grad(const NodeView& node, Scratch& scratch) {
  const TensorType &dy = node.inputs[0], &w = node.inputs[1], &dx = node.outputs[0];
  const DepthwisePlan plan(dx, w, dy, node.attr<ConvAttrs>(), scratch);
  const bool stream = passes_by_cache(dx), bf16_weights = is_bf16(w);
  return make_kernel([=](const KernelArgs& args) {
    plan.load_weights(args, {args.in[1], bf16_weights});
    plan.for_each_plane(args, [&](int64_t block, int64_t n, float* buffer) {
      depthwise_ops<T>().data_grad(plan.shape(), args.input<T>(0) + plan.y_at(n, block),
                                   plan.weights(args, block), stream, buffer,
                                   args.output<T>(0) + plan.x_at(n, block));
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> plan_weight_grad(const NodeView& node, Scratch& scratch) {
  const TensorType &x = node.inputs[0], &dy = node.inputs[1], &dw = node.outputs[0];
  const DepthwisePlan plan(x, dw, dy, node.attr<ConvAttrs>(), scratch);
  return make_kernel([=](const KernelArgs& args) {
    plan.for_each_plane(args, [&](int64_t block, int64_t n, float* buffer) {
      depthwise_ops<T>().weight_grad(plan.shape(), args.input<T>(0) + plan.x_at(n, block), nullptr,
                                     args.input<T>(1) + plan.y_at(n, block), buffer,
                                     plan.weight_part(args, n, block));
    });
    plan.for_each_block(
        args, [&](int64_t block) { plan.sum_weight_parts(args, block, args.output<float>(0)); });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kConv, "cpu.depthwise", takes_conv, plan_by_type<plan_conv<float>, plan_conv<uint16_t>>,
     false, true, true},
    {Op::kConvDataGrad, "cpu.depthwise", takes_conv,
     plan_by_type<plan_data_grad<float>, plan_data_grad<uint16_t>>, false, true, true},
    {Op::kConvWeightGrad, "cpu.depthwise", takes_conv,
     plan_by_type<plan_weight_grad<float>, plan_weight_grad<uint16_t>>, false, true, true},
};

}  // namespace

std::span<const KernelRow> depthwise_rows() { return kRows; }

}  // namespace trainrt
