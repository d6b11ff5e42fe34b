// Which kernel runs which node.
#ifndef TRAINRT_RUNTIME_PARTITIONER_H_
#define TRAINRT_RUNTIME_PARTITIONER_H_

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/kernel.h"
#include "trainrt/error.h"

namespace trainrt {

struct Refusal {
  std::string_view row;
  std::string reason;
};

struct Assignment {
  const KernelRow* row =
      nullptr;  // null for inputs and constants, and where nothing supports the node
  std::vector<Refusal> refusals;  // of the rows before it
};

/// Rows by op, best first.
class RowTable {
 public:
  explicit RowTable(const KernelLists& lists);

  /// The first row that supports the node (kernels/blocked_view.h says what that means), of those
  /// behind `after` when that is given.
  Assignment find(const NodeView& node, const KernelRow* after = nullptr) const;

 private:
  std::array<std::vector<const KernelRow*>, static_cast<size_t>(kOpCount)> by_op_;
};

/// cpu_kernels, then reference_kernels; only the latter when `reference` is set.
KernelLists kernel_lists(bool reference);
/// cuda_kernels.
KernelLists gpu_kernel_lists();

/// The first supporting row for each node, indexed by NodeId. Nodes without one become problems of
/// kind "no_kernel".
std::vector<Assignment> partition(const Graph& graph, const KernelLists& lists,
                                  Diagnostics& problems);

/// The problem of a node that no row took: "`what` runs OP on TYPES", with what the rows said.
Problem no_kernel(const Graph& graph, NodeId id, const Assignment& assignment,
                  const std::string& what);

/// Types of a node's operands, as kernels see them.
struct NodeTypes {
  std::vector<TensorType> inputs, outputs;
  NodeTypes(const Graph& graph, const Node& node);
  NodeView view(const Node& node) const { return {node.op, node.attrs, inputs, outputs}; }
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_PARTITIONER_H_
