// Text forms of a graph.
#ifndef TRAINRT_GRAPH_TEXT_H_
#define TRAINRT_GRAPH_TEXT_H_

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace trainrt {

/// One line a node, e.g. `%3:float32[2,4] = MatMul(%0, %1) trans_b=true  // fc (Gemm)`, section
/// headings, and `return name=%3 …` lines at the end. parse(print(g)) gives an equal graph.
std::string print(const Graph& graph);

/// Throws Error(kUsage) with the line number and what was expected.
Graph parse_graph(std::string_view text);

/// Attributes of an op as to_string(attrs) prints them. Throws Error(kUsage).
Attrs parse_attributes(Op op, std::string_view text);

/// Graphviz.
std::string print_dot(const Graph& graph);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_TEXT_H_
