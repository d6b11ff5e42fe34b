// Profiles as files.
#ifndef TRAINRT_RUNTIME_CLI_TRACE_H_
#define TRAINRT_RUNTIME_CLI_TRACE_H_

#include <span>
#include <string>

#include "trainrt/trainer.h"

namespace trainrt::cli {

/// Writes Chrome's trace format (chrome://tracing, Perfetto): one event a node with its op, kernel
/// row, operands, flops, bytes and what it reached of them a second; one track a section.
void write_trace(const std::string& path, std::span<const NodeTiming> nodes);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_TRACE_H_
