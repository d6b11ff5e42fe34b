// Arithmetic of nodes.
#ifndef TRAINRT_RUNTIME_COST_H_
#define TRAINRT_RUNTIME_COST_H_

#include <cstdint>

#include "graph/graph.h"

namespace trainrt {

/// Multiplications and additions of a MatMul or convolution node, 0 for other ops.
int64_t node_flops(const Graph& graph, const Node& node);
int64_t graph_flops(const Graph& graph);
/// Bytes of a node's operands.
size_t node_bytes(const Graph& graph, const Node& node);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_COST_H_
