// Metrics of a batch.
#ifndef TRAINRT_RUNTIME_TRAIN_METRICS_H_
#define TRAINRT_RUNTIME_TRAIN_METRICS_H_

#include "runtime/step_builder.h"
#include "trainrt/trainer.h"

namespace trainrt {

/// Adds what a loss term can tell: class losses give accuracy, top5 and cross entropy, mse, l1 and
/// huber give the absolute error, bce the accuracy at one half.
void add_metrics(const LossTerm& term, const Tensor& output, const Tensor& target,
                 MetricSums& sums);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_METRICS_H_
