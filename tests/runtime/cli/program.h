// Runs the trainrt program.
#ifndef TRAINRT_TESTS_RUNTIME_CLI_PROGRAM_H_
#define TRAINRT_TESTS_RUNTIME_CLI_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace trainrt {

struct ProgramResult {
  int code = 0;  // negative: ended by that signal
  std::string out, err;
};

using Arguments = std::vector<std::string>;

/// Runs trainrt with the arguments to its end.
ProgramResult run_trainrt(const Arguments& arguments);

/// A trainrt that runs in the background, its output thrown away.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const Arguments& arguments);
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;
  void signal(int number);
  /// Exit code, or the negative number of the signal that ended it.
  int wait();

 private:
  pid_t child_ = 0;
};

}  // namespace trainrt

#endif  // TRAINRT_TESTS_RUNTIME_CLI_PROGRAM_H_
