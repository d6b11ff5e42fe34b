// What commands print.
#ifndef TRAINRT_RUNTIME_CLI_REPORT_H_
#define TRAINRT_RUNTIME_CLI_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "trainrt/error.h"
#include "trainrt/module.h"

namespace trainrt::cli {

using Json = nlohmann::ordered_json;

/// One line on stdout, flushed. NaN and infinity become null, bytes that are no UTF-8 are replaced.
void print_json(const Json& value);
/// "trainrt: note: …" on stderr.
void note(const std::string& text);
/// "trainrt: error: …" on stderr, a line for each problem.
void print_error(const Error& error);
void print_error(const std::string& message);
/// 2 for usage, 3 for a refused model, else 1.
int exit_code(const Error& error);

/// What a user can do about a problem of this kind; empty when nothing is known.
std::string_view advice(std::string_view kind);
Json to_json(const Problem& problem);

/// Most memory this process has held.
int64_t peak_rss_bytes();

/// How the process's resident memory grows from here on. Zeros where /proc does not tell.
class MemoryGrowth {
 public:
  MemoryGrowth();
  int64_t before() const { return before_; }
  /// Largest resident size since then.
  int64_t peak() const;
  int64_t bytes() const;

 private:
  int64_t before_ = 0;
};
/// "1.5 GiB"
std::string readable_bytes(double bytes);
/// "61,706"
std::string with_commas(int64_t value);
/// "1:02:03" or "02:03"
std::string readable_time(double seconds);
/// Six significant digits.
std::string readable(double value);

/// Elements of all parameters, and of those named.
int64_t parameter_elements(const Module& module);
int64_t parameter_elements(const Module& module, std::span<const std::string> names);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_REPORT_H_
