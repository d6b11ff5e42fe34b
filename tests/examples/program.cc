#include "tests/examples/program.h"

#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace trainrt::testing {

Run run(const std::string& command) {
  // As the command line program does: spinning threads are slow where other processes are busy.
  setenv("GOMP_SPINCOUNT", "1000", 0);
  Run result;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result.lines.push_back(line);
  UNSCOPED_INFO(command << ":\n" << text);
  return result;
}

double number_after(const std::string& line, const std::string& key) {
  const size_t at = line.find(key);
  return at == std::string::npos ? -1 : std::atof(line.c_str() + at + key.size());
}

std::string line_with(const Run& run, const std::string& start) {
  for (const std::string& line : run.lines) {
    if (line.starts_with(start)) return line;
  }
  FAIL("no line starts with '" << start << "'");
  return "";
}

std::string scratch(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return (folder != nullptr ? std::filesystem::path(folder)
                            : std::filesystem::temp_directory_path()) /
         name;
}

}  // namespace trainrt::testing
