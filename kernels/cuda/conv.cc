// Convolutions and their gradients: cuDNN, and loops of our own for what it does not take.
#include "kernels/cuda/device/conv.h"

#include "kernels/cuda/product.h"

namespace trainrt::cuda {
namespace {

/// Types of a convolution's tensors, whichever of them the node makes.
struct Operands {
  const TensorType &x, &w, &y;
};

Operands operands_of(const NodeView& node) {
  const TensorType &in0 = node.inputs[0], &in1 = node.inputs[1], &out = node.outputs[0];
  if (node.op == Op::kConv) return {in0, in1, out};
  if (node.op == Op::kConvDataGrad) return {out, in1, in0};
  return {in0, out, in1};
}

Support takes_library(const NodeView& node) {
  Support s = takes_factors(node);
  if (!s.ok) return s;
  if (node.outputs[0].dtype == DType::kFloat64) return Support::no("takes no float64");
  for (const auto types : {node.inputs, node.outputs}) {
    for (const TensorType& t : types) {
      if (t.size() == 0) return Support::no("takes no empty operands");
    }
  }
  return s;
}

class LibraryConv final : public Kernel {
 public:
  std::unique_ptr<gpu::LibraryCall> call;
  size_t workspace = 0;
  bool bias = false;      // the call adds it
  bool finishes = false;  // what the call leaves
  bool sums_in_scratch = false;
  size_t sums = 0;
  Finish finish;

