// Resolves names, inlines functions and collects weights. Private to the frontend.
#ifndef TRAINRT_FRONTEND_IMPORT_H_
#define TRAINRT_FRONTEND_IMPORT_H_

#include <memory>
#include <string>

#include "frontend/imported.h"

namespace trainrt {

/// Takes a parsed model. Throws Error(kInvalidModel) with every breach of ONNX's rules. `what` is
/// the file's name for messages; external data lies below `folder`.
std::unique_ptr<ImportedModel> import_model(std::unique_ptr<ImportedModel> model,
                                            const std::string& what, const std::string& folder);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_IMPORT_H_
