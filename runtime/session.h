// A model with its state and its plans: what Module and Trainer share.
#ifndef TRAINRT_RUNTIME_SESSION_H_
#define TRAINRT_RUNTIME_SESSION_H_

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
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
  std::shared_ptr<Session*> owner;  // holds null when the session is gone
  WeightInfo info;
  /// In the store. Brings the host's state up to date, and counts as writing to it.
  Tensor& value();
  Tensor stored;  // value(), as old as it may be
  Tensor grad;
  bool requires_grad = true;
  bool registered = false;            // by the program: the model does not have it
  std::shared_ptr<uint64_t> version;  // of the set of trained parameters, shared by all of them
  std::array<int64_t, 2> updates{};   // see updates_of()
};

using ParameterStates = std::vector<std::shared_ptr<ParameterState>>;

/// How many updates the moments of an optimizer have seen; null for one that has none. Optimizers
/// with the same moments share the number.
int64_t* updates_of(ParameterState& parameter, OptimizerKind kind);

/// A planned step with the tensors that a run reads and writes.
struct CompiledStep {
  std::string key;
  StepSpec spec;
  std::vector<std::string> trainable;
  std::vector<ParameterStates> updated;  // the parameters behind each hyper input
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
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { *self_ = nullptr; }

  const ModuleOptions& options() const { return options_; }
  const OnnxModel& model() const { return model_; }
  const ParameterStates& parameters() const { return parameters_; }
  std::shared_ptr<ParameterState> find_parameter(const std::string& name) const;  // null: none
  // State is kept on the host and, for a GPU, there as well; these bring the host up to date, and
  // count as writing to all of it.
  const Store& parameter_values() const {
    host_state();
    return stored_ == working() ? parameter_store_ : stored_parameters_;
  }
  const Store& buffers() const {
    host_state();
    return stored_ == working() ? buffers_ : stored_buffers_;
  }
  Store& optimizer_state() const {
    host_state();
    return optimizer_state_;
  }
  Store& gradient_stores() const {
    host_state();
    return gradient_stores_;
  }
  void zero_gradient_stores();
  /// As old as it may be; undefined when there is none of this name.
  Tensor stored_buffer(const std::string& name) const {
    return (stored_ == working() ? buffers_ : stored_buffers_).find(name);
  }
  /// Moments and averages by name: whether they are there.
  bool has_optimizer_state(const std::string& name) const {
    return optimizer_state_.contains(name);
  }
  size_t optimizer_state_bytes() const {
    return optimizer_state_.bytes() + gradient_stores_.bytes();
  }
  void host_state() const;
  size_t state_bytes() const;
  DType working() const { return options_.dtype; }
  /// The type of parameters and buffers between steps; the working type unless set otherwise.
  DType stored() const { return stored_; }
  /// Converts all state. Tensors taken before do not follow; parameters do.
  void set_types(DType working, DType stored);
  /// Moves to the CPU or a GPU. Throws what find_gpu() throws; nothing has changed then.
  void set_device(const Device& device);
  const Device& device() const { return options_.device; }
  /// Null on the CPU.
  GpuContext* gpu() const { return gpu_.get(); }
  /// Takes another model; what it has in common with the old one by name and shape is kept.
  void replace_model(OnnxModel model);
  /// Moves parameters, then buffers, to memory that `allocate` gives.
  void move_state(const Allocate& allocate);

  /// Splits a caller's map into inputs, targets and ("dy/…") gradients; unknown names throw
  /// Error(kInput) naming those known. Converts model inputs.
  Batch make_batch(const TensorMap& given, const TensorMap& fixed = {}) const;

  /// The plan for a batch, built on first use. Throws Error(kUnsupported) with all problems,
  /// Error(kInput) or Error(kMemory). Targets are converted and checked in place. The plan is for
  /// this batch, these weights and this rng_step(), when contents decide anything.
  std::shared_ptr<CompiledStep> prepare(const StepSpec& spec, Batch& batch);
  /// What stands in the way of a step; nothing is kept. Returns the parameters it would train.
  std::vector<std::string> check(const StepSpec& spec, Batch& batch, Diagnostics& problems);

  /// prepare() for a step that updates: parameters whose moments have seen different numbers of
  /// updates become groups of their own.
  std::shared_ptr<CompiledStep> prepare_training(StepSpec spec, Batch& batch);
  /// A step of build_update() over these parameters, in the file's order, split in the same way.
  std::shared_ptr<CompiledStep> prepare_update(UpdateSpec update,
                                               const ParameterStates& parameters);

  /// Copies the batch, the random key and (when the step updates) the learning rates with the
  /// numbers of the updates into the plan's inputs and takes the arena.
  void load(CompiledStep& step, const Batch& batch, std::span<const double> rates = {});
  /// The same for a step of prepare_update(): copies ParameterState::grad, which must be defined.
  void load_update(CompiledStep& step, const ParameterStates& parameters,
                   std::span<const double> rates = {});
  /// After a run of the update section: its parameters have seen one more.
  void count_updates(CompiledStep& step);
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

