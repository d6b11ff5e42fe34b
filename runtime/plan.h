// A graph ready to run: kernels, order, addresses.
#ifndef TRAINRT_RUNTIME_PLAN_H_
#define TRAINRT_RUNTIME_PLAN_H_

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "kernels/kernel.h"
#include "runtime/partitioner.h"
#include "runtime/schedule.h"

namespace trainrt {

/// The tensor that holds a state input: parameter, buffer, moment, gradient store
/// (Storage::kState).
using StateLookup = std::function<Tensor(const InputAttrs&)>;

struct PlanOptions {
  KernelLists kernels;
  ScheduleOptions schedule;
  /// Bytes that are taken already; counted when the plan is held against the machine's memory.
  size_t bytes_in_use = 0;
  size_t memory_limit = 0;  // 0: memory_limit()
  bool bf16 = false;        // runtime/precision.h
};

/// Where an operand lies: at a fixed address, or at an offset of the arena.
struct Operand {
  std::byte* address = nullptr;  // null: in the arena
  size_t offset = 0;
};

inline constexpr size_t kNoScratch = static_cast<size_t>(-1);

struct PlanStep {
  NodeId node;
  std::unique_ptr<Kernel> kernel;
  std::vector<Operand> in, out;
  Operand scratch;  // offset kNoScratch: none
};

/// The arena that a plan of the graph would have. Kernels are planned for their scratch only, once
/// for each kind of node over all calls with one `scratch`.
using ScratchSizes = std::unordered_map<std::string, size_t>;
size_t planned_arena_bytes(Graph graph, const PlanOptions& options, ScratchSizes& scratch);

/// Immutable after building. Holds references to the state tensors it was bound to.
class Plan {
 public:
  /// Nodes without a kernel throw Error(kUnsupported) with all of them; a plan that this machine's
  /// memory cannot hold throws Error(kMemory) before anything is allocated.
  Plan(Graph graph, const StateLookup& state, const PlanOptions& options);

  const Graph& graph() const { return graph_; }
  const std::vector<PlanStep>& steps() const { return steps_; }
  /// Row that runs a step, "copy" for copied views.
  std::string_view kernel_name(size_t step) const;
  /// First step of the backward and update sections (steps().size() when there is none); only
  /// meaningful without interleaved updates.
  size_t section_begin(Section section) const;
  /// The buffer of a plan-owned input, to be filled before a run; undefined when the graph has no
  /// such input (it was folded away).
  Tensor input(std::string_view name, InputRole role) const;
  /// The value of an output after a run; overwritten by the next run.
  Tensor output(std::string_view name, OutputRole role) const;

  size_t arena_bytes() const { return arena_bytes_; }
  size_t arena_lower_bound() const { return lower_bound_; }
  size_t fixed_bytes() const { return fixed_bytes_; }
  int64_t flops() const { return flops_; }
  /// Steps in order with kernels, operands' places, cost and the rows that refused.
  std::string text() const;

 private:
  Graph graph_;
  std::vector<Assignment> rows_;
  Schedule schedule_;
  std::vector<PlanStep> steps_;
  std::vector<Tensor> keep_;          // constants, inputs, outputs and state
  std::vector<Tensor> value_tensor_;  // by ValueId; defined for values at fixed addresses
  std::vector<size_t> block_offset_;
  size_t arena_bytes_ = 0, lower_bound_ = 0, fixed_bytes_ = 0;
  int64_t flops_ = 0;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_PLAN_H_
