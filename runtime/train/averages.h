// Moving averages of a session's parameters.
#ifndef TRAINRT_RUNTIME_TRAIN_AVERAGES_H_
#define TRAINRT_RUNTIME_TRAIN_AVERAGES_H_

#include "runtime/session.h"

namespace trainrt {

/// Exchanges weights and averages of those parameters that have an average.
inline void swap_averages(Session& session, const ParameterStates& parameters) {
  for (const auto& p : parameters) {
    Tensor average = session.optimizer_state().find("ema/" + p->info.name);
    if (!average.defined()) continue;  // frozen, or no step has run yet
    const Tensor weights = p->value().to(average.dtype());
    p->value().copy_from(average.to(p->value().dtype()));
    average.copy_from(weights);
  }
}

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_AVERAGES_H_
