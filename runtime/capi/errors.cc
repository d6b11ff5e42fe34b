#include "runtime/capi/errors.h"

#include <new>
#include <utility>

#include "trainrt/version.h"

namespace trainrt::capi {
namespace {

struct LastError {
  trainrt_status status = TRAINRT_OK;
  const char* fixed = "";  // the message when there is no memory for another
  std::string message;
  ProblemList problems;
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

trainrt_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return TRAINRT_ERROR_USAGE;
    case ErrorCode::kFile:
      return TRAINRT_ERROR_FILE;
    case ErrorCode::kInvalidModel:
      return TRAINRT_ERROR_INVALID_MODEL;
    case ErrorCode::kUnsupported:
      return TRAINRT_ERROR_UNSUPPORTED;
    case ErrorCode::kInput:
      return TRAINRT_ERROR_INPUT;
    case ErrorCode::kRuntime:
      return TRAINRT_ERROR_RUNTIME;
    case ErrorCode::kMemory:
      return TRAINRT_ERROR_MEMORY;
    case ErrorCode::kInternal:
      return TRAINRT_ERROR_INTERNAL;
  }
  return TRAINRT_ERROR_INTERNAL;
}

trainrt_status record(trainrt_status status, const std::string& message, ProblemList problems) {
  LastError next;
  next.status = status;
  next.message = message;
  next.problems = std::move(problems);
  last_error() = std::move(next);
  return status;
}

trainrt_status record_rethrown() {
  try {
    throw;
  } catch (const CallError& e) {
    return record(e.status(), e.what(), {});
  } catch (const Error& e) {
    return record(status_of(e.code()), e.what(), ProblemList(e.problems()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return record(TRAINRT_ERROR_INTERNAL, std::string("internal error: ") + e.what(), {});
  } catch (...) {
    return record(TRAINRT_ERROR_INTERNAL, "internal error: an unknown exception", {});
  }
}

}  // namespace

ProblemList::ProblemList(std::vector<Problem> problems) : problems_(std::move(problems)) {
  for (const Problem& p : problems_) lines_.push_back(to_string(p));
}

void ProblemList::read(int64_t index, trainrt_problem* out) const {
  const auto i = static_cast<size_t>(index);
  const Problem& p = problems_[i];
  *out = {p.node.c_str(),   p.op.c_str(),      p.domain.c_str(), p.kind.c_str(),
          p.reason.c_str(), lines_[i].c_str(), p.opset};
}

trainrt_status record_current_exception() noexcept {
  try {
    return record_rethrown();
  } catch (...) {  // no memory, for the call or for its error
    LastError& error = last_error();
    error.status = TRAINRT_ERROR_MEMORY;
    error.fixed = "out of memory";
    error.message.clear();
    error.problems = {};
    return TRAINRT_ERROR_MEMORY;
  }
}

}  // namespace trainrt::capi

using trainrt::capi::last_error;

const char* trainrt_version(void) { return trainrt::version(); }

const char* trainrt_status_name(trainrt_status status) {
  switch (status) {
    case TRAINRT_OK:
      return "ok";
    case TRAINRT_ERROR_USAGE:
      return "usage";
    case TRAINRT_ERROR_FILE:
      return "file";
    case TRAINRT_ERROR_INVALID_MODEL:
      return "invalid_model";
    case TRAINRT_ERROR_UNSUPPORTED:
      return "unsupported";
    case TRAINRT_ERROR_INPUT:
      return "input";
    case TRAINRT_ERROR_RUNTIME:
      return "runtime";
    case TRAINRT_ERROR_MEMORY:
      return "memory";
    case TRAINRT_ERROR_INTERNAL:
      return "internal";
    case TRAINRT_ERROR_HANDLE:
      return "handle";
    case TRAINRT_ERROR_ARGUMENT:
      return "argument";
    case TRAINRT_ERROR_SIZE:
      return "size";
    default:
      return "unknown";
  }
}

trainrt_status trainrt_last_error_code(void) { return last_error().status; }

const char* trainrt_last_error(void) {
  const auto& error = last_error();
  return error.message.empty() ? error.fixed : error.message.c_str();
}

int64_t trainrt_last_error_problem_count(void) { return last_error().problems.size(); }

trainrt_status trainrt_last_error_problem(int64_t index, trainrt_problem* problem) {
  const auto& problems = last_error().problems;
  if (problem == nullptr || index < 0 || index >= problems.size()) return TRAINRT_ERROR_ARGUMENT;
  problems.read(index, problem);
  return TRAINRT_OK;
}

void trainrt_clear_error(void) { last_error() = {}; }
