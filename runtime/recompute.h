// How much of the forward section the backward section makes again: what a node costs, and the
// search for the cheapest plan within a budget of memory.
#ifndef TRAINRT_RUNTIME_RECOMPUTE_H_
#define TRAINRT_RUNTIME_RECOMPUTE_H_

#include <cstddef>
#include <functional>

#include "graph/graph.h"
#include "graph/passes/passes.h"
#include "runtime/partitioner.h"

namespace trainrt {

/// Elementwise nodes and norms, whose time is that of moving their operands, where they save more
/// than that. `rows` are the kernels that will run the graph, and must outlive the options.
RecomputeOptions default_recompute(const RowTable& rows);

/// Makes values again in a copy of a joint graph and finishes it for planning.
using FinishGraph = std::function<Graph(const RecomputeOptions&, RecomputeReport*)>;
/// Bytes of a finished graph's arena.
using MeasureArena = std::function<size_t(const Graph&)>;

/// The graph that runs the least again among those whose arena fits into `budget` bytes. Throws
/// Error(kMemory) with the smallest arena that was found when none does.
Graph recompute_within(size_t budget, const RowTable& rows, const Graph& joint,
                       const FinishGraph& finish, const MeasureArena& arena_of,
                       RecomputeReport* report);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_RECOMPUTE_H_