  void run(const KernelArgs& args) const override {
    const void* in[] = {args.in[0], args.in[1], bias ? args.in[2] : nullptr};
    void* out[] = {sums_in_scratch ? scratch_at(args, sums) : args.out[0]};
    call->run(*args.stream, in, out, scratch_at(args, workspace));
    if (finishes) finish.run(args, out[0]);
  }
};

/// A dim before the spatial ones, for libraries that know no convolution along one.
template <typename List>
List at_least_two(List list, size_t leading, int64_t missing) {
  if (list.size() - leading == 1) {
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(leading), missing);
  }
  return list;
}

std::unique_ptr<Kernel> plan_library(const NodeView& node, Scratch& scratch) {
  if (scratch.device == nullptr) return no_kernel();
  const auto& attr = node.attr<ConvAttrs>();
  const auto [x, w, y] = operands_of(node);
  gpu::ConvCall call;
  call.pass = node.op == Op::kConv           ? gpu::ConvPass::kForward
              : node.op == Op::kConvDataGrad ? gpu::ConvPass::kData
                                             : gpu::ConvPass::kWeight;
  call.x = at_least_two(x.shape, 2, 1);
  call.w = at_least_two(w.shape, 2, 1);
  call.y = at_least_two(y.shape, 2, 1);
  call.strides = at_least_two(attr.strides, 0, 1);
  call.dilations = at_least_two(attr.dilations, 0, 1);
  call.pads_begin = at_least_two(attr.pads_begin, 0, 0);
  call.pads_end = at_least_two(attr.pads_end, 0, 0);
  call.group = attr.group;
  call.x_type = x.dtype;
  call.w_type = w.dtype;
  call.y_type = y.dtype;
  call.products = scratch.products;
  call.bias = node.inputs.size() > 2;
  call.relu = attr.relu;

  auto kernel = std::make_unique<LibraryConv>();
  kernel->bias = call.bias;
  std::string why;
  kernel->call = scratch.device->convolution(call, &why);
  if (!kernel->call && (call.bias || call.relu)) {
    call.bias = call.relu = false;
    call.y_type = DType::kFloat32;
    kernel->call = scratch.device->convolution(call, &why);
    kernel->bias = false;
    kernel->finishes = true;
  }
  if (!kernel->call) return nullptr;
  if (kernel->finishes) {
    kernel->finish =
        Finish(node, scratch, 1, size_of(y.shape, 2, y.shape.size()), y.shape[1], attr.relu);
    kernel->sums_in_scratch = y.dtype != DType::kFloat32;
    if (kernel->sums_in_scratch) {
      kernel->sums = book(scratch, static_cast<size_t>(y.size()) * sizeof(float));
    }
  }
  kernel->workspace = book(scratch, kernel->call->workspace_bytes());
  return kernel;
}

Support takes_own(const NodeView& node) {
  Support s = takes_factors(node);
  if (!s.ok) return s;
  constexpr int64_t kMost = int64_t{1} << 29;  // coordinates are 32-bit numbers there
  const auto& attr = node.attr<ConvAttrs>();
  const Shape& x = operands_of(node).x.shape;
  for (size_t d = 0; d + 2 < x.size(); ++d) {
    if (x[d + 2] + attr.pads_begin[d] + attr.pads_end[d] >= kMost || attr.strides[d] >= kMost ||
        attr.dilations[d] >= kMost) {
      return Support::no("takes spatial dims and strides below 2^29");
    }
  }
  return s;
}

ConvArguments arguments_of(const NodeView& node) {
  const auto& attr = node.attr<ConvAttrs>();
  const auto [x, w, y] = operands_of(node);
  ConvArguments a{};
  a.batch = x.shape[0];
  a.group = attr.group;
  a.in_channels = w.shape[1];
  a.out_channels = w.shape[0] / attr.group;
  a.in_volume = size_of(x.shape, 2, x.shape.size());
  a.out_volume = size_of(y.shape, 2, y.shape.size());
  a.taps = size_of(w.shape, 2, w.shape.size());
  for (int d = 0; d < 3; ++d) {
    a.in[d] = a.out[d] = a.kernel[d] = a.stride[d] = a.dilation[d] = 1;
  }
  const size_t spatial = x.shape.size() - 2;
  for (size_t d = 0; d < spatial; ++d) {
    const size_t to = d + 3 - spatial;
    a.in[to] = static_cast<int>(x.shape[d + 2]);
    a.out[to] = static_cast<int>(y.shape[d + 2]);
    a.kernel[to] = static_cast<int>(w.shape[d + 2]);
    a.stride[to] = static_cast<int>(attr.strides[d]);
    a.dilation[to] = static_cast<int>(attr.dilations[d]);
    a.pad[to] = static_cast<int>(attr.pads_begin[d]);
  }
  a.relu = attr.relu;
  a.parts = 1;
  return a;
}

// Tiles of fewer channels are mostly empty.
constexpr int64_t kLeastForTiles = 9;

std::unique_ptr<Kernel> plan_own(const NodeView& node, Scratch& scratch) {
  if (node.outputs[0].size() == 0) return make_kernel([](const KernelArgs&) {});
  ConvArguments shaped = arguments_of(node);
  const bool direct = std::max(shaped.in_channels, shaped.out_channels) < kLeastForTiles;
  const auto tiles = [](int64_t lines) { return (lines + 63) / 64; };
  std::string name;
  int64_t blocks = 0;
  if (node.op == Op::kConv) {
    name = "conv_";
    blocks = tiles(shaped.out_channels) * tiles(shaped.batch * shaped.out_volume) * shaped.group;
  } else if (node.op == Op::kConvDataGrad) {
    name = "conv_data_grad_";
    blocks = tiles(shaped.in_channels) * tiles(shaped.batch * shaped.in_volume) * shaped.group;
  } else {
    name = "conv_weight_grad_";
    const int64_t filters = shaped.group * shaped.out_channels;
    blocks = direct ? filters * shaped.in_channels * ((shaped.taps + 8) / 9)
                    : tiles(shaped.out_channels) * tiles(shaped.in_channels * shaped.taps) *
                          shaped.group;
    const Parts parts = split_sum(blocks, shaped.batch * shaped.out_volume);
    shaped.part = parts.length;
    shaped.parts = parts.count;
    blocks *= parts.count;
  }
  const bool split = shaped.parts > 1, by_element = direct && node.op != Op::kConvWeightGrad;
  const gpu::Size3 grid = by_element ? blocks_for(node.outputs[0].size()) : blocks_of(blocks);
  const DType sum = sum_type(node.outputs[0].dtype);
  const size_t at = split ? book(scratch, static_cast<size_t>(node.outputs[0].size()) *
                                              static_cast<size_t>(shaped.parts) * dtype_size(sum))
                          : 0;
  name += direct ? "direct_" : "tiles_";
  return make_kernel(
      [=, bias = node.inputs.size() > 2, f = function(scratch, name + product_suffix(node)),
       finish = Finish(node, scratch, shaped.parts, 1, 1, false)](const KernelArgs& args) {
        ConvArguments all = shaped;
        all.a = args.in[0];
        all.b = args.in[1];
        all.bias = bias ? args.in[2] : nullptr;
        all.result = split ? scratch_at(args, at) : args.out[0];
        args.stream->launch(f, grid, kThreads, all);
        if (split) finish.run(args, all.result);
      });
}

constexpr KernelRow kRows[] = {
    {Op::kConv, "cudnn.conv", takes_library, plan_library, false, false, true},
    {Op::kConvDataGrad, "cudnn.conv", takes_library, plan_library, false, false, true},
    {Op::kConvWeightGrad, "cudnn.conv", takes_library, plan_library, false, false, true},
    {Op::kConv, "cuda.conv", takes_own, plan_own, false, false, true},
    {Op::kConvDataGrad, "cuda.conv", takes_own, plan_own, false, false, true},
    {Op::kConvWeightGrad, "cuda.conv", takes_own, plan_own, false, false, true},
};

}  // namespace

std::span<const KernelRow> conv_rows() { return kRows; }

}  // namespace trainrt::cuda
