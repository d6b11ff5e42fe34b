// Joint graphs made by hand, for the tests of schedule, plan and executor.
#ifndef TRAINRT_TESTS_RUNTIME_JOINT_GRAPHS_H_
#define TRAINRT_TESTS_RUNTIME_JOINT_GRAPHS_H_

#include <map>
#include <string>

#include "graph/graph.h"
#include "trainrt/tensor.h"

namespace trainrt::testing {

struct JointOptions {
  std::string optimizer = "adam";
  double clip_norm = 0;  // 0: none
  bool views = true;     // reshapes, identities and a StopGradient between the layers
  int layers = 3;
};

/// A chain of matmul, bias, relu with a mean-square loss, its backward and updates, in float64.
/// Parameters w0, b0, w1, …; data x [5,6]; target t [5,6]; hyper.
Graph joint_graph(const JointOptions& options);

/// Values for every input of a graph.
std::map<std::string, Tensor> input_values(const Graph& graph, uint64_t seed = 3);

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_RUNTIME_JOINT_GRAPHS_H_
