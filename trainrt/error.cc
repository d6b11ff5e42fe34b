#include "trainrt/error.h"

namespace trainrt {
namespace {

std::string with_list(const std::string& summary, const std::vector<Problem>& problems) {
  std::string text = summary;
  for (const Problem& p : problems) text += "\n  " + to_string(p);
  return text;
}

}  // namespace

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kFile:
      return "file";
    case ErrorCode::kInvalidModel:
      return "invalid_model";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kInput:
      return "input";
    case ErrorCode::kRuntime:
      return "runtime";
    case ErrorCode::kMemory:
      return "memory";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

std::string to_string(const Problem& problem) {
  std::string text;
  if (!problem.node.empty()) text += "node '" + problem.node + "' ";
  if (!problem.op.empty()) {
    const bool custom = !problem.domain.empty() && problem.domain != "ai.onnx";
    text += "(" + (custom ? problem.domain + "::" : std::string()) + problem.op;
    if (problem.opset > 0) text += ", opset " + std::to_string(problem.opset);
    text += ")";
  }
  if (!text.empty()) text += ": ";
  return text + problem.reason;
}

Error::Error(ErrorCode code, const std::string& summary, std::vector<Problem> problems)
    : std::runtime_error(with_list(summary, problems)),
      code_(code),
      problems_(std::move(problems)) {}

void Diagnostics::throw_if_any(ErrorCode code, const std::string& summary) const {
  if (!problems_.empty()) throw Error(code, summary, problems_);
}

void throw_internal(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(ErrorCode::kInternal, "internal error at " + std::string(file) + ":" +
                                        std::to_string(line) + " (" + condition + "): " + message);
}

}  // namespace trainrt
