// Attention and its gradient: by cuDNN where everything is kept as bfloat16, otherwise by kernels
// of our own, which like cuDNN's keep no matrix of scores.
#include "graph/attention.h"

#include <optional>

#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

/// The parts of a node by meaning. Packed: q, k and v are thirds of one operand.
struct Parts {
  const AttentionAttrs& attrs;
  bool gradient;
  size_t operands;  // 3, or 1 when they are packed
  AttentionDims n;

  explicit Parts(const NodeView& node)
      : attrs(node.attr<AttentionAttrs>()),
        gradient(node.op == Op::kAttentionGrad),
        operands(attrs.packed ? 1 : 3),
        n(attrs, node.inputs.subspan(gradient ? 1 : 0)) {}

  size_t input(size_t part) const { return (gradient ? 1 : 0) + (attrs.packed ? 0 : part); }
  size_t y() const { return gradient ? 1 + operands : 0; }
  size_t log_sums() const { return gradient ? 2 + operands : 1; }
  size_t mask() const { return gradient ? 3 + operands : operands; }
  int64_t first(size_t part) const {
    return attrs.packed ? static_cast<int64_t>(part) * n.heads * n.size : 0;
  }
  HeadStrides strides(size_t part) const {
    return part == 0 ? n.q_strides(attrs) : part == 1 ? n.k_strides(attrs) : n.v_strides(attrs);
  }
};

bool is_half(const TensorType& type) { return type.dtype == DType::kBFloat16; }

Support takes_attention(const NodeView& node) {
  const Parts parts(node);
  if (std::max(parts.n.size, parts.n.value_size) > 256) {
    return Support::no("takes heads of at most 256 elements");
  }
  // Log-sums and masks are in the type of computation.
  const DType type = computed(node.outputs[0]).dtype;
  if (type != DType::kFloat32 && type != DType::kFloat64) {
    return Support::no("takes no " + std::string(dtype_name(type)));
  }
  const TensorType& sums =
      parts.gradient ? node.inputs[parts.log_sums()] : node.outputs[parts.log_sums()];
  if (sums.dtype != type) return Support::no("keeps log-sums in float32");
  if (node.inputs.size() > parts.mask() && node.inputs[parts.mask()].dtype != type) {
    return Support::no("takes float masks");
  }
  return Support::yes();
}

HeadRows rows_of(const Parts& parts, size_t part, const TensorType& type) {
  const HeadStrides s = parts.strides(part);
  return {nullptr, parts.first(part), s.batch, s.head, s.token, is_half(type)};
}

HeadRows rows_of_y(const Parts& parts, const TensorType& type) {
  const HeadStrides s = parts.n.y_strides(parts.attrs);
  return {nullptr, 0, s.batch, s.head, s.token, is_half(type)};
}

AttentionArguments arguments_of(const NodeView& node, const Parts& parts) {
  AttentionArguments args{};
  args.q = rows_of(parts, 0, node.inputs[parts.input(0)]);
  args.k = rows_of(parts, 1, node.inputs[parts.input(1)]);
  args.v = rows_of(parts, 2, node.inputs[parts.input(2)]);
  args.y = rows_of_y(parts, parts.gradient ? node.inputs[parts.y()] : node.outputs[0]);
  if (parts.gradient) {
    args.dy = rows_of_y(parts, node.inputs[0]);
    args.dq = rows_of(parts, 0, node.outputs[0]);
    args.dk = rows_of(parts, 1, node.outputs[parts.attrs.packed ? 0 : 1]);
    args.dv = rows_of(parts, 2, node.outputs[parts.attrs.packed ? 0 : 2]);
  }
  if (node.inputs.size() > parts.mask()) {
    const Shape scores = {parts.n.batch, parts.n.heads, parts.n.queries, parts.n.keys};
    const Shape& mask = node.inputs[parts.mask()].shape;
    // Dims that the mask lacks or has once stand still.
    int64_t stride = 1;
    for (size_t d = 4; d-- > 0;) {
      const size_t missing = 4 - mask.size();
      if (d < missing || mask[d - missing] == 1) continue;
      args.mask_strides[d] = stride;
      stride *= scores[d];
    }
  }
  args.batch = parts.n.batch;
  args.heads = parts.n.heads;
  args.kv_heads = parts.n.kv_heads;
  args.queries = parts.n.queries;
  args.keys = parts.n.keys;
  args.size = parts.n.size;
  args.value_size = parts.n.value_size;
  args.scale = parts.attrs.scale;
  args.causal = parts.attrs.causal;
  return args;
}

/// Fills in the addresses.
AttentionArguments placed(AttentionArguments args, const KernelArgs& k, bool gradient, bool packed,
                          bool masked) {
  const size_t first = gradient ? 1 : 0, operands = packed ? 1 : 3;
  const auto in = [&](size_t i) { return const_cast<void*>(k.in[i]); };
  args.q.data = in(first);
  args.k.data = in(first + (packed ? 0 : 1));
  args.v.data = in(first + (packed ? 0 : 2));
  if (gradient) {
    args.dy.data = in(0);
    args.y.data = in(1 + operands);
    args.log_sums = in(2 + operands);
    args.dq.data = k.out[0];
    args.dk.data = k.out[packed ? 0 : 1];
    args.dv.data = k.out[packed ? 0 : 2];
    args.sums = k.scratch;
  } else {
    args.y.data = k.out[0];
    args.log_sums = k.out[1];
  }
  args.mask = masked ? k.in[(gradient ? 3 : 0) + operands] : nullptr;
  return args;
}

