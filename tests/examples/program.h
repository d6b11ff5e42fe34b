// Runs programs and reads what they print.
#ifndef TRAINRT_TESTS_EXAMPLES_PROGRAM_H_
#define TRAINRT_TESTS_EXAMPLES_PROGRAM_H_

#include <string>
#include <vector>

namespace trainrt::testing {

struct Run {
  int code = -1;
  std::vector<std::string> lines;  // of stdout and stderr
};

/// Fails the test when the shell cannot be started.
Run run(const std::string& command);

/// The number behind `key` in the line; -1 without one.
double number_after(const std::string& line, const std::string& key);

/// The first line that starts so; fails the test when there is none.
std::string line_with(const Run& run, const std::string& start);

/// A path for a file of this test.
std::string scratch(const std::string& name);

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_EXAMPLES_PROGRAM_H_
