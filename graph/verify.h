// Consistency of a graph, checked after every pass.
#ifndef TRAINRT_GRAPH_VERIFY_H_
#define TRAINRT_GRAPH_VERIFY_H_

#include "graph/graph.h"

namespace trainrt {

/// Order, arity, attribute struct, types (by infer_types), sections, state updates (no reader of a
/// state value after its update, one update per state), unique input names per role. Throws
/// Error(kInternal) with the first fault and the nodes around it.
void verify(const Graph& graph);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_VERIFY_H_
