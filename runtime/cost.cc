#include "runtime/cost.h"

namespace trainrt {
namespace {

int64_t product(const Shape& shape, size_t begin = 0) {
  int64_t n = 1;
  for (size_t i = begin; i < shape.size(); ++i) n *= shape[i];
  return n;
}

// Each element of `dense` (the convolution's output side) takes one multiplication and addition per
// element of a filter.
int64_t conv_flops(const Shape& dense, const Shape& weight) {
  return 2 * product(dense) * product(weight, 1);
}

}  // namespace

int64_t node_flops(const Graph& graph, const Node& node) {
  auto shape = [&](size_t i) -> const Shape& { return graph.type(node.inputs[i]).shape; };
  const Shape& out = node.outputs.empty() ? Shape{} : graph.type(node.outputs[0]).shape;
  switch (node.op) {
    case Op::kMatMul: {
      const Shape& a = shape(0);
      const bool transposed = std::get<MatMulAttrs>(node.attrs).trans_a;
      return 2 * product(out) * (transposed ? a[a.size() - 2] : a[a.size() - 1]);
    }
    case Op::kConv:
      return conv_flops(out, shape(1));
    case Op::kNormConv:
      return conv_flops(out, shape(3));
    case Op::kNormConvGrad:
      return 2 * conv_flops(shape(0), shape(6));
    case Op::kConvDataGrad:
      return conv_flops(shape(0), shape(1));
    case Op::kConvWeightGrad:
      return conv_flops(shape(1), out);
    default:
      return 0;
  }
}

int64_t graph_flops(const Graph& graph) {
  int64_t n = 0;
  for (const Node& node : graph.nodes()) n += node_flops(graph, node);
  return n;
}

size_t node_bytes(const Graph& graph, const Node& node) {
  size_t n = 0;
  for (ValueId v : node.inputs) n += graph.type(v).bytes();
  for (ValueId v : node.outputs) n += graph.type(v).bytes();
  return n;
}

}  // namespace trainrt