std::unique_ptr<Kernel> plan_attention(const NodeView& node, Scratch& scratch) {
  const Parts parts(node);
  const DType type = computed(node.outputs[0]).dtype;
  const int64_t width = std::max(parts.n.size, parts.n.value_size);
  const std::string wide = width <= 64 ? "_64" : width <= 128 ? "_128" : "_256";
  const int64_t rows = parts.n.batch * parts.n.heads * parts.n.queries;
  const auto tiles = [](int64_t tokens) { return (tokens + 31) / 32; };
  const int64_t query_blocks = parts.n.batch * parts.n.heads * tiles(parts.n.queries);
  const int64_t key_blocks = parts.n.batch * parts.n.kv_heads * tiles(parts.n.keys);
  const bool packed = parts.attrs.packed, masked = node.inputs.size() > parts.mask();
  const AttentionArguments shaped = arguments_of(node, parts);
  if (!parts.gradient) {
    return make_kernel([=, f = function(scratch, "attention" + wide, type)](const KernelArgs& k) {
      if (query_blocks == 0) return;
      k.stream->launch(f, blocks_of(query_blocks), kThreads,
                       placed(shaped, k, false, packed, masked));
    });
  }
  scratch.bytes += static_cast<size_t>(rows) * dtype_size(type);
  return make_kernel([=, sums = function(scratch, "attention_sums", type),
                      dq = function(scratch, "attention_dq" + wide, type),
                      dkv = function(scratch, "attention_dkv" + wide, type)](const KernelArgs& k) {
    const AttentionArguments args = placed(shaped, k, true, packed, masked);
    if (rows > 0) k.stream->launch(sums, blocks_for(rows * 32), kThreads, args);
    if (query_blocks > 0) k.stream->launch(dq, blocks_of(query_blocks), kThreads, args);
    if (key_blocks > 0) k.stream->launch(dkv, blocks_of(key_blocks), kThreads, args);
  });
}

Support takes_library(const NodeView& node) {
  const Parts parts(node);
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const TensorType& t : *list) {
      const bool sums = &t == &(parts.gradient ? node.inputs : node.outputs)[parts.log_sums()];
      if (is_half(t) == sums) return Support::no("takes operands that are kept as bfloat16");
    }
  }
  if (node.inputs.size() > parts.mask()) return Support::no("takes no mask");
  if (parts.n.size % 8 != 0 || parts.n.value_size % 8 != 0 || parts.n.size > 128 ||
      parts.n.value_size > 128) {
    return Support::no("takes heads of 8, 16, … 128 elements");
  }
  if (parts.n.batch * parts.n.heads * parts.n.queries * parts.n.keys == 0) {
    return Support::no("takes no empty tensors");
  }
  if (parts.attrs.causal && parts.n.queries > parts.n.keys) {
    return Support::no("takes no queries that see nothing");
  }
  return Support::yes();
}

std::unique_ptr<Kernel> plan_library(const NodeView& node, Scratch& scratch) {
  const Parts parts(node);
  const AttentionArguments args = arguments_of(node, parts);
  const auto strides = [](const HeadRows& rows) {
    return gpu::AttentionCall::Operand{rows.batch, rows.head, rows.token};
  };
  gpu::AttentionCall call;
  call.backward = parts.gradient;
  call.batch = args.batch;
  call.heads = args.heads;
  call.kv_heads = args.kv_heads;
  call.queries = args.queries;
  call.keys = args.keys;
  call.size = args.size;
  call.value_size = args.value_size;
  call.scale = args.scale;
  call.causal = args.causal != 0;
  call.q = strides(args.q);
  call.k = strides(args.k);
  call.v = strides(args.v);
  call.y = strides(args.y);
  call.dy = strides(args.dy);
  call.dq = strides(args.dq);
  call.dk = strides(args.dk);
  call.dv = strides(args.dv);
  std::shared_ptr<gpu::LibraryCall> planned;
  if (scratch.device != nullptr) {
    planned = scratch.device->attention(call, nullptr);
    if (planned == nullptr) return nullptr;
    scratch.bytes += planned->workspace_bytes();
  }
  const auto at = [](void* data, const HeadRows& rows) -> void* {
    return static_cast<std::byte*>(data) + rows.first * 2;  // of two bytes each
  };
  return make_kernel(
      [=, gradient = parts.gradient, packed = parts.attrs.packed](const KernelArgs& k) {
        const AttentionArguments a = placed(args, k, gradient, packed, false);
        if (!gradient) {
          const void* in[] = {at(a.q.data, a.q), at(a.k.data, a.k), at(a.v.data, a.v)};
          void* out[] = {a.y.data, a.log_sums};
          planned->run(*k.stream, in, out, k.scratch);
          return;
        }
        const void* in[] = {a.dy.data,         at(a.q.data, a.q), at(a.k.data, a.k),
                            at(a.v.data, a.v), a.y.data,          a.log_sums};
        void* out[] = {at(a.dq.data, a.dq), at(a.dk.data, a.dk), at(a.dv.data, a.dv)};
        planned->run(*k.stream, in, out, k.scratch);
      });
}

constexpr KernelRow kRows[] = {
    {Op::kAttention, "cudnn.attention", takes_library, plan_library, false, false, true},
    {Op::kAttentionGrad, "cudnn.attention", takes_library, plan_library, false, false, true},
    {Op::kAttention, "cuda.attention", takes_attention, plan_attention, false, false, true},
    {Op::kAttentionGrad, "cuda.attention", takes_attention, plan_attention, false, false, true},
};

}  // namespace

std::span<const KernelRow> attention_rows() { return kRows; }

}  // namespace trainrt::cuda
