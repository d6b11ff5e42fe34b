// Weights of a session by name: state_dict and what checkpoints hold of it.
#ifndef TRAINRT_RUNTIME_MODULE_STATE_H_
#define TRAINRT_RUNTIME_MODULE_STATE_H_

#include <functional>
#include <string>

#include "runtime/session.h"
#include "runtime/train/checkpoint.h"
#include "trainrt/module.h"

namespace trainrt {

/// Parameters, then buffers, less those that are not persistent; shares the session's storage.
StateDict state_dict(Session& session);

/// What of the state a dict speaks for.
struct StateScope {
  std::string module;  // dotted path; keys are relative to it, or whole
  /// May change the lists of keys before they count as faults.
  std::function<void(LoadResult&)> review;
};
/// See Module::load_state_dict.
LoadResult load_state_dict(Session& session, const StateDict& values, bool strict,
                           const StateScope& scope = {});

/// Adds the "parameter/NAME", "buffer/NAME" and "extra/MODULE" tensors.
void add_weights(Session& session, Checkpoint& checkpoint);
/// The state_dict that a checkpoint holds.
StateDict weights_of(const Checkpoint& checkpoint);
void load_extra_states(Session& session, const Checkpoint& checkpoint);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_STATE_H_
