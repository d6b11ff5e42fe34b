#include "runtime/cli/report.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "runtime/cli/progress.h"

namespace trainrt::cli {
namespace {

TEST_CASE("numbers are readable", "[report]") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(61706) == "61,706");
  CHECK(with_commas(1234567890) == "1,234,567,890");
  CHECK(with_commas(-1234) == "-1,234");
  CHECK(with_commas(-123) == "-123");
  CHECK(readable_bytes(512) == "512 B");
  CHECK(readable_bytes(1536) == "1.5 KiB");
  CHECK(readable_bytes(3.0 * (1 << 30)) == "3.0 GiB");
  CHECK(readable_time(75) == "01:15");
  CHECK(readable_time(3675) == "1:01:15");
  CHECK(readable_time(std::nan("")) == "--:--");
}

TEST_CASE("the bar fills from left to right", "[report]") {
  CHECK(bar(0, 6) == "[>   ]");
  CHECK(bar(0.5, 6) == "[==> ]");
  CHECK(bar(1, 6) == "[====]");
  CHECK(bar(7, 6) == "[====]");
}

TEST_CASE("exit codes follow the kind of error", "[report]") {
  CHECK(exit_code(Error(ErrorCode::kUsage, "x")) == 2);
  CHECK(exit_code(Error(ErrorCode::kUnsupported, "x")) == 3);
  CHECK(exit_code(Error(ErrorCode::kInvalidModel, "x")) == 3);
  CHECK(exit_code(Error(ErrorCode::kFile, "x")) == 1);
  CHECK(exit_code(Error(ErrorCode::kInput, "x")) == 1);
  CHECK(exit_code(Error(ErrorCode::kRuntime, "x")) == 1);
  CHECK(exit_code(Error(ErrorCode::kMemory, "x")) == 1);
}

TEST_CASE("NaN and infinity become null", "[report]") {
  const Json line = {{"a", std::nan("")}, {"b", std::numeric_limits<double>::infinity()}};
  CHECK(line.dump() == R"({"a":null,"b":null})");
}

}  // namespace
}  // namespace trainrt::cli
