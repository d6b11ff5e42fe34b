// Loss terms from the options of a trainer.
#ifndef TRAINRT_RUNTIME_TRAIN_LOSS_OPTIONS_H_
#define TRAINRT_RUNTIME_TRAIN_LOSS_OPTIONS_H_

#include <vector>

#include "autodiff/loss.h"
#include "trainrt/trainer.h"

namespace trainrt {

/// Parses the loss texts; class axis and label smoothing go to the losses they mean something for.
/// Throws Error(kUsage).
std::vector<LossSpec> loss_specs(const TrainerOptions& options);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_LOSS_OPTIONS_H_
