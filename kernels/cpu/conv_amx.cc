// Rows of the convolutions by the tile unit.
#include <algorithm>

#include "kernels/cpu/amx.h"
#include "kernels/cpu/amx_conv.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

AmxConvShape shape_of(const NodeView& node) {
  const auto [x, w, y] = conv_operands(node);
  const auto& attr = node.attr<ConvAttrs>();
  const auto pair = [](const std::vector<int64_t>& v, size_t first) {
    return AmxConvShape::Pair{v[first], v[first + 1]};
  };
  AmxConvShape s = {x.shape[0],
                    x.shape[1],
                    y.shape[1],
                    pair(x.shape, 2),
                    pair(y.shape, 2),
                    pair(w.shape, 2),
                    pair(attr.strides, 0),
                    pair(attr.dilations, 0),
                    pair(attr.pads_begin, 0)};
  s.plain_x = x.layout == Layout::kPlain;
  return s;
}

Support takes_amx_conv(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  if (!is_bf16(node.inputs[0]) || !is_bf16(node.inputs[1])) {
    return Support::no("convolves bfloat16");
  }
  const bool weight_grad = node.op == Op::kConvWeightGrad;
  if (weight_grad && is_bf16(node.outputs[0])) return Support::no("gives float32 to the weights");
  if (node.inputs.size() > 2 && is_bf16(node.inputs[2])) return Support::no("adds a float32 bias");
  if (!cpu_has_amx()) return Support::no("this processor has no tile unit (AMX-BF16)");
  const auto [x, w, y] = conv_operands(node);
  if (y.layout != Layout::kNChw16c) return Support::no("takes activations in nChw16c");
  const int64_t columns = (w.shape[3] - 1) * node.attr<ConvAttrs>().dilations[1] + 1;
  if (x.layout == Layout::kPlain && (node.op == Op::kConvDataGrad || columns > kAmxDepth ||
                                     x.shape[1] * w.shape[3] > kAmxDepth)) {
    return Support::no(
        "takes a plain x if a row of a filter has up to 32 values from as many columns, and gives "
        "none");
  }
  if (node.attr<ConvAttrs>().group != 1) return Support::no("takes one group");
  const bool empty = x.size() == 0 || y.size() == 0 || w.size() == 0;
  return empty ? Support::no("takes no empty operand") : s;
}

std::unique_ptr<Kernel> plan_conv(const NodeView& node, Scratch& scratch) {
  const AmxConv conv(shape_of(node), node.op == Op::kConvDataGrad, is_bf16(node.outputs[0]),
                     node.attr<ConvAttrs>().relu);
  const size_t work = book(scratch, conv.scratch_bytes());
  const bool bias = node.inputs.size() > 2;
  return make_kernel([=](const KernelArgs& args) {
    conv.run(args.input<uint16_t>(0), args.input<uint16_t>(1),
             bias ? args.input<float>(2) : nullptr, args.out[0], scratch_at<char>(args, work));
  });
}

std::unique_ptr<Kernel> plan_weight_grad(const NodeView& node, Scratch& scratch) {
  const AmxConvWeightGrad grad(shape_of(node));
  const size_t work = book(scratch, grad.scratch_bytes());
  return make_kernel([=](const KernelArgs& args) {
    grad.run(args.input<uint16_t>(0), args.input<uint16_t>(1), args.output<float>(0),
             scratch_at<char>(args, work));
  });
}

constexpr KernelRow kRows[] = {
    {Op::kConv, "amx.conv", takes_amx_conv, plan_conv, false, true, true},
    {Op::kConvDataGrad, "amx.conv_data_grad", takes_amx_conv, plan_conv, false, true, true},
    {Op::kConvWeightGrad, "amx.conv_weight_grad", takes_amx_conv, plan_weight_grad, false, true,
     true},
};

}  // namespace

std::span<const KernelRow> conv_amx_rows() { return kRows; }

}  // namespace trainrt
