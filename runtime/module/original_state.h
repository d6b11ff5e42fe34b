// Between a file's weights and the framework's tensors.
#ifndef TRAINRT_RUNTIME_MODULE_ORIGINAL_STATE_H_
#define TRAINRT_RUNTIME_MODULE_ORIGINAL_STATE_H_

#include <string>

#include "frontend/state_layout.h"
#include "runtime/session.h"
#include "trainrt/module.h"

namespace trainrt {

/// The framework's tensor, a copy.
Tensor to_original(const StateEntry& entry, const Tensor& weight);
/// Writes the framework's tensor, of the entry's shape and the weight's type, to its place.
void from_original(const StateEntry& entry, const Tensor& value, Tensor weight);
/// Copies a matrix into its transpose.
void copy_transposed(Tensor to, const Tensor& from);
/// The same type, shape and bytes.
bool equal_bytes(const Tensor& a, const Tensor& b);

/// The parameter or buffer of a file name; undefined when there is none.
Tensor weight_value(const Session& session, const std::string& name);

/// What a framework saves beside its parameters and no graph reads: see trainrt/state.h.
bool is_bookkeeping(const std::string& key, const Tensor& value, const StateLayout& layout);

StateDict original_state_dict(const Session& session);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_ORIGINAL_STATE_H_
