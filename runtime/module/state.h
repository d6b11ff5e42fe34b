// Weights of a session by name: state_dict and what checkpoints hold of it.
#ifndef TRAINRT_RUNTIME_MODULE_STATE_H_
#define TRAINRT_RUNTIME_MODULE_STATE_H_

#include "runtime/session.h"
#include "runtime/train/checkpoint.h"
#include "trainrt/module.h"

namespace trainrt {

/// Parameters, then buffers; shares the session's storage.
StateDict state_dict(Session& session);
/// See Module::load_state_dict.
LoadResult load_state_dict(Session& session, const StateDict& values, bool strict);

/// Adds the "parameter/NAME" and "buffer/NAME" tensors.
void add_weights(Session& session, Checkpoint& checkpoint);
/// The state_dict that a checkpoint holds.
StateDict weights_of(const Checkpoint& checkpoint);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_STATE_H_
