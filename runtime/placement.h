// Which nodes of a plan for a GPU run there, and the copies between its memory and the host's.
#ifndef TRAINRT_RUNTIME_PLACEMENT_H_
#define TRAINRT_RUNTIME_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/partitioner.h"
#include "trainrt/error.h"

namespace trainrt {

enum class Side : uint8_t { kDevice, kHost };

struct Placement {
  std::vector<Side> sides;       // by NodeId; a node's results lie on its side
  std::vector<Assignment> rows;  // by NodeId, of the device's or the host's table
};

/// Every node that a row of `device` takes runs there. Of the others, those that `host` takes run
/// on the host when it is given, and Transfer nodes bring values over, each at most once in each
/// direction; constants lie on both sides instead. What the host alone reads of a step's inputs
/// stays there; state lies on the device. Nodes that find no row become problems of kind
/// "no_kernel".
Placement assign_sides(Graph& graph, const RowTable& device, const RowTable* host,
                       Diagnostics& problems);

/// Throws Error(kInternal) unless every node reads values of its own side, and Transfer nodes of
/// the other.
void verify_sides(const Graph& graph, const std::vector<Side>& sides);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_PLACEMENT_H_
