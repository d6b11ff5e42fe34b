// Quantized nodes in the way of gradients.
#ifndef TRAINRT_RUNTIME_QUANTIZATION_H_
#define TRAINRT_RUNTIME_QUANTIZATION_H_

#include <span>

#include "graph/graph.h"
#include "trainrt/error.h"

namespace trainrt {

/// Reports (kind "no_gradient") each quantizing ONNX node that lies between a value of `wrt` and
/// one of `ends` and lets no gradient through: what stands before it would silently not be trained.
void report_quantization(const Graph& graph, std::span<const ValueId> ends,
                         std::span<const ValueId> wrt, bool straight_through,
                         Diagnostics& problems);

/// Of a model in which nothing can be trained: the nodes that tell that it is a quantized one.
void report_quantized_weights(const Graph& graph, Diagnostics& problems);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_QUANTIZATION_H_
