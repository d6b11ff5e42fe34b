// Runs single nodes on the reference kernels: the Evaluator for constant folding and tests.
#ifndef TRAINRT_KERNELS_REFERENCE_EVALUATE_H_
#define TRAINRT_KERNELS_REFERENCE_EVALUATE_H_

#include <map>
#include <string>

#include "graph/builder.h"
#include "kernels/kernel.h"

namespace trainrt {

/// See Evaluator. Throws Error(kInternal) when no reference row takes the node.
std::vector<Tensor> evaluate_node(Op op, const Attrs& attrs, std::span<const Tensor> inputs,
                                  std::span<const TensorType> outputs);
/// The same on other kernels.
Evaluator make_evaluator(KernelLists lists);

/// Runs a whole graph node by node, each value in a tensor of its own: slow, simple, the yardstick
/// for the executor. `inputs` by name (roles share one name space here); state updates change the
/// given tensors in place. Returns the graph's outputs by name (kState outputs are left out;
/// gradients are named "grad/NAME").
std::map<std::string, Tensor> evaluate_graph(const Graph& graph,
                                             std::map<std::string, Tensor> inputs);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_REFERENCE_EVALUATE_H_
