// Optimizers as objects, for loops written with Module: param groups, schedulers, gradient
// clipping, moving averages, and the fused step with groups.
#ifndef TRAINRT_OPTIMIZER_H_
#define TRAINRT_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {

/// Parameters with settings of their own. What is absent is taken from the optimizer's text, else
/// it is PyTorch's default. Setting what the optimizer does not have throws Error(kUsage).
struct ParamGroup {
  std::vector<Parameter> params;
  std::optional<double> lr, weight_decay;
  std::optional<double> momentum;           // momentum, nesterov
  std::optional<double> dampening;          // momentum
  std::optional<double> beta1, beta2, eps;  // adam, adamw
};

/// Updates parameters of one module from Parameter::grad(), by the kernels of Trainer's fused step.
///
/// Moments belong to the module, as those of Trainer: optimizers and trainers of one kind may take
/// turns on a module and continue each other's moments; Trainer's checkpoints hold them. Each
/// parameter counts its own updates, as in PyTorch. A new Optimizer continues what is there;
/// reset_state() starts afresh.
///
/// Keeps the module's parameters alive. Movable, not copyable; one thread at a time may use a
/// module and what was made from it.
class Optimizer {
 public:
  /// `text` as TrainerOptions::optimizer: "adamw:lr=1e-3,weight_decay=0.1". All parameters, or
  /// these in one group. Throws Error(kUsage): unknown optimizers and keys, an empty list, a
  /// parameter given twice, of another module, or an empty handle.
  Optimizer(const Module& module, const std::string& text);
  Optimizer(const Module& module, const std::string& text, std::vector<Parameter> params);
  Optimizer(const Module& module, const std::string& text, std::vector<ParamGroup> groups);
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;
  ~Optimizer();

  /// One update of every parameter that has a gradient. The others stay as they are, as do their
  /// moments and their counts of updates; without any gradient nothing happens. Gradients are left.
  /// Throws Error(kUsage) when a group has been changed to something that makes no sense, before
  /// anything is updated.
  void step();
  /// Drops the gradients of its parameters, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  /// With every setting of the optimizer filled in. May be changed between steps. A new learning
  /// rate costs nothing; any other new value makes a new plan at the next step.
  std::vector<ParamGroup>& param_groups();
  const std::vector<ParamGroup>& param_groups() const;
  /// Throws Error(kUsage) as the constructor; nothing has changed then.
  void add_param_group(ParamGroup group);

  const std::string& name() const;  // "adamw"
  int64_t steps_done() const;       // by step() and train_step()

  /// Settings of the groups, which parameter is in which, the counts of updates and the moments, by
  /// names that start with the optimizer's: "adamw/group/0/lr" (float64 scalars),
  /// "adamw/group_of/PARAMETER", "adamw/updates/PARAMETER" and "adamw/steps" (int64 scalars),
  /// "adamw/exp_avg/PARAMETER". Moments share the module's storage, and are there from a
  /// parameter's first update on.
  StateDict state_dict() const;
  /// All or nothing: when a name is missing or unknown, a type or shape does not fit, or parameters
  /// are grouped otherwise, throws Error(kInput) with every fault, and nothing has changed.
  void load_state_dict(const StateDict& state);
  /// Moments and counts of updates of its parameters to zero.
  void reset_state();

