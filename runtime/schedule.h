// Order of execution and shared storage of a graph's values.
#ifndef TRAINRT_RUNTIME_SCHEDULE_H_
#define TRAINRT_RUNTIME_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/partitioner.h"

namespace trainrt {

/// Where the bytes of a value live.
enum class Storage : uint8_t {
  kArena,     // planned, dies after its last reader
  kInput,     // data, targets, incoming gradients, hyper-parameters: filled before a run
  kConstant,  // stored once
  kState,     // parameters, buffers, moments, gradient stores: addresses fixed by the caller
  kOutput,    // read after the run
};

struct ScheduleOptions {
  /// Update nodes run as soon as their gradient is there and nobody reads the parameter any more.
  /// Sections cannot be run one by one then.
  bool interleave_updates = true;
  bool in_place = true;
  bool share_views = true;
};

/// A set of values that share bytes.
struct Block {
  Storage storage = Storage::kArena;
  size_t bytes = 0;
  int32_t first = 0, last = 0;  // positions in Schedule::order
};

struct Schedule {
  std::vector<NodeId> order;      // nodes that run; views and constants do not
  std::vector<int32_t> block_of;  // by ValueId; -1 for values that nobody makes or reads
  std::vector<Block> blocks;
  std::vector<bool> copies;  // by NodeId: a view that must be copied
};

/// `rows` as partition() gave them. Throws Error(kInternal) for a graph that verify() would refuse.
Schedule make_schedule(const Graph& graph, std::span<const Assignment> rows,
                       const ScheduleOptions& options);

/// Whether an input is state, whose address the caller fixes.
bool is_state(const InputAttrs& input);
/// Constants and small fills, which are stored when the plan is made.
bool is_stored_constant(const Node& node);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_SCHEDULE_H_
