// The families of CPU kernels, and what they share.
#ifndef TRAINRT_KERNELS_CPU_ROWS_H_
#define TRAINRT_KERNELS_CPU_ROWS_H_

#include <span>

#include "kernels/kernel.h"

namespace trainrt {

std::span<const KernelRow> matmul_rows();
std::span<const KernelRow> winograd_rows();
std::span<const KernelRow> depthwise_rows();
std::span<const KernelRow> conv_amx_rows();
std::span<const KernelRow> conv_rows();
std::span<const KernelRow> activation_rows();
std::span<const KernelRow> attention_rows();
std::span<const KernelRow> unary_rows();
std::span<const KernelRow> binary_rows();
std::span<const KernelRow> cast_rows();
std::span<const KernelRow> fused_rows();
std::span<const KernelRow> reduce_rows();
std::span<const KernelRow> softmax_rows();
std::span<const KernelRow> cross_entropy_rows();
std::span<const KernelRow> layer_norm_rows();
std::span<const KernelRow> batch_norm_rows();
std::span<const KernelRow> batch_norm_blocked_rows();
std::span<const KernelRow> norm_conv_rows();
std::span<const KernelRow> copy_rows();  // Slice, Concat, Split, Pad, Expand, Fill, …
std::span<const KernelRow> transpose_rows();
std::span<const KernelRow> gather_rows();
std::span<const KernelRow> dropout_rows();
std::span<const KernelRow> pool_rows();
std::span<const KernelRow> pool_blocked_rows();
std::span<const KernelRow> reorder_rows();
std::span<const KernelRow> interpolate_rows();
std::span<const KernelRow> recurrent_rows();
std::span<const KernelRow> optimizer_rows();

inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }

/// Reserves `bytes` of a plan's scratch; the offset, a multiple of 64.
inline size_t book(Scratch& scratch, size_t bytes) {
  const size_t offset = (scratch.bytes + 63) / 64 * 64;
  scratch.bytes = offset + bytes;
  return offset;
}

template <typename T>
T* scratch_at(const KernelArgs& args, size_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(args.scratch) + offset);
}

/// Refuses unless all given operands are float32.
inline Support float_only(std::span<const TensorType> types) {
  for (const TensorType& t : types) {
    if (t.dtype != DType::kFloat32) {
      return Support::no("takes float32, not " + std::string(dtype_name(t.dtype)));
    }
  }
  return Support::yes();
}

/// Refuses unless all inputs and outputs are float32.
inline Support all_float(const NodeView& node) {
  Support s = float_only(node.inputs);
  return s.ok ? float_only(node.outputs) : s;
}

/// As all_float, for rows that read and write bfloat16 too.
inline Support all_float_or_bf16(const NodeView& node) {
  for (const auto types : {node.inputs, node.outputs}) {
    for (const TensorType& t : types) {
      if (t.dtype == DType::kBFloat16) continue;
      if (Support s = float_only({&t, 1}); !s.ok) return s;
    }
  }
  return Support::yes();
}

/// Types of a convolution's tensors, whichever of them the node makes.
struct ConvOperands {
  const TensorType &x, &w, &y;
};

inline ConvOperands conv_operands(const NodeView& node) {
  const TensorType &in0 = node.inputs[0], &in1 = node.inputs[1], &out = node.outputs[0];
  if (node.op == Op::kConv) return {in0, in1, out};
  if (node.op == Op::kConvDataGrad) return {out, in1, in0};
  return {in0, out, in1};
}

/// Product of shape[begin, end).
inline int64_t size_of(const Shape& shape, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t d = begin; d < end; ++d) n *= shape[d];
  return n;
}

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_ROWS_H_
