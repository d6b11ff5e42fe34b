// Pooling and its gradients: a thread for each cell of the result. MaxPoolGrad finds the maxima
// again, into scratch, and gathers.
#include "kernels/cuda/device/pool.h"

#include <limits>

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

bool is_gradient(Op op) { return op == Op::kMaxPoolGrad || op == Op::kAveragePoolGrad; }

const Shape& input_shape(const NodeView& node) {
  return is_gradient(node.op) ? node.outputs[0].shape : node.inputs[0].shape;
}

/// The last dims (behind the first `skip`), with `missing` before them.
void last_three(const std::vector<int64_t>& dims, int missing, size_t skip, int* out) {
  out[0] = out[1] = out[2] = missing;
  for (size_t i = skip; i < dims.size(); ++i) {
    out[3 - (dims.size() - i)] = static_cast<int>(dims[i]);
  }
}

PoolArguments arguments_of(const NodeView& node) {
  const PoolAttrs& a = node.attr<PoolAttrs>();
  const Shape& x = input_shape(node);
  PoolArguments args{};
  last_three(x, 1, 2, args.in);
  last_three(a.output, 1, 0, args.outs);
  last_three(a.kernel, 1, 0, args.kernel);
  last_three(a.strides, 1, 0, args.stride);
  last_three(a.dilations, 1, 0, args.dilation);
  last_three(a.pads_begin, 0, 0, args.pad);
  last_three(a.pads_end, 0, 0, args.pad_end);
  args.planes = x[0] * x[1];
  args.count_pads = a.count_include_pad;
  args.column_major = a.column_major;
  args.half_out = node.outputs[0].dtype == DType::kBFloat16;
  args.half_x = args.half_dy = node.inputs[0].dtype == DType::kBFloat16;
  if (node.op == Op::kMaxPoolGrad) args.half_x = node.inputs[1].dtype == DType::kBFloat16;
  return args;
}

