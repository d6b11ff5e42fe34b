// The one exception type of trainrt, and the list of problems that an import or a check collects.
#ifndef TRAINRT_ERROR_H_
#define TRAINRT_ERROR_H_

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

/// What kind of thing went wrong; each code has a line in docs/errors.md.
enum class ErrorCode {
  kUsage,         // an option or argument makes no sense
  kFile,          // a file cannot be read or written, or is malformed
  kInvalidModel,  // the model breaks ONNX's rules
  kUnsupported,   // the model is fine, trainrt cannot train or run it
  kInput,         // an input, target or batch does not fit the model
  kRuntime,       // a step failed while running (index out of range, …)
  kMemory,        // a tensor or plan is too large for this machine
  kInternal,      // a bug in trainrt
};

std::string_view error_code_name(ErrorCode code);

/// One obstacle, as `trainrt check` lists it.
struct Problem {
  std::string node;    // ONNX node name, or its first output when it has none
  std::string op;      // ONNX op type
  std::string domain;  // "" or "ai.onnx" for the default domain
  int64_t opset = 0;
  std::string kind;    // no_lowering | no_gradient | no_kernel | dynamic | invalid | memory
  std::string reason;  // what was expected, what came, what to do
};

/// "node 'x' (Op, opset 17): reason", the form in which problems are printed.
std::string to_string(const Problem& problem);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  /// An import that found several problems: the message lists all of them.
  Error(ErrorCode code, const std::string& summary, std::vector<Problem> problems);

  ErrorCode code() const { return code_; }
  /// Empty unless the error stands for a list.
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  ErrorCode code_;
  std::vector<Problem> problems_;
};

/// Collects problems so that all can be reported at once.
class Diagnostics {
 public:
  void add(Problem problem) { problems_.push_back(std::move(problem)); }
  void warn(std::string text) { warnings_.push_back(std::move(text)); }
  bool empty() const { return problems_.empty(); }
  const std::vector<Problem>& problems() const { return problems_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Throws Error with the whole list when there is at least one problem.
  void throw_if_any(ErrorCode code, const std::string& summary) const;

 private:
  std::vector<Problem> problems_;
  std::vector<std::string> warnings_;
};

[[noreturn]] void throw_internal(const char* file, int line, const char* condition,
                                 const std::string& message);

/// For our own bugs only; no user input may reach it.
#define TRAINRT_CHECK(condition, message)                                                   \
  do {                                                                                      \
    if (!(condition)) ::trainrt::throw_internal(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

}  // namespace trainrt

#endif  // TRAINRT_ERROR_H_