  /// Called while graphs are built, from now on; `key` tells plans made with others apart. Null:
  /// nobody.
  void set_borders(ModuleBorders* borders, std::string key) {
    borders_ = borders;
    borders_key_ = std::move(key);
  }
  /// Modes of modules that differ from that of the whole, by path.
  const std::map<std::string, bool>& modes() const { return modes_; }
  void set_modes(std::map<std::string, bool> modes) { modes_ = std::move(modes); }

  /// Adds a tensor of the working type that no graph reads.
  std::shared_ptr<ParameterState> add_parameter(const WeightInfo& info, const Tensor& value);
  Tensor add_buffer(const std::string& name, const Tensor& value);
  /// Names of buffers that state_dict() and checkpoints leave out.
  const std::set<std::string>& transient() const { return transient_; }
  void set_transient(const std::string& buffer) { transient_.insert(buffer); }

  /// Dotted path of the module that a parameter or buffer belongs to.
  std::string owner_of(const std::string& name) const;
  bool owned_by(const std::string& name, const std::string& module) const;
  /// The caller's bytes, by module.
  const std::map<std::string, std::string>& extra_states() const { return extra_states_; }
  void set_extra_state(const std::string& module, std::string bytes) {
    extra_states_[module] = std::move(bytes);
  }

  /// One thread at a time runs a session.
  std::recursive_mutex& mutex() { return mutex_; }

  // Counter of the random generator: one number a batch in train mode.
  uint64_t rng_step() const { return rng_step_; }
  void set_rng_step(uint64_t step) { rng_step_ = step; }
  uint64_t seed() const { return seed_; }
  void set_seed(uint64_t seed) { seed_ = seed; }

  /// Of Module::attach_loss(): terms, or a loss of the program's own (null: none).
  const std::vector<LossSpec>& attached_losses() const { return attached_losses_; }
  const std::shared_ptr<const CustomLoss>& custom_loss() const { return custom_loss_; }
  void attach(std::vector<LossSpec> losses, std::shared_ptr<const CustomLoss> custom) {
    attached_losses_ = std::move(losses);
    custom_loss_ = std::move(custom);
  }

 private:
  std::shared_ptr<ParameterState> keep_parameter(const WeightInfo& info);
  void take_weights();
  void point_parameters();
  void drop_plans();
  void pull_stored();
  void push_stored(const CompiledStep& step, bool updated);
  using StageHook = std::function<void(std::string_view, const Graph&)>;
  StepGraph build_graph(const StepSpec& spec, const Batch& batch, const StageHook& on_stage,
                        Diagnostics& problems);
  PlanOptions plan_options(const StepSpec& spec) const;
  PlanOptions host_plan_options(const StepSpec& spec) const;
  std::unique_ptr<Plan> make_plan(const PlanOptions& options, Graph graph);
  std::string make_key(const StepSpec& spec, const Batch& batch) const;
  Tensor contents_of(const InputAttrs& attrs, const Batch& batch) const;
  bool holds_for(CompiledStep& step, const Batch& batch);
  void load_inputs(const Plan& plan, const Batch& batch) const;
  void load_rates(CompiledStep& step, std::span<const double> rates) const;
  ParameterStates states_of(const std::vector<std::string>& names) const;
  void open_device();
  void reserve(const Plan& plan);
  bool on_gpu() const { return options_.device.type == DeviceType::kCuda; }
  bool on_reference() const;
  KernelLists kernels() const;
  KernelLists host_kernels() const;
  KernelLists fused_kernels() const;
  StepInputs step_inputs(const Batch& batch) const;
  void add_state(const Graph& graph);
  Tensor state_tensor(const InputAttrs& attrs) const;

  ModuleOptions options_;
  OnnxModel model_;
  std::shared_ptr<uint64_t> trained_version_;
  DType stored_;
  std::shared_ptr<Session*> self_ = std::make_shared<Session*>(this);
  ParameterStates parameters_;
  std::map<std::string, size_t> by_name_, by_original_;
  Store parameter_store_, buffers_, given_gradients_;
  mutable Store optimizer_state_, gradient_stores_;
  std::shared_ptr<GpuContext> gpu_;           // outlives the plans
  Store stored_parameters_, stored_buffers_;  // when stored_ is not the working type
  std::set<std::string> registered_buffers_;
  std::vector<LossSpec> attached_losses_;
  std::set<std::string> value_inputs_;  // inputs whose contents decided a shape
  Arena arena_, guard_arena_;
  // Most recently used first. Those of updates do not push out those of the model.
  std::list<std::shared_ptr<CompiledStep>> plans_, update_plans_;
  uint64_t seed_ = 0, rng_step_ = 0;
  int64_t dumped_ = 0;  // plans written for DebugOptions
  ModuleBorders* borders_ = nullptr;
  std::string borders_key_;
  std::map<std::string, bool> modes_;
  std::shared_ptr<const CustomLoss> custom_loss_;
  std::set<std::string> transient_;
  std::map<std::string, std::string> extra_states_;
  std::recursive_mutex mutex_;
};

PlanStats plan_stats(const Session& session, const CompiledStep& step);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_SESSION_H_
