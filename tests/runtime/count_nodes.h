// Looks at what passes made of a graph.
#ifndef TRAINRT_TESTS_RUNTIME_COUNT_NODES_H_
#define TRAINRT_TESTS_RUNTIME_COUNT_NODES_H_

#include <algorithm>
#include <cstdint>

#include "graph/graph.h"

namespace trainrt::testing {

inline int64_t count_nodes(const Graph& graph, Op op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const Node& n) { return n.op == op; });
}

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_RUNTIME_COUNT_NODES_H_
