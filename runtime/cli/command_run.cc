#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "runtime/cli/batch_source.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/evaluation.h"
#include "runtime/cli/interrupt.h"
#include "runtime/cli/progress.h"
#include "runtime/cli/report.h"
#include "runtime/cli/trace.h"
#include "runtime/data/file.h"
#include "runtime/data/safetensors.h"
#include "trainrt/error.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kDefaultEpochs = 10, kSyntheticSteps = 10;

struct RunArgs {
  ModelArgs model;
  DataArgs data;
  TrainArgs train;
  std::optional<int64_t> epochs, steps;
  int64_t early_stop = 0, checkpoint_every = 0, log_every = 10;
  std::string val, metrics, out, state_out, checkpoint, resume, profile;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What a checkpoint keeps of a run besides the trainer's own state, so that the continued run sees
/// the same batches and reports the same numbers.
struct RunState {
  double epoch_sum = 0;  // of losses, weighted by samples
  int64_t epoch_samples = 0;
  double step_sum = 0;  // of the batches that were accumulated since the last update
  int64_t step_batches = 0;
  double best = std::numeric_limits<double>::infinity();  // validation loss
  int64_t since_best = 0;
};

class Run {
 public:
  explicit Run(const RunArgs& args) : args_(args) {}
  int execute();

 private:
  void check_options() const;
  void open_data();
  void count_steps();
  void resume();
  void start();
  void loop();
  /// A step whose loss may still be on its way.
  struct Pending {
    StepResult result;
    int64_t epoch, batch, samples;
  };
  void step();
  /// Waits for the losses of pending steps and counts them.
  void settle();
  void count(const Pending& p);
  void finish_epoch();
  void checkpoint();
  void save_results();
  TensorMap batch(int64_t epoch, int64_t index);
  Json order() const;

