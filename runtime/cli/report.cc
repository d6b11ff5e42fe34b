#include "runtime/cli/report.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/arena.h"

namespace trainrt::cli {

void print_json(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void note(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "trainrt: note: %s\n", text.c_str());
}

void print_error(const std::string& message) {
  std::fflush(stdout);
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) std::fprintf(stderr, "trainrt: error: %s\n", line.c_str());
  }
}

void print_error(const Error& error) {
  if (error.problems().empty()) return print_error(std::string(error.what()));
  for (const Problem& problem : error.problems()) print_error(to_string(problem));
}

int exit_code(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kInvalidModel:
    case ErrorCode::kUnsupported:
      return 3;
    default:
      return 1;
  }
}

std::string_view advice(std::string_view kind) {
  if (kind == "no_lowering") {
    return "docs/ops.md lists the operators and forms that are known; inline custom functions "
           "before "
           "exporting, or export from a float model without this operator";
  }
  if (kind == "no_gradient") {
    return "freeze what lies behind the node (--freeze GLOB), or export without it";
  }
  if (kind == "no_kernel") return "try --dtype float64: the reference kernels take every operator";
  if (kind == "dynamic") {
    return "give the input that decides it as a constant (--set NAME=VALUE), or export with fixed "
           "shapes";
  }
  if (kind == "nothing_to_train") {
    return "trainrt inspect gives, for each weight, the reason why it is no parameter";
  }
  if (kind == "memory") return "use a smaller batch, shorter sequences or smaller inputs";
  if (kind == "invalid") {
    return "the file breaks ONNX's rules, or the inputs do not fit it: check it with onnx.checker "
           "and export it again";
  }
  return {};
}

Json to_json(const Problem& problem) {
  return {{"node", problem.node},          {"op", problem.op},     {"domain", problem.domain},
          {"opset", problem.opset},        {"kind", problem.kind}, {"reason", problem.reason},
          {"advice", advice(problem.kind)}};
}

int64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

namespace {

/// A line of /proc/self/status, in bytes.
int64_t process_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace

MemoryGrowth::MemoryGrowth() {
  // What loading left free would be taken up by the step and not count.
  release_free_memory();
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
  before_ = process_status("VmRSS");
}

int64_t MemoryGrowth::peak() const { return process_status("VmHWM"); }
int64_t MemoryGrowth::bytes() const { return std::max<int64_t>(peak() - before_, 0); }

std::string readable_bytes(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes < 1024) break;
    bytes /= 1024;
    unit = larger;
  }
  char text[64];
  std::snprintf(text, sizeof(text), unit[1] == '\0' ? "%.0f %s" : "%.1f %s", bytes, unit);
  return text;
}

std::string with_commas(int64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string readable_time(double seconds) {
  if (!std::isfinite(seconds)) return "--:--";
  const auto s = static_cast<int64_t>(seconds);
  char text[64];
  if (s >= 3600) {
    std::snprintf(text, sizeof(text), "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  } else {
    std::snprintf(text, sizeof(text), "%02ld:%02ld", s / 60, s % 60);
  }
  return text;
}

std::string readable(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

int64_t parameter_elements(const Module& module) {
  int64_t total = 0;
  for (const Parameter& parameter : module.parameters()) total += parameter.size();
  return total;
}

int64_t parameter_elements(const Module& module, std::span<const std::string> names) {
  int64_t total = 0;
  for (const std::string& name : names) total += module.get_parameter(name).size();
  return total;
}

}  // namespace trainrt::cli
