#include "trainrt/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/train/averages.h"
#include "runtime/train/loss_options.h"
#include "runtime/train/metrics.h"
#include "runtime/train/option_check.h"
#include "runtime/train/trainer_impl.h"

namespace trainrt {
namespace {

// Puts the running statistics back when a gradient was asked for, not a step.
class KeepBuffers {
 public:
  explicit KeepBuffers(Session& session) : session_(session) {
    for (size_t i = 0; i < session.buffers().size(); ++i) {
      saved_.push_back(session.buffers().at(i).clone());
    }
  }
  KeepBuffers(const KeepBuffers&) = delete;
  KeepBuffers& operator=(const KeepBuffers&) = delete;
  ~KeepBuffers() {
    for (size_t i = 0; i < saved_.size(); ++i) session_.buffers().at(i).copy_from(saved_[i]);
  }

 private:
  Session& session_;
  std::vector<Tensor> saved_;
};

double loss_of(const CompiledStep& step) {
  return step.plan->output("loss", OutputRole::kLoss).item();
}

int64_t samples_of(const Session& session, const Batch& batch) {
  for (const Port& port : session.model().inputs()) {
    const auto input = batch.inputs.find(port.name);
    if (input != batch.inputs.end() && input->second.rank() > 0) return input->second.shape()[0];
  }
  return 1;
}

}  // namespace

Trainer::Impl::Impl(const Module& module, const TrainerOptions& given)
    : session(module.session()), options(given) {
  if (options.losses.empty()) custom_loss = session->custom_loss();
  if (custom_loss == nullptr) losses = loss_specs(given);
  double text_lr = std::numeric_limits<double>::quiet_NaN();
  update.optimizer = parse_optimizer(options.optimizer, &text_lr);
  lr = options.lr            ? *options.lr
       : std::isnan(text_lr) ? default_learning_rate(update.optimizer.kind)
                             : text_lr;
  check_usage(std::isfinite(lr) && lr >= 0, "lr must be a number of 0 or more");
  if (options.weight_decay) {
    check_usage(std::isfinite(*options.weight_decay) && *options.weight_decay >= 0,
                "weight decay must be a number of 0 or more");
    update.optimizer.weight_decay = *options.weight_decay;
  }
  check_usage(options.accumulate >= 1, "accumulate must be 1 or more");
  check_usage(options.total_steps >= 0, "total_steps must be 0 or more");
  check_above_zero(options.clip_norm, "clip_norm");
  check_above_zero(options.clip_value, "clip_value");
  check_above_zero(options.ema, "ema");
  check_usage(!options.ema || *options.ema < 1, "ema must be below 1");
  update.accumulate = options.accumulate;
  update.clip_norm = options.clip_norm;
  update.clip_value = options.clip_value;
  update.ema = options.ema;
  schedule = parse_schedule(options.schedule, options.total_steps);
}

Batch Trainer::Impl::make_batch(const TensorMap& given) const {
  return session->make_batch(given, options.static_inputs);
}

StepSpec Trainer::Impl::train_spec() const {
  StepSpec spec;
  spec.modes = session->modes();
  set_loss(spec);
  spec.seeds = Seeds::kLoss;
  spec.update = update;
  spec.sections = update.accumulate > 1;
  return spec;
}

std::shared_ptr<CompiledStep> Trainer::Impl::prepare(Batch& batch) {
  return session->prepare_training(train_spec(), batch);
}

StepResult Trainer::Impl::run_step(CompiledStep& step, const Batch& batch, bool wait) {
  StepResult result;
  result.lr = next_lr();
  session->load(step, batch, {{result.lr}});
  step.executor->set_nan_check(options.nan_check);
  if (update.accumulate == 1) {
    session->run(step);
  } else {
    if (micro_step == 0) session->zero_gradient_stores();
    session->run(step, Section::kForward);
    session->run(step, Section::kBackward);
    result.updated = ++micro_step == update.accumulate;
    if (result.updated) {
      session->run(step, Section::kUpdate);
      micro_step = 0;
    }
  }
  session->set_rng_step(session->rng_step() + 1);
  if (result.updated) {
    session->count_updates(step);
    ++steps;
  }
  result.step = steps;
  if (wait) {
    result.loss = loss_of(step);
  } else {
    result.loss = std::numeric_limits<double>::quiet_NaN();
    note_loss(step);
  }
  return result;
}

void Trainer::Impl::note_loss(const CompiledStep& step) {
  const void* address = step.plan->device_output("loss", OutputRole::kLoss);
  if (address == nullptr) {
    losses_seen.push_back(loss_of(step));
    return;
  }
  const auto& context = step.plan->gpu()->shared_context();
  if (loss_log == nullptr || loss_log->context() != context) {
    if (loss_log != nullptr) losses_seen = loss_log->take();
    loss_log = std::make_unique<ScalarLog>(context);
  }
  const Graph& graph = step.plan->graph();
  loss_log->note(address, graph.type(graph.find_output("loss", OutputRole::kLoss)).dtype);
}

PlanStats Trainer::Impl::stats(const CompiledStep& step) const {
  return plan_stats(*session, step);
}

Trainer::Trainer(const Module& module, const TrainerOptions& options)
    : impl_(std::make_unique<Impl>(module, options)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

const TrainerOptions& Trainer::options() const { return impl_->options; }

StepResult Trainer::step(const TensorMap& given) {
  Batch batch = impl_->make_batch(given);
  const auto step = impl_->prepare(batch);
  return impl_->run_step(*step, batch);
}

StepResult Trainer::submit(const TensorMap& given) {
  Batch batch = impl_->make_batch(given);
  const auto step = impl_->prepare(batch);
  return impl_->run_step(*step, batch, false);
}

std::vector<double> Trainer::take_losses() {
  std::vector<double> losses = std::exchange(impl_->losses_seen, {});
  if (impl_->loss_log != nullptr) {
    const std::vector<double> more = impl_->loss_log->take();
    losses.insert(losses.end(), more.begin(), more.end());
  }
  return losses;
}

EvalResult Trainer::evaluate(const TensorMap& given) {
  Session& session = *impl_->session;
  Batch batch = impl_->make_batch(given);
  StepSpec spec;
  spec.training = false;
  impl_->set_loss(spec);
  const auto step = session.prepare(spec, batch);
  session.load(*step, batch);
  session.run(*step);
  EvalResult result;
  result.loss = loss_of(*step);
  result.samples = samples_of(session, batch);
  for (const LossTerm& term : step->terms) {
    if (term.target.empty()) continue;
    add_metrics(term, step->plan->output(term.output, OutputRole::kOutput),
                batch.targets.at(term.target), result.metrics);
  }
  result.outputs = Outputs(session.outputs(*step), 0);
  return result;
}

Outputs Trainer::predict(const TensorMap& given) {
  Session& session = *impl_->session;
  Batch batch = impl_->make_batch(given);
  StepSpec spec;
  spec.training = false;
  const auto step = session.prepare(spec, batch);
  session.load(*step, batch);
  session.run(*step);
  return Outputs(session.outputs(*step), 0);
}

GradResult Trainer::grad(const TensorMap& given, const GradOptions& options) {
  Session& session = *impl_->session;
  Batch batch = impl_->make_batch(given);
  StepSpec spec;
  spec.training = options.training;
  spec.input_grads = options.input_grads;
  if (options.output_grads) {
    spec.seeds = Seeds::kOutputs;
    for (const auto& [name, value] : batch.grads) spec.seed_outputs.push_back(name);
    if (batch.grads.empty()) {
      throw Error(ErrorCode::kInput,
                  "gradients of outputs are asked for: the batch needs a 'dy/OUTPUT'");
    }
  } else {
    impl_->set_loss(spec);
    spec.seeds = Seeds::kLoss;
  }
  const auto step = session.prepare(spec, batch);
  session.load(*step, batch);
  if (options.output_grads) session.load_grads(*step, batch.grads);
  const KeepBuffers keep(session);
  step->executor->set_nan_check(impl_->options.nan_check);
  session.run(*step);

  GradResult result;
  if (!options.output_grads) result.loss = loss_of(*step);
  result.outputs = Outputs(session.outputs(*step), 0);
  for (const Output& o : step->plan->graph().outputs()) {
    if (o.role != OutputRole::kGradient) continue;
    result.grads[o.name] = step->plan->output(o.name, OutputRole::kGradient).clone();
  }
  if (options.output_grads && options.input_grads) {
    // The caller's dy says which outputs count: an input they do not reach has gradient zero.
    for (const auto& [name, value] : batch.inputs) {
      if (!is_float(value.dtype()) || result.grads.contains(name)) continue;
      result.grads[name] = Tensor(session.working(), value.shape());
    }
  }
  return result;
}

std::vector<std::string> Trainer::trainable(const TensorMap& given) {
  Batch batch = impl_->make_batch(given);
  return impl_->prepare(batch)->trainable;
}

PlanStats Trainer::plan(const TensorMap& given) {
  Batch batch = impl_->make_batch(given);
  return impl_->stats(*impl_->prepare(batch));
}

std::string Trainer::dump(GraphStage stage, GraphFormat format, const TensorMap& given) {
  const bool dot = format == GraphFormat::kDot;
  if (stage == GraphStage::kImported) {
    if (dot) throw Error(ErrorCode::kUsage, "stage imported has a text form only");
    return impl_->session->model().text();
  }
  constexpr std::string_view kStages[] = {"imported", "specialized", "joint", "planned"};
  Batch batch = impl_->make_batch(given);
  return impl_->session->dump(impl_->train_spec(), batch, kStages[static_cast<size_t>(stage)], dot);
}

int64_t Trainer::steps_done() const { return impl_->steps; }
double Trainer::learning_rate() const { return impl_->next_lr(); }

void Trainer::set_learning_rate(double lr) {
  check_usage(std::isfinite(lr) && lr >= 0, "lr must be a number of 0 or more");
  impl_->lr = lr;
  impl_->schedule = LrSchedule{};
}

const Position& Trainer::position() const { return impl_->position; }
void Trainer::set_position(Position position) { impl_->position = std::move(position); }

void Trainer::swap_ema() {
  check_usage(impl_->options.ema.has_value(), "swap_ema() needs the option ema");
  swap_averages(*impl_->session, impl_->session->parameters());
}

void Trainer::save_checkpoint(const std::string& path) const {
  write_checkpoint(path, impl_->checkpoint());
}

void Trainer::load_checkpoint(const std::string& path) {
  const Checkpoint checkpoint = read_checkpoint(path);
  try {
    impl_->restore(checkpoint);
  } catch (const Error& e) {
    throw Error(e.code(), "checkpoint " + path + ": " + e.what());
  }
}

}  // namespace trainrt