  const RunArgs& args_;
  std::unique_ptr<Module> module_;
  TensorMap fixed_, synthetic_;
  std::unique_ptr<BatchSource> source_, val_;
  std::vector<std::string> losses_, metrics_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Progress> progress_;
  RunState state_;
  int64_t epoch_ = 0, index_ = 0, batches_ = 1, epochs_ = 0, total_ = 0;
  uint64_t seed_ = 0;
  double last_loss_ = std::nan("");
  bool stop_ = false;
  Clock::time_point begin_, epoch_begin_;
  int64_t epoch_samples_timed_ = 0;
  Clock::time_point rate_begin_;
  int64_t rate_samples_ = 0;
  double rate_ = 0;
  int profiled_ = 0;  // steps
  std::vector<NodeTiming> timings_;
  std::vector<Pending> pending_;
};

void Run::check_options() const {
  const auto need = [](bool ok, const char* message) {
    if (!ok) throw Error(ErrorCode::kUsage, message);
  };
  need(args_.data.data.empty() || args_.data.shapes.empty(), "--shape goes without --data");
  need(!args_.data.data.empty() || args_.val.empty(), "--val needs --data");
  need(args_.early_stop == 0 || !args_.val.empty(), "--early-stop needs --val");
  need(args_.checkpoint_every == 0 || !args_.checkpoint.empty(),
       "--checkpoint-every needs --checkpoint FILE");
  need(args_.metrics.empty() || !args_.val.empty(), "--metrics needs --val");
  need(!args_.epochs || !args_.data.data.empty(), "--epochs needs --data; use --steps");
  for (const std::string* path :
       {&args_.out, &args_.state_out, &args_.checkpoint, &args_.profile}) {
    if (!path->empty()) check_writable(*path);
  }
}

void Run::open_data() {
  fixed_ = args_.model.fixed_inputs(*module_);
  seed_ = args_.model.seed;
  if (args_.data.data.empty()) {
    synthetic_ = made_up_inputs(*module_, args_.data, seed_, fixed_);
    losses_ = args_.train.losses;
    if (losses_.empty()) {
      losses_ = {"mse"};
      note("no --loss: mse against made-up targets");
    }
    TrainerOptions options = args_.train.options();
    options.losses = losses_;
    options.total_steps = 1;
    TensorMap inputs = synthetic_;
    inputs.insert(fixed_.begin(), fixed_.end());
    synthetic_.merge(synthetic_targets(*module_, options, inputs, seed_));
    return;
  }
  SourceOptions source;
  source.spec = args_.data.data;
  source.shuffle = args_.data.shuffle;
  source.augment = !args_.data.augment.empty();
  source.drop_last = args_.data.drop_last;
  source.batch = args_.data.batch;
  source.seed = seed_;
  source_ = std::make_unique<BatchSource>(*module_, args_.data, fixed_, source);
  batches_ = source_->loader().batches_per_epoch();
  losses_ = args_.train.losses.empty() ? default_losses(source_->batch(0, 0)) : args_.train.losses;
  if (args_.val.empty()) return;
  source.spec = args_.val;
  source.shuffle = source.augment = source.drop_last = false;
  source.classes = source_->dataset().classes();
  DataArgs val = args_.data;
  val.augment.clear();
  val_ = std::make_unique<BatchSource>(*module_, val, fixed_, source);
}

void Run::count_steps() {
  const int64_t accumulate = args_.train.accumulate;
  if (args_.epochs) {
    epochs_ = *args_.epochs;
  } else if (!args_.steps && !args_.data.data.empty()) {
    epochs_ = kDefaultEpochs;
  }
  total_ = args_.steps.value_or(kSyntheticSteps);
  if (epochs_ > 0) {
    if (epochs_ > std::numeric_limits<int64_t>::max() / std::max<int64_t>(batches_, 1)) {
      throw Error(ErrorCode::kUsage, "--epochs is too large");
    }
    const int64_t updates = epochs_ * batches_ / accumulate;
    total_ = args_.steps ? std::min(total_, updates) : updates;
    if (total_ == 0) {
      throw Error(ErrorCode::kUsage, "--accumulate " + std::to_string(accumulate) +
                                         " is more than the run's " +
                                         std::to_string(epochs_ * batches_) + " batches");
    }
  }
}

/// What the order of batches depends on, besides the seed.
Json Run::order() const {
  Json out = {{"batches", batches_}, {"shuffle", args_.data.shuffle}};
  out["batch"] = source_ ? source_->batch_size() : 0;
  out["augment"] = args_.data.augment;
  return out;
}

void Run::resume() {
  if (args_.resume.empty()) return;
  trainer_->load_checkpoint(args_.resume);
  const Position& position = trainer_->position();
  const Json extra = Json::parse(position.extra, nullptr, false);
  if (!extra.is_object() || !extra.contains("order")) {
    throw Error(ErrorCode::kInput, "'" + args_.resume + "' was not written by trainrt run");
  }
  const Json wanted = order();
  for (const auto& [key, value] : wanted.items()) {
    if (extra["order"].value(key, Json()) != value) {
      throw Error(ErrorCode::kInput,
                  "'" + args_.resume + "' belongs to a run with other data: " + key + " was " +
                      extra["order"].value(key, Json()).dump() + ", now it is " + value.dump());
    }
  }
  const auto seed = extra.value("seed", uint64_t{0});
  if (args_.model.seed_option->count() > 0 && seed != args_.model.seed) {
    throw Error(ErrorCode::kUsage, "--seed " + std::to_string(args_.model.seed) + ": '" +
                                       args_.resume + "' belongs to a run with seed " +
                                       std::to_string(seed));
  }
  seed_ = seed;
  if (source_) source_->loader().set_seed(seed_);
  epoch_ = position.epoch;
  index_ = position.batch;
  if (epoch_ < 0 || index_ < 0 || index_ >= batches_) {
    throw Error(ErrorCode::kFile, "'" + args_.resume + "' is damaged: batch " +
                                      std::to_string(index_) + " of " + std::to_string(batches_));
  }
  const auto number = [&extra](const char* key, double otherwise) {
    const Json value = extra.value(key, Json());
    return value.is_number() ? value.get<double>() : otherwise;
  };
  const double nan = std::nan("");
  state_.epoch_sum = number("epoch_sum", nan);
  state_.epoch_samples = extra.value("epoch_samples", int64_t{0});
  state_.step_sum = number("step_sum", nan);
  state_.step_batches = extra.value("step_batches", int64_t{0});
  state_.best = number("best", std::numeric_limits<double>::infinity());
  state_.since_best = extra.value("since_best", int64_t{0});
  last_loss_ = number("last_loss", nan);
}

void Run::checkpoint() {
  settle();
  const Json extra = {{"order", order()},
                      {"seed", seed_},
                      {"epoch_sum", state_.epoch_sum},
                      {"epoch_samples", state_.epoch_samples},
                      {"step_sum", state_.step_sum},
                      {"step_batches", state_.step_batches},
                      {"best", state_.best},
                      {"since_best", state_.since_best},
                      {"last_loss", last_loss_}};
  trainer_->set_position({epoch_, index_, extra.dump()});
  trainer_->save_checkpoint(args_.checkpoint);
}

TensorMap Run::batch(int64_t epoch, int64_t index) {
  if (!source_) return synthetic_;
  TensorMap out = source_->batch(epoch, index);
  fit_column_targets(*module_, losses_, &out);
  return out;
}

void Run::start() {
  const TensorMap first = batch(epoch_, index_);
  const PlanStats plan = trainer_->plan(first);
  StartInfo info;
  info.parameters = parameter_elements(*module_);
  info.trainable = parameter_elements(*module_, trainer_->trainable(first));
  info.arena_bytes = static_cast<int64_t>(plan.arena_bytes);
  info.recomputed_values = plan.recomputed_values;
  info.recomputed_bytes = plan.recomputed_bytes;
  info.recomputed_flops = plan.recomputed_flops;
  info.plan_ms = plan.plan_ms;
  info.first_step = trainer_->steps_done();
  info.total_steps = total_;
  info.epochs = epochs_;
  info.batches = batches_;
  progress_ = make_progress(args_.model.json, args_.log_every);
  progress_->start(info);
  begin_ = epoch_begin_ = rate_begin_ = Clock::now();
}

void Run::step() {
  const TensorMap data = batch(epoch_, index_);
  int64_t samples = 1;
  for (const PortInfo& input : module_->inputs()) {
    const auto array = data.find(input.name);
    if (array == data.end() || array->second.rank() == 0) continue;
    samples = array->second.shape()[0];
    break;
  }
  // Of the first three, which leave making plans behind, the last.
  const bool profiled = !args_.profile.empty() && profiled_ < 3;
  if (profiled) ++profiled_;
  if (profiled) {
    settle();
    pending_.push_back({trainer_->step(data, timings_), epoch_, index_ + 1, samples});
    settle();
  } else {
    pending_.push_back({trainer_->submit(data), epoch_, index_ + 1, samples});
  }
  ++index_;
  const int64_t done = trainer_->steps_done();
  const bool waits = module_->options().device == Device{};
  if (waits || index_ == batches_ || done <= 1 || done % args_.log_every == 0) settle();
}

void Run::settle() {
  const std::vector<double> losses = trainer_->take_losses();
  size_t next = 0;
  for (Pending& p : std::exchange(pending_, {})) {
    if (std::isnan(p.result.loss) && next < losses.size()) p.result.loss = losses[next++];
    count(p);
  }
}

void Run::count(const Pending& p) {
  const StepResult& result = p.result;
  state_.epoch_sum += result.loss * static_cast<double>(p.samples);
  state_.epoch_samples += p.samples;
  epoch_samples_timed_ += p.samples;
  rate_samples_ += p.samples;
  state_.step_sum += result.loss;
  ++state_.step_batches;
  if (!result.updated) return;
  last_loss_ = state_.step_sum / static_cast<double>(state_.step_batches);
  state_.step_sum = 0;
  state_.step_batches = 0;
  const double elapsed = seconds_since(rate_begin_);
  if (rate_ == 0 || elapsed > 0.05) {
    rate_ = static_cast<double>(rate_samples_) / std::max(elapsed, 1e-9);
  }
  if (elapsed > 1) {
    rate_samples_ = 0;
    rate_begin_ = Clock::now();
  }
  progress_->step({result.step, p.epoch + 1, p.batch, last_loss_, result.lr, rate_});
}

void Run::finish_epoch() {
  EpochInfo info;
  info.epoch = epoch_ + 1;
  info.step = trainer_->steps_done();
  info.loss = state_.epoch_sum / static_cast<double>(std::max<int64_t>(state_.epoch_samples, 1));
  info.seconds = seconds_since(epoch_begin_);
  info.samples_per_s = static_cast<double>(epoch_samples_timed_) / std::max(info.seconds, 1e-9);
  if (val_) {
    if (args_.train.ema) trainer_->swap_ema();
    const Evaluation val = evaluate_all(
        *trainer_, *val_, [this](TensorMap* data) { fit_column_targets(*module_, losses_, data); });
    if (args_.train.ema) trainer_->swap_ema();
    info.val_loss = val.loss;
    if (val.metrics.has("accuracy")) info.val_accuracy = val.metrics.value("accuracy");
    for (const std::string& name : metrics_) {
      if (name != "accuracy") info.metrics[name] = val.metrics.value(name);
    }
    if (val.loss < state_.best) {
      state_.best = val.loss;
      state_.since_best = 0;
    } else if (++state_.since_best >= args_.early_stop && args_.early_stop > 0) {
      stop_ = true;
    }
  }
  progress_->epoch(info);
  epoch_begin_ = rate_begin_ = Clock::now();
  epoch_samples_timed_ = rate_samples_ = 0;
  if (stop_) {
    note("stopped early: no lower validation loss for " + std::to_string(args_.early_stop) +
         " epochs");
  }
}

void Run::loop() {
  int64_t saved_at = trainer_->steps_done();
  while (trainer_->steps_done() < total_ && !stop_ && !interrupted()) {
    step();
    const bool epoch_ends = index_ == batches_;
    if (epoch_ends) {
      finish_epoch();
      ++epoch_;
      index_ = 0;
      state_.epoch_sum = 0;
      state_.epoch_samples = 0;
    }
    const int64_t done = trainer_->steps_done();
    const bool due =
        args_.checkpoint_every > 0 ? done - saved_at >= args_.checkpoint_every : epoch_ends;
    if (!args_.checkpoint.empty() && due) {
      checkpoint();
      saved_at = done;
    }
  }
  if (!args_.checkpoint.empty()) checkpoint();
  settle();
  // A run counted in steps may end inside an epoch: report what there is of it.
  if (index_ > 0 && epoch_samples_timed_ > 0 && !interrupted()) finish_epoch();
}

void Run::save_results() {
  if (args_.out.empty() && args_.state_out.empty()) return;
  if (args_.train.ema) trainer_->swap_ema();
  if (!args_.out.empty()) module_->export_onnx(args_.out);
  if (!args_.state_out.empty()) write_safetensors(args_.state_out, module_->state_dict());
  if (args_.train.ema) trainer_->swap_ema();
}

int Run::execute() {
  check_options();
  metrics_ = parse_metrics(args_.metrics);
  module_ = std::make_unique<Module>(args_.model.load());
  open_data();
  count_steps();
  TrainerOptions options = args_.train.options();
  options.losses = losses_;
  options.total_steps = total_;
  options.static_inputs = fixed_;
  trainer_ = std::make_unique<Trainer>(*module_, options);
  resume();
  catch_interrupts();
  start();
  loop();
  if (profiled_ > 0) write_trace(args_.profile, timings_);
  save_results();
  progress_->done({trainer_->steps_done(), last_loss_, seconds_since(begin_), interrupted()});
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Command* run) {
  CLI::App* command = app.add_subcommand("run", "Train a model");
  auto args = std::make_shared<RunArgs>();
  args->model.add(*command);
  args->data.add(*command, true);
  args->data.add_order(*command);
  args->train.add_loss(*command);
  args->train.add_optimizer(*command);
  args->train.add_training(*command);
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 60);
  command->add_option("--epochs", args->epochs, "Passes over the data (default: 10)")
      ->check(positive);
  command->add_option("--steps", args->steps, "Updates (without --data: 10)")->check(positive);
  command->add_option("--val", args->val, "Data for loss and accuracy after each epoch")
      ->type_name("DATA");
  command->add_option("--metrics", args->metrics, "Of --val: accuracy,top5,mae,perplexity");
  command
      ->add_option("--early-stop", args->early_stop,
                   "Stop after so many epochs without a lower validation loss")
      ->check(positive);
  command->add_option("--out", args->out, "The trained model")->type_name("FILE.onnx");
  command->add_option("--state-out", args->state_out, "The trained weights")
      ->type_name("FILE.safetensors");
  command->add_option("--checkpoint", args->checkpoint,
                      "Keeps the run's whole state, also at the end and when interrupted");
  command
      ->add_option("--checkpoint-every", args->checkpoint_every,
                   "Updates between checkpoints (default: an epoch)")
      ->check(positive);
  command->add_option("--resume", args->resume,
                      "Continue from a checkpoint, with the same options");
  command->add_option("--log-every", args->log_every, "With --json: steps between lines")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--weights", args->model.weights, "Start from a checkpoint's weights")
      ->excludes("--resume");
  command
      ->add_option("--profile", args->profile,
                   "The run's third step node by node, as a Chrome trace")
      ->type_name("trace.json");
  add_unsupported(*command, {"--log-dir"});
  command->callback([args, run] { *run = [args] { return Run(*args).execute(); }; });
}

}  // namespace trainrt::cli
