// Training with fused steps: forward, backward and the optimizer's update in one planned run.
#ifndef TRAINRT_TRAINER_H_
#define TRAINRT_TRAINER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainrt/module.h"

namespace trainrt {

struct TrainerOptions {
  /// Loss terms, `NAME[:OUTPUT][*WEIGHT]`, summed. NAME: cross_entropy, nll, mse, l1, huber,
  /// bce_with_logits, bce, sum, mean. Empty: the loss that Module::attach_loss() was given as a
  /// function or a graph.
  std::vector<std::string> losses = {"cross_entropy"};
  std::optional<int64_t> class_axis;
  double label_smoothing = 0;

  /// `NAME[:key=value,…]`: sgd, momentum, nesterov, adam, adamw.
  std::string optimizer = "sgd";
  std::optional<double> lr;            // absent: `lr` of the optimizer text, else its default
  std::optional<double> weight_decay;  // absent: as the optimizer text says
  /// constant | linear | cosine | step | exponential | onecycle, `[:key=value,…]`; see
  /// docs/guide.md.
  std::string schedule = "constant";
  int64_t total_steps =
      0;  // optimizer steps the schedule spans; needed by all but constant and step

  int64_t accumulate = 1;            // batches per update; gradients are averaged over them
  std::optional<double> clip_norm;   // global L2 norm of all gradients
  std::optional<double> clip_value;  // per element, before clip_norm
  std::optional<double> ema;         // decay of an exponential moving average of the weights
  TensorMap static_inputs;           // fixed values of model inputs
  bool nan_check = false;            // stop at the first node that produces NaN or infinity
};

struct StepResult {
  double loss = 0;      // before this step's update
  double lr = 0;        // of the update this batch belongs to
  int64_t step = 0;     // updates done after this call
  bool updated = true;  // false: gradients were accumulated only
};

/// Sums over samples, so that batches of different sizes add up.
struct MetricSums {
  double correct = 0, correct5 = 0;  // predictions that hit
  int64_t classified = 0;            // positions with a class (ignored ones left out)
  double absolute_error = 0;
  int64_t elements = 0;      // of absolute_error
  double nll = 0;            // summed cross entropy, over `classified`
  bool has_classes = false;  // some loss compares with class ids

  MetricSums& operator+=(const MetricSums& other);
  bool has(const std::string& metric) const;
  /// accuracy, top5, mae or perplexity; throws Error(kUsage) for other names, and when no loss of
  /// the trainer gives the metric.
  double value(const std::string& metric) const;
};

struct EvalResult {
  double loss = 0;
  int64_t samples = 0;  // length of the first axis of the first input that has one
  Outputs outputs;
  MetricSums metrics;
};

struct GradOptions {
  bool training = true;
  bool input_grads = true;
  /// The gradient of sum(dy * output) for the `dy/<output>` arrays of the batch, instead of the
  /// loss.
  bool output_grads = false;
};

struct GradResult {
  std::optional<double> loss;  // absent with output_grads
  Outputs outputs;
  TensorMap grads;  // by parameter name, and by input name
};

/// Where a training run stands, kept in checkpoints.
struct Position {
  int64_t epoch = 0;
  int64_t batch = 0;  // batches done in this epoch
  std::string extra;  // the caller's bytes (state of its loader, …)
};

struct BenchResult {
  double step_ms = 0, forward_ms = 0, backward_ms = 0, update_ms = 0;  // medians
  int64_t steps = 0;
  double loss = 0;  // of the last step
  PlanStats plan;
};

/// One node of a run, for profiles.
struct NodeTiming {
  std::string name;      // of the ONNX node
  std::string op;        // of the IR
  std::string kernel;    // row
  std::string section;   // forward | backward | update
  std::string operands;  // "float32[8,16] float32[4,16] -> float32[8,4]"
  int64_t flops = 0;     // of products and convolutions, counted as the direct method's
  int64_t bytes = 0;     // of all operands and results, each once
  double start_ms = 0, ms = 0;
};

enum class GraphStage : uint8_t { kImported, kSpecialized, kJoint, kPlanned };
enum class GraphFormat : uint8_t { kText, kDot };

/// Trains a module, which need not outlive it. Trainers of one module share its moments: use one
/// after the other, with the same optimizer. One thread at a time.
class Trainer {
 public:
  /// Throws Error(kUsage) for options that make no sense.
  Trainer(const Module& module, const TrainerOptions& options);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  const TrainerOptions& options() const;

  /// `batch`: the model's inputs by name, and `target`, or `target/<output>`. The first step checks
  /// and plans: when something stands in the way, throws Error(kUnsupported) with every problem;
  /// nothing has changed then. The same holds for each later batch that does not fit.
  StepResult step(const TensorMap& batch);
  /// The same, with a time for each node that ran.
  StepResult step(const TensorMap& batch, std::vector<NodeTiming>& timings);
  /// The same without waiting for the loss, which is NaN in the result: on a GPU the step may still
  /// run when this returns. take_losses() has it. Contents that a step cannot compute with (an
  /// index out of range) are reported by a later call then.
  StepResult submit(const TensorMap& batch);
  /// Waits for all steps; their losses since the last call, in order.
  std::vector<double> take_losses();
  /// In eval mode. Loss and metrics need the targets; without targets predict().
  EvalResult evaluate(const TensorMap& batch);
  Outputs predict(const TensorMap& batch);
  /// Loss, outputs and gradients of one batch; changes nothing (running statistics included).
  GradResult grad(const TensorMap& batch, const GradOptions& options = {});

  /// Names of the parameters that steps on such a batch train.
  std::vector<std::string> trainable(const TensorMap& batch);
  /// Plans without running.
  PlanStats plan(const TensorMap& batch);
  /// Steps on one batch for about `seconds`, at least 3, after 2 for warming up.
  BenchResult bench(const TensorMap& batch, double seconds);
  /// Five steps on one batch after 2 for warming up: the median time of each node.
  std::vector<NodeTiming> profile(const TensorMap& batch);
  std::string dump(GraphStage stage, GraphFormat format, const TensorMap& batch);

  int64_t steps_done() const;
  double learning_rate() const;  // of the next update
  /// Replaces lr and schedule from now on.
  void set_learning_rate(double lr);
  const Position& position() const;
  void set_position(Position position);

  /// Exchanges weights and their moving average; throws Error(kUsage) without `ema`.
  void swap_ema();

  /// Parameters, buffers, moments, step, position, random state. Written to a temporary file,
  /// synced and renamed: a killed run leaves the old file or the new one.
  void save_checkpoint(const std::string& path) const;
  /// Continues exactly where the saved run stood. Throws Error(kFile) for a damaged file and
  /// Error(kInput) when it belongs to another model or other options; nothing has changed then.
  void load_checkpoint(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Made-up targets that the losses need for such inputs: class ids, or numbers in [0, 1).
TensorMap synthetic_targets(const Module& module, const TrainerOptions& options,
                            const TensorMap& inputs, uint64_t seed);

}  // namespace trainrt

#endif  // TRAINRT_TRAINER_H_
