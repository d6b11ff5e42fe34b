// A model with its state and its plans: what Module and Trainer share.
#ifndef TRAINRT_RUNTIME_SESSION_H_
#define TRAINRT_RUNTIME_SESSION_H_

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"
#include "runtime/arena.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "runtime/step_builder.h"
#include "runtime/store.h"
#include "trainrt/module.h"

namespace trainrt {

struct ParameterState {
  WeightInfo info;
  Tensor value;  // in the store
  Tensor grad;
  bool requires_grad = true;
  std::shared_ptr<uint64_t> version;  // of the set of trained parameters, shared by all of them
};

/// A planned step with the tensors that a run reads and writes.
struct CompiledStep {
  std::string key;
  StepSpec spec;
  std::vector<std::string> trainable;
  std::vector<LossTerm> terms;
  std::unique_ptr<Plan> plan;
  std::unique_ptr<Executor> executor;
  /// When tensor contents decided branches or shapes: the plan holds for calls in which the guard's
  /// outputs come out as `decided`.
  std::unique_ptr<Plan> guard;
  std::unique_ptr<Executor> guard_executor;
  std::vector<Tensor> decided;
  RecomputeReport recomputed;
  int64_t recomputed_flops = 0;
  double plan_ms = 0;
  uint64_t run = 0;  // number of the arena's user when this step ran last
};

/// Inputs of a call after checks and conversions.
struct Batch {
  TensorMap inputs;             // by the model's names
  std::set<std::string> fixed;  // inputs whose contents are part of the plan
  TensorMap targets;            // by "target", "target/OUTPUT"
  TensorMap grads;              // by output
};

class Session {
 public:
  Session(OnnxModel model, const ModuleOptions& options);

  const ModuleOptions& options() const { return options_; }
  const OnnxModel& model() const { return model_; }
  const std::vector<std::shared_ptr<ParameterState>>& parameters() const { return parameters_; }
  std::shared_ptr<ParameterState> find_parameter(const std::string& name) const;  // null: none
  const Store& parameter_values() const { return parameter_store_; }
  const Store& buffers() const { return buffers_; }
  Store& optimizer_state() { return optimizer_state_; }
  Store& gradient_stores() { return gradient_stores_; }
  size_t state_bytes() const;
  Arena& arena() { return arena_; }
  DType working() const { return options_.dtype; }

  /// Splits a caller's map into inputs, targets and ("dy/…") gradients; unknown names throw
  /// Error(kInput) naming those known. Converts model inputs.
  Batch make_batch(const TensorMap& given, const TensorMap& fixed = {}) const;

  /// The plan for a batch, built on first use. Throws Error(kUnsupported) with all problems,
  /// Error(kInput) or Error(kMemory). Targets are converted and checked in place. The plan is for
  /// this batch, these weights and this rng_step(), when contents decide anything.
  std::shared_ptr<CompiledStep> prepare(const StepSpec& spec, Batch& batch);
  /// What stands in the way of a step; nothing is kept. Returns the parameters it would train.
  std::vector<std::string> check(const StepSpec& spec, Batch& batch, Diagnostics& problems);

  /// Copies the batch, the random key and (when the step updates) the hyper-parameters into the
  /// plan's inputs and takes the arena.
  void load(CompiledStep& step, const Batch& batch, double lr, int64_t update_number);
  /// Types of the model's outputs at these inputs.
  std::vector<std::pair<std::string, TensorType>> output_types(bool training, const Batch& batch);

  /// Fills the incoming gradients of a Seeds::kOutputs step, absent ones with zeros.
  void load_grads(CompiledStep& step, const TensorMap& grads);
  /// Runs one section, or all.
  void run(CompiledStep& step);
  void run(CompiledStep& step, Section section);
  /// Whether the arena still holds the values of the step's last load().
  bool holds(const CompiledStep& step) const { return step.run != 0 && arena_.user() == step.run; }

  /// Values of the model's outputs, cloned.
  std::vector<std::pair<std::string, Tensor>> outputs(const CompiledStep& step) const;

  /// Text or dot of the graph after a stage: specialized, joint, or (text only) planned.
  std::string dump(const StepSpec& spec, Batch& batch, std::string_view stage, bool dot);

  // Counter of the random generator: one number a batch in train mode.
  uint64_t rng_step() const { return rng_step_; }
  void set_rng_step(uint64_t step) { rng_step_ = step; }
  uint64_t seed() const { return seed_; }
  void set_seed(uint64_t seed) { seed_ = seed; }

 private:
  using StageHook = std::function<void(std::string_view, const Graph&)>;
  StepGraph build_graph(const StepSpec& spec, const Batch& batch, const StageHook& on_stage,
                        Diagnostics& problems);
  PlanOptions plan_options(const StepSpec& spec) const;
  std::unique_ptr<Plan> make_plan(const StepSpec& spec, Graph graph);
  std::string make_key(const StepSpec& spec, const Batch& batch) const;
  Tensor contents_of(const InputAttrs& attrs, const Batch& batch) const;
  bool holds_for(CompiledStep& step, const Batch& batch);
  void load_inputs(const Plan& plan, const Batch& batch) const;
  bool on_reference() const;
  KernelLists kernels() const;
  KernelLists fused_kernels() const;
  StepInputs step_inputs(const Batch& batch) const;
  void add_state(const Graph& graph);
  Tensor state_tensor(const InputAttrs& attrs) const;

  ModuleOptions options_;
  OnnxModel model_;
  std::shared_ptr<uint64_t> trained_version_;
  std::vector<std::shared_ptr<ParameterState>> parameters_;
  std::map<std::string, size_t> by_name_, by_original_;
  Store parameter_store_, buffers_, optimizer_state_, gradient_stores_;
  std::set<std::string> value_inputs_;  // inputs whose contents decided a shape
  Arena arena_, guard_arena_;
  std::list<std::shared_ptr<CompiledStep>> plans_;  // most recently used first
  uint64_t seed_ = 0, rng_step_ = 0;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_SESSION_H_
