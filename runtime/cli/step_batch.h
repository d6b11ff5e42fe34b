// One batch and a trainer for it: what bench, graph and inspect look at.
#ifndef TRAINRT_RUNTIME_CLI_STEP_BATCH_H_
#define TRAINRT_RUNTIME_CLI_STEP_BATCH_H_

#include "runtime/cli/arguments.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {

struct StepBatch {
  TensorMap batch;
  TrainerOptions options;
};

/// The first batch of --data, or a made-up one, with losses settled.
StepBatch make_step_batch(const Module& module, const ModelArgs& model, const DataArgs& data,
                          const TrainArgs& train);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_STEP_BATCH_H_