  struct Impl;
  /// For trainrt's own layers.
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

struct TrainStepOptions {
  std::optional<double> clip_norm;   // global L2 norm of all gradients
  std::optional<double> clip_value;  // per element, before clip_norm
};

/// Forward, the module's attached loss, backward and the optimizer's update in one planned run, as
/// Trainer::step, with the optimizer's groups. Trains the parameters of the groups that are not
/// frozen; reads and writes no Parameter::grad(). StepResult::lr is that of the first group.
/// Throws Error(kUsage) without an attached loss, in eval mode, or with an optimizer of another
/// module; what Trainer::step throws besides.
StepResult train_step(Module& module, Optimizer& optimizer, const TensorMap& batch,
                      const TrainStepOptions& options = {});

/// Scales the gradients, in place, so that their global L2 norm is at most `max_norm` (PyTorch's
/// formula: by min(1, max_norm / (norm + 1e-6))), and returns the norm before. The same bits as
/// TrainerOptions::clip_norm: the sum goes over the parameters in the file's order, whatever the
/// order here. Parameters without a gradient do not count; 0 when there are none. All must be of
/// one module, else Error(kUsage).
double clip_grad_norm_(const std::vector<Parameter>& params, double max_norm);
/// Holds every element of the gradients to [-clip_value, clip_value], in place.
void clip_grad_value_(const std::vector<Parameter>& params, double clip_value);
/// Multiplies the gradients, in place. After n calls of backward(), 1.0 / n makes their sum the
/// mean, with the same bits as TrainerOptions::accumulate.
void scale_grad_(const std::vector<Parameter>& params, double factor);

/// Sets the learning rates of an optimizer: rate at the time of construction times the schedule's
/// factor. Construction sets the rates of update 0; call step() after each update. A group added
/// later takes part from its rate at the next step() on. Keeps the optimizer's groups alive.
class LRScheduler {
 public:
  /// `text` and `total_steps` as TrainerOptions::schedule; throws Error(kUsage) as Trainer does.
  LRScheduler(Optimizer& optimizer, const std::string& text, int64_t total_steps = 0);
  /// factor(update), update from 0.
  LRScheduler(Optimizer& optimizer, std::function<double(int64_t)> factor);
  /// One factor for each group; throws Error(kUsage) when their number is another.
  LRScheduler(Optimizer& optimizer, std::vector<std::function<double(int64_t)>> factors);
  LRScheduler(LRScheduler&&) noexcept;
  LRScheduler& operator=(LRScheduler&&) noexcept;
  ~LRScheduler();

  /// Throws Error(kUsage) when a factor gives no number of 0 or more; nothing has changed then.
  void step();
  /// The rates set last, one for each group.
  std::vector<double> get_last_lr() const;
  int64_t steps_done() const;

  /// "steps" (int64 scalar) and "base_lrs" (float64); the schedule itself is not part of it.
  StateDict state_dict() const;
  /// Sets the optimizer's rates too. Throws Error(kInput) when it does not fit; nothing has changed
  /// then.
  void load_state_dict(const StateDict& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// average = decay average + (1 - decay) parameter, by the nodes of TrainerOptions::ema and with
/// the same bits. The averages belong to the module and are those of Trainer (there is one of each
/// parameter): made first, they begin as the weights of that moment.
class ExponentialMovingAverage {
 public:
  /// Of the parameters that are not frozen, or of these. Throws Error(kUsage) unless 0 < decay < 1,
  /// and for lists as Optimizer does.
  ExponentialMovingAverage(const Module& module, double decay);
  ExponentialMovingAverage(const Module& module, double decay, std::vector<Parameter> params);
  ExponentialMovingAverage(ExponentialMovingAverage&&) noexcept;
  ExponentialMovingAverage& operator=(ExponentialMovingAverage&&) noexcept;
  ~ExponentialMovingAverage();

  /// Call it after each update. Throws Error(kUsage) while the averages are swapped in.
  void update();
  /// Exchanges weights and averages.
  void swap();
  /// store() keeps a copy of the weights, copy_to() makes the averages the weights, restore() puts
  /// the kept copy back and drops it; throws Error(kUsage) without one.
  void store();
  void copy_to();
  void restore();

  /// The averages by parameter name; they share the module's storage.
  StateDict state_dict() const;
  /// All or nothing; throws Error(kInput) with every fault.
  void load_state_dict(const StateDict& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainrt

#endif  // TRAINRT_OPTIMIZER_H_
