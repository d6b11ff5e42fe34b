// Lowers an imported model for concrete input types. Private to the frontend.
#ifndef TRAINRT_FRONTEND_SPECIALIZE_H_
#define TRAINRT_FRONTEND_SPECIALIZE_H_

#include <map>
#include <string>

#include "frontend/imported.h"

namespace trainrt {

/// See OnnxModel::specialize.
Specialized specialize_model(const ImportedModel& model,
                             const std::map<std::string, InputBinding>& inputs,
                             const SpecializeOptions& options, const Evaluator& evaluator,
                             Diagnostics& problems, const Contents& contents);

/// Throws Error(kInput) with everything that does not fit.
void check_bindings(const ImportedModel& model, const std::map<std::string, InputBinding>& inputs);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_SPECIALIZE_H_
