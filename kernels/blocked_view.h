// Nodes on blocked activations, seen as nodes on plain tensors.
#ifndef TRAINRT_KERNELS_BLOCKED_VIEW_H_
#define TRAINRT_KERNELS_BLOCKED_VIEW_H_

#include <optional>
#include <vector>

#include "kernels/kernel.h"

namespace trainrt {

struct PlainNode {
  Op op;
  Attrs attrs;
  std::vector<TensorType> inputs, outputs;
  NodeView view() const { return {op, attrs, inputs, outputs}; }
};

/// A [N,C,H,W] in nChw16c is a plain [N, C/16, H W, 16]; a plain [N,C,1,1] is a [N, C/16, 1, 16],
/// a [N,1,H,W] a [N, 1, H W, 1]. So elementwise nodes, reductions over (N,) H and W and Concat and
/// Split of channels are nodes on plain tensors: kernels need not know the layout. Nothing when the
/// node is no such node, or its C is no multiple of 16 and it would not keep the padding 0.
std::optional<PlainNode> plain_view(const NodeView& node);

/// Whether any operand has another layout than kPlain.
bool has_layouts(const NodeView& node);
/// Whether any operand is kept as bfloat16.
bool has_bf16(const NodeView& node);

/// What the row says of the node; of its plain view when there are layouts and the row knows none.
Support row_support(const KernelRow& row, const NodeView& node);
/// The kernel of a row that supports the node, planned on what row_support() showed it.
std::unique_ptr<Kernel> plan_row(const KernelRow& row, const NodeView& node, Scratch& scratch);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_BLOCKED_VIEW_H_
