// A graph ready to run: kernels, order, addresses.
#ifndef TRAINRT_RUNTIME_PLAN_H_
#define TRAINRT_RUNTIME_PLAN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "kernels/kernel.h"
#include "runtime/gpu_buffers.h"
#include "runtime/memory_planner.h"
#include "runtime/partitioner.h"
#include "runtime/placement.h"
#include "runtime/schedule.h"

namespace trainrt {

/// The tensor that holds a state input: parameter, buffer, moment, gradient store
/// (Storage::kState).
using StateLookup = std::function<Tensor(const InputAttrs&)>;

/// A plan for a GPU.
struct GpuTarget {
  /// Where it runs; null: nowhere, the plan is made to be looked at.
  std::shared_ptr<GpuContext> context;
  /// Rows that run on the host what the GPU's do not take; empty: such nodes are problems.
  KernelLists fallback;
  gpu::Products products = gpu::Products::kFloat32;
};

struct PlanOptions {
  KernelLists kernels;
  std::optional<GpuTarget> gpu;  // `kernels` are rows for GPUs then
  ScheduleOptions schedule;
  /// Bytes that are taken already; counted when the plan is held against the machine's memory.
  size_t bytes_in_use = 0;
  size_t memory_limit = 0;  // 0: memory_limit()
  bool bf16 = false;        // runtime/precision.h
};

/// Where an operand lies: at a fixed address, or at an offset of its side's arena.
struct Operand {
  std::byte* address = nullptr;  // null: in the arena
  size_t offset = 0;
  Side side = Side::kHost;
};

inline constexpr size_t kNoScratch = static_cast<size_t>(-1);

struct PlanStep {
  NodeId node;
  std::unique_ptr<Kernel> kernel;
  std::vector<Operand> in, out;
  Operand scratch;  // offset kNoScratch: none
  /// In a plan for a GPU: runs on the host, once the stream's work is done.
  bool on_host = false;
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

  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Graph& graph() const { return graph_; }
  const std::vector<PlanStep>& steps() const { return steps_; }
  /// Row that runs a step, "copy" for copied views.
  std::string_view kernel_name(size_t step) const;
  /// First step of the backward and update sections (steps().size() when there is none); only
  /// meaningful without interleaved updates.
  size_t section_begin(Section section) const;
  /// The buffer of a plan-owned input, to be filled before a run; undefined when the graph has no
  /// such input (it was folded away). On a GPU: staging memory, to be filled at once, which the
  /// next run copies.
  Tensor input(std::string_view name, InputRole role) const;
  /// The value of an output after a run; overwritten by the next run. On a GPU: waits for all work
  /// and copies the value to the host; throws Error(kRuntime) when a node found contents that it
  /// cannot compute with.
  Tensor output(std::string_view name, OutputRole role) const;

  /// Null for plans on the CPU.
  GpuBuffers* gpu() const { return gpu_.get(); }
  /// Where an output lies on the GPU; null when it is on the host.
  const void* device_output(std::string_view name, OutputRole role) const;
  /// Whether the steps do without the host, so that they can be recorded.
  bool on_one_side() const { return host_steps_ == 0; }
  /// Number of step 0 in reports of contents that do not fit.
  int32_t first_step() const { return first_step_; }
  /// Tells the context which state steps [first, last) change.
  void note_changes(size_t first, size_t last) const;

  size_t arena_bytes() const { return arena_bytes_; }
  /// Of the nodes that a plan for a GPU runs on the host.
  size_t host_arena_bytes() const { return host_arena_bytes_; }
  size_t arena_lower_bound() const { return lower_bound_; }
  size_t fixed_bytes() const { return fixed_bytes_; }
  int64_t flops() const { return flops_; }
  /// Steps in order with kernels, operands' places, cost and the rows that refused.
  std::string text() const;

 private:
  void make_steps(const PlanOptions& options, std::vector<Lifetime>& arena,
                  std::vector<Lifetime>& host_arena,
                  std::vector<std::pair<size_t, size_t>>& scratch_of);
  void make_blocks(const StateLookup& state, const std::vector<Side>& sides);
  std::vector<Side> sides_of_blocks() const;
  Side side(ValueId v) const;
  Operand operand(ValueId v) const;
  std::string transfer_text() const;

  Graph graph_;
  std::vector<Assignment> rows_;
  std::vector<Side> sides_;  // by NodeId; empty for plans on the CPU
  Schedule schedule_;
  std::vector<PlanStep> steps_;
  std::vector<Tensor> keep_;              // constants, inputs, outputs and state
  std::vector<Tensor> value_tensor_;      // by ValueId; defined for values at fixed addresses
  std::vector<std::byte*> device_value_;  // by ValueId; likewise on the device
  std::vector<size_t> block_offset_;
  std::shared_ptr<GpuBuffers> gpu_;
  bool for_gpu_ = false;
  size_t host_steps_ = 0;
  int32_t first_step_ = 0;
  std::vector<std::pair<size_t, std::byte*>> changes_;  // state by the step that writes it
  mutable std::vector<Tensor> fetched_;                 // by number of the output
  size_t arena_bytes_ = 0, host_arena_bytes_ = 0, lower_bound_ = 0, fixed_bytes_ = 0;
  int64_t flops_ = 0;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_PLAN_H_
