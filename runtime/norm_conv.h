// Normalisations inside the convolutions that read them.
#ifndef TRAINRT_RUNTIME_NORM_CONV_H_
#define TRAINRT_RUNTIME_NORM_CONV_H_

#include "graph/graph.h"
#include "runtime/partitioner.h"

namespace trainrt {

/// A BatchNorm whose result only one Conv reads (and that Conv's weight gradient) becomes a
/// NormConv with it, and their gradients a NormConvGrad, where a row runs both on the layouts that
/// the values have: the result is then neither stored nor read. For graphs with layouts.
void fuse_norm_conv(Graph& graph, const RowTable& rows);

/// Whether fuse_norm_conv() can be expected to join this BatchNorm, of a graph without layouts,
/// with a Conv: that one alone reads its result, and a row runs both once their images are blocked.
bool joins_convolution(const Graph& graph, const Node& norm, const RowTable& rows);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_NORM_CONV_H_
