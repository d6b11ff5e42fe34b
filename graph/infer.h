// Types of a node's outputs from the types of its inputs: shape inference on concrete shapes.
#ifndef TRAINRT_GRAPH_INFER_H_
#define TRAINRT_GRAPH_INFER_H_

#include <span>
#include <vector>

#include "graph/attrs.h"
#include "graph/types.h"

namespace trainrt {

/// Checks number, types, shapes and attributes completely: kernels rely on it and check no more
/// (index contents excepted). Throws Error(kInvalidModel) with what was expected and what came; the
/// message names no node: the caller adds it.
std::vector<TensorType> infer_types(Op op, std::span<const TensorType> inputs, const Attrs& attrs);

/// NumPy broadcasting; throws Error(kInvalidModel) naming both shapes.
Shape broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_INFER_H_
