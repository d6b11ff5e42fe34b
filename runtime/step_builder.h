// The graph of a step: the specialized model with losses, gradients and updates appended.
#ifndef TRAINRT_RUNTIME_STEP_BUILDER_H_
#define TRAINRT_RUNTIME_STEP_BUILDER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/loss.h"
#include "autodiff/optimizer.h"
#include "frontend/onnx_model.h"
#include "graph/graph.h"
#include "graph/passes/passes.h"
#include "kernels/kernel.h"
#include "runtime/custom_loss.h"
#include "runtime/recompute.h"
#include "trainrt/error.h"

namespace trainrt {

enum class Seeds : uint8_t {
  kNone,     // forward only
  kLoss,     // gradients of the loss
  kOutputs,  // gradients of sum(dy * output), dy being inputs of role kGradient named "dy/OUTPUT"
};

/// Parameters that are updated alike.
struct UpdateGroup {
  OptimizerAttrs optimizer;
  size_t rate = 0;  // index of its learning rate among those that a run is given
  std::vector<std::string> parameters;
};

struct UpdateSpec {
  OptimizerAttrs optimizer;         // of every trained parameter, unless there are groups
  std::vector<UpdateGroup> groups;  // only their parameters are trained then
  int64_t accumulate = 1;
  std::optional<double> clip_norm, clip_value, ema;
};

/// What a step computes. Together with the input types it is the key of a plan.
struct StepSpec {
  bool training = true;               // mode of BatchNorm and Dropout
  std::map<std::string, bool> modes;  // of modules where it is another one, by path
  std::vector<LossSpec> losses;
  std::shared_ptr<const CustomLoss> custom_loss;  // in the place of `losses`
  Seeds seeds = Seeds::kNone;
  std::vector<std::string> seed_outputs;  // kOutputs: only these; empty: all float outputs
  bool parameter_grads = true;
  bool input_grads = false;
  std::optional<UpdateSpec> update;  // the parameters' gradients are consumed, not put out
  bool sections = false;             // forward, backward and update are run one by one

  std::string key() const;
  bool has_loss() const { return !losses.empty() || custom_loss != nullptr; }
};

struct StepInputs {
  std::map<std::string, InputBinding> model;
  std::map<std::string, TensorType> targets;  // "target", or "target/OUTPUT"
};

/// A loss term bound to an output.
struct LossTerm {
  LossSpec spec;
  std::string output;
  std::string target;  // name of the target input; empty when the loss has none
  TensorType output_type;
};

struct StepGraph {
  Graph graph;
  std::vector<std::string> trainable;  // parameters with a gradient, in the file's order
  /// The parameters behind each hyper input: one list, or one for each group (which may be empty).
  std::vector<std::vector<std::string>> updated;
  std::vector<LossTerm> terms;
  /// Computes, as outputs in this order, the values that the graph was built for; `decided` holds
  /// them. Empty when nothing depends on contents.
  Graph guard;
  std::vector<Tensor> decided;
  RecomputeReport recomputed;
  int64_t recomputed_flops = 0;
  std::vector<std::string> needs_value;  // not empty: specialize again with these contents
};

struct StepContext {
  const OnnxModel& model;
  SpecializeOptions specialize;
  Contents contents;  // may be empty
  /// Where elementwise nodes are fused: the backend's kernels; empty: nowhere.
  KernelLists fused_kernels;
  /// Bytes that the step's arena may take, as `arena_of` measures it; 0: any.
  size_t memory_budget = 0;
  MeasureArena arena_of;
  std::function<bool(const std::string&)> wants_grad;                  // parameter by file name
  std::function<void(std::string_view stage, const Graph&)> on_stage;  // may be empty
};

/// Names: loss output "loss" (kLoss); gradients by parameter or input name (kGradient); inputs
/// "hyper", or "hyper/GROUP" (kHyper), "rng" (kRng), stores "acc/PARAMETER" (kGradient), averages
/// "ema/PARAMETER" (kOptimizerState). Obstacles go to `problems`; the graph is then unusable.
/// Throws Error(kInput) for inputs or targets that do not fit, Error(kUsage) for losses that name
/// no output, Error(kMemory) when no arena of the step fits the budget.
StepGraph build_step(const StepContext& context, const StepSpec& spec, const StepInputs& inputs,
                     Diagnostics& problems);

/// The update section alone, for the parameters given (name and type): gradients are inputs of role
/// kGradient named "grad/PARAMETER". With groups: as in a whole step. Without: what else the spec
/// asks for, clip_norm as outputs "norm" and "scale" (clip_scale), ema as in a whole step.
StepGraph build_update(const StepContext& context, const UpdateSpec& update,
                       const std::vector<std::pair<std::string, TensorType>>& parameters);

/// The outputs that each term of the losses compares, given the outputs' types in order. A loss
/// that names none takes the first float output (sum and mean: all float outputs). Its target is
/// "target/OUTPUT", or "target" when there is only one output with targets.
std::vector<LossTerm> bind_losses(const std::vector<LossSpec>& losses,
                                  const std::vector<std::pair<std::string, TensorType>>& outputs,
                                  const std::function<bool(const std::string&)>& has_target);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_STEP_BUILDER_H_
