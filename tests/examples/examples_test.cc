// The programs of examples/ on the digits data: they run, and do what they are for.
#include <sys/wait.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "trainrt/module.h"

namespace trainrt {
namespace {

const std::string kDigits = "examples/digits/";

struct Run {
  int code = -1;
  std::vector<std::string> lines;
};

Run run(const std::string& command) {
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

/// The number behind `key` in the line; -1 without one.
double number_after(const std::string& line, const std::string& key) {
  const size_t at = line.find(key);
  return at == std::string::npos ? -1 : std::atof(line.c_str() + at + key.size());
}

std::string scratch(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return (folder != nullptr ? std::filesystem::path(folder)
                            : std::filesystem::temp_directory_path()) /
         name;
}

TEST_CASE("train_digits learns the digits and writes the trained file") {
  const std::string out = scratch("trained_digits.onnx");
  const Run result = run("examples/train_digits " + kDigits + "digits.onnx " + kDigits +
                         "train.npz " + kDigits + "val.npz " + out);
  REQUIRE(result.code == 0);
  REQUIRE(result.lines.size() == 8);
  CHECK(number_after(result.lines.front(), "loss ") > number_after(result.lines.back(), "loss "));
  CHECK(number_after(result.lines.back(), "validation accuracy ") >= 0.97);
  const Module trained(out);
  CHECK(trained.outputs().at(0).name == "logits");
  std::filesystem::remove(out);
}

TEST_CASE("forward_backward prints a gradient for every parameter that is not frozen") {
  const Run result =
      run("examples/forward_backward " + kDigits + "digits.onnx " + kDigits + "val.npz");
  REQUIRE(result.code == 0);
  std::vector<std::string> names;
  for (const std::string& line : result.lines) {
    if (line.find("|grad| = ") == std::string::npos) continue;
    names.push_back(line.substr(0, line.find(' ')));
    INFO(line);
    const double norm = number_after(line, "|grad| = ");
    CHECK(norm >= 0);
    // The bias before BatchNormalization is the one that changes nothing.
    if (names.back() != "conv2.bias") CHECK(norm > 0);
  }
  std::vector<std::string> expected;
  for (const auto& [name, parameter] : Module(kDigits + "digits.onnx").named_parameters()) {
    if (!name.starts_with("conv1.")) expected.push_back(name);
  }
  CHECK(names == expected);
  CHECK(result.lines.back() == "eval: [16,10]");
}

TEST_CASE("examples without arguments explain themselves") {
  for (const std::string name : {"train_digits", "forward_backward"}) {
    const Run result = run("examples/" + name);
    CHECK(result.code == 2);
    REQUIRE(result.lines.size() == 1);
    CHECK(result.lines[0].starts_with("usage: " + name));
  }
}

TEST_CASE("examples name a file that is missing") {
  const Run result = run("examples/forward_backward nowhere.onnx nowhere.npz");
  CHECK(result.code == 1);
  REQUIRE(!result.lines.empty());
  CHECK(result.lines[0].find("nowhere.onnx") != std::string::npos);
}

}  // namespace
}  // namespace trainrt
