// What the files of the trainer share.
#ifndef TRAINRT_RUNTIME_TRAIN_TRAINER_IMPL_H_
#define TRAINRT_RUNTIME_TRAIN_TRAINER_IMPL_H_

#include <memory>
#include <string>

#include "runtime/session.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/lr_schedule.h"
#include "trainrt/trainer.h"

namespace trainrt {

struct Trainer::Impl {
  std::shared_ptr<Session> session;
  TrainerOptions options;
  std::vector<LossSpec> losses;
  std::shared_ptr<const CustomLoss> custom_loss;  // of the module, when there are no losses
  UpdateSpec update;
  double lr = 0;
  LrSchedule schedule;
  int64_t steps = 0;       // updates done
  int64_t micro_step = 0;  // batches in the gradient stores
  Position position;
  std::vector<double> losses_seen;      // of submit(), on the CPU
  std::unique_ptr<ScalarLog> loss_log;  // on a GPU

  Impl(const Module& module, const TrainerOptions& options);

  Batch make_batch(const TensorMap& given) const;
  StepSpec train_spec() const;
  void set_loss(StepSpec& spec) const {
    spec.losses = losses;
    spec.custom_loss = custom_loss;
  }
  std::shared_ptr<CompiledStep> prepare(Batch& batch);
  double next_lr() const { return lr * schedule.factor(steps); }
  /// One batch through a prepared step, with the update when it is due.
  StepResult run_step(CompiledStep& step, const Batch& batch, bool wait = true);
  void note_loss(const CompiledStep& step);
  PlanStats stats(const CompiledStep& step) const;

  /// Options that decide what a step computes; a checkpoint only fits the same. Rate and schedule
  /// may change between runs.
  std::string digest() const;
  /// The number of updates that moments of a kind have seen after `done` steps of this trainer
  /// alone.
  int64_t usual_count(OptimizerKind moments, int64_t done) const;
  Checkpoint checkpoint() const;
  void restore(const Checkpoint& checkpoint);
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_TRAINER_IMPL_H_
