// From exceptions to status codes: nothing is thrown across the C API.
#ifndef TRAINRT_RUNTIME_CAPI_ERRORS_H_
#define TRAINRT_RUNTIME_CAPI_ERRORS_H_

#include <stdexcept>
#include <string>
#include <vector>

#include "trainrt/error.h"
#include "trainrt/trainrt_c.h"

namespace trainrt::capi {

/// An error that the C++ interface does not know: TRAINRT_ERROR_HANDLE, _ARGUMENT or _SIZE.
class CallError : public std::runtime_error {
 public:
  CallError(trainrt_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  trainrt_status status() const { return status_; }

 private:
  trainrt_status status_;
};

/// Problems with the lines that trainrt_problem points at.
class ProblemList {
 public:
  ProblemList() = default;
  explicit ProblemList(std::vector<Problem> problems);
  int64_t size() const { return static_cast<int64_t>(problems_.size()); }
  void read(int64_t index, trainrt_problem* out) const;  // index inside

 private:
  std::vector<Problem> problems_;
  std::vector<std::string> lines_;
};

/// Keeps the exception being handled as the thread's last error and returns its status.
trainrt_status record_current_exception() noexcept;

/// Runs f; whatever it throws becomes the thread's last error.
template <typename F>
trainrt_status guarded(const F& f) noexcept {
  try {
    f();
    return TRAINRT_OK;
  } catch (...) {
    return record_current_exception();
  }
}

}  // namespace trainrt::capi

#endif  // TRAINRT_RUNTIME_CAPI_ERRORS_H_