Support takes_pool(const NodeView& node) {
  const PoolAttrs& a = node.attr<PoolAttrs>();
  const Shape& x = input_shape(node);
  int64_t reach = 0;  // of all positions along a dim
  for (size_t d = 0; d < a.kernel.size(); ++d) {
    reach = std::max({reach, x[d + 2] + a.pads_begin[d] + a.pads_end[d],
                      a.output[d] * a.strides[d] + a.kernel[d] * a.dilations[d]});
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  if (reach > kMost || size_of(x, 2, x.size()) > kMost ||
      size_of(a.output, 0, a.output.size()) > kMost) {
    return Support::no("takes planes of at most 2^30 cells");
  }
  if (node.op == Op::kMaxPool || node.op == Op::kMaxPoolIndices) {
    const DType type = computed(node.inputs[0]).dtype;
    for (const DType known : {DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kUInt8,
                              DType::kInt32, DType::kInt64}) {
      if (type == known) return Support::yes();
    }
    return Support::no("takes no " + std::string(dtype_name(type)));
  }
  return all_of(node, {DType::kFloat32, DType::kBFloat16}).ok ? Support::yes() : all_float(node);
}

std::string_view function_name(Op op) {
  switch (op) {
    case Op::kMaxPool:
      return "max_pool";
    case Op::kMaxPoolIndices:
      return "max_pool_indices";
    case Op::kMaxPoolGrad:
      return "max_pool_grad";
    case Op::kAveragePool:
      return "average_pool";
    default:
      return "average_pool_grad";
  }
}

std::unique_ptr<Kernel> plan_pool(const NodeView& node, Scratch& scratch) {
  const PoolArguments shaped = arguments_of(node);
  const DType type = computed(node.inputs[0]).dtype;
  const int64_t outputs = shaped.planes * size_of(node.attr<PoolAttrs>().output, 0,
                                                  node.attr<PoolAttrs>().output.size());
  const bool maxima = node.op == Op::kMaxPoolGrad;
  if (maxima) scratch.bytes += static_cast<size_t>(outputs) * sizeof(int);
  return make_kernel([shaped, maxima, outputs, gradient = is_gradient(node.op),
                      cells = node.outputs[0].size(),
                      find = maxima ? function(scratch, "max_pool_maxima", type) : nullptr,
                      f = function(scratch, function_name(node.op), type)](const KernelArgs& k) {
    if (cells == 0) return;
    PoolArguments args = shaped;
    args.x = maxima ? k.in[1] : k.in[0];
    args.dy = gradient ? k.in[0] : nullptr;
    args.out = k.out[0];
    args.maxima = static_cast<int*>(k.scratch);
    if (maxima && outputs > 0) k.stream->launch(find, blocks_for(outputs), kThreads, args);
    k.stream->launch(f, blocks_for(cells), kThreads, args);
  });
}

/// cuDNN's pooling: of MaxPoolGrad it wants the result of the forward pass, which the node has not.
Support takes_library(const NodeView& node) {
  const PoolAttrs& a = node.attr<PoolAttrs>();
  if (Support s = all_of(node, {DType::kFloat32}); !s.ok) return s;
  const Shape& x = input_shape(node);
  if (a.kernel.size() < 2) return Support::no("takes two or three spatial dims");
  if (node.outputs[0].size() == 0) return Support::no("takes no empty tensors");
  for (size_t d = 0; d < a.kernel.size(); ++d) {
    if (a.dilations[d] != 1) return Support::no("takes no dilations");
    if (a.pads_begin[d] != a.pads_end[d] || 2 * a.pads_begin[d] > a.kernel[d] ||
        a.output[d] != (x[d + 2] + 2 * a.pads_begin[d] - a.kernel[d]) / a.strides[d] + 1) {
      return Support::no("takes windows between equal pads");
    }
  }
  return Support::yes();
}

std::unique_ptr<Kernel> plan_library(const NodeView& node, Scratch& scratch) {
  const PoolAttrs& a = node.attr<PoolAttrs>();
  gpu::PoolCall call;
  call.kind = node.op == Op::kMaxPool ? gpu::PoolKind::kMax
              : a.count_include_pad   ? gpu::PoolKind::kAverageWithPads
                                      : gpu::PoolKind::kAverage;
  call.backward = is_gradient(node.op);
  call.x = input_shape(node);
  call.y = call.backward ? node.inputs[0].shape : node.outputs[0].shape;
  call.kernel = a.kernel;
  call.strides = a.strides;
  call.pads_begin = a.pads_begin;
  call.pads_end = a.pads_end;
  std::shared_ptr<gpu::LibraryCall> planned;
  if (scratch.device != nullptr) {
    planned = scratch.device->pool(call, nullptr);
    if (planned == nullptr) return nullptr;
  }
  return make_kernel([planned, gradient = call.backward](const KernelArgs& k) {
    const void* in[] = {k.in[0], gradient ? k.out[0] : nullptr, nullptr};
    planned->run(*k.stream, in, k.out, k.scratch);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kMaxPool, "cuda.pool", takes_pool, plan_pool, false, false, true},
    {Op::kMaxPoolIndices, "cuda.pool", takes_pool, plan_pool, false, false, true},
    {Op::kMaxPoolGrad, "cuda.pool", takes_pool, plan_pool, false, false, true},
    {Op::kAveragePool, "cuda.pool", takes_pool, plan_pool, false, false, true},
    {Op::kAveragePoolGrad, "cuda.pool", takes_pool, plan_pool, false, false, true},
    {Op::kMaxPool, "cudnn.pool", takes_library, plan_library},
    {Op::kAveragePool, "cudnn.pool", takes_library, plan_library},
    {Op::kAveragePoolGrad, "cudnn.pool", takes_library, plan_library},
};

}  // namespace

std::span<const KernelRow> pool_rows() { return kRows; }

}  // namespace trainrt::cuda
