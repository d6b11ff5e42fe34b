// Files that DebugOptions ask for.
#ifndef TRAINRT_RUNTIME_DEBUG_DUMP_H_
#define TRAINRT_RUNTIME_DEBUG_DUMP_H_

#include <string>
#include <string_view>

#include "trainrt/options.h"

namespace trainrt {

/// Throws Error(kUsage) for options that make no sense.
void check_debug_options(const DebugOptions& options);
/// `save_path`/`onnx_prefix`.onnx
std::string debug_model_path(const DebugOptions& options);
/// Writes a stage of the graph of plan `number`. Throws Error(kFile).
void dump_stage(const DebugOptions& options, int64_t number, std::string_view stage,
                const std::string& text);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DEBUG_DUMP_H_
