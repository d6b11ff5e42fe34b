// One model in the place of a module of another. Private to the frontend.
#ifndef TRAINRT_FRONTEND_SPLICE_H_
#define TRAINRT_FRONTEND_SPLICE_H_

#include <string>

#include "frontend/imported.h"

namespace trainrt {

/// The model with `part` instead of the nodes of module `target`. See Module::set_submodule for the
/// rules and errors.
onnx::ModelProto splice(const ImportedModel& model, const std::string& target,
                        const ImportedModel& part);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_SPLICE_H_
