#include "trainrt/device.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/failure.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::failure;

TEST_CASE("devices have names that parse back") {
  CHECK(to_string(Device{}) == "cpu");
  CHECK(to_string(Device{DeviceType::kCuda, 0}) == "cuda:0");
  CHECK(to_string(Device{DeviceType::kXpu, 12}) == "xpu:12");
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kCuda, DeviceType::kIpu,
                                DeviceType::kMtia, DeviceType::kXpu}) {
    const Device device{type, type == DeviceType::kCpu ? 0 : 3};
    CHECK(parse_device(to_string(device)) == device);
  }
}

TEST_CASE("a device without a number is the first") {
  CHECK(parse_device("cuda") == Device{DeviceType::kCuda, 0});
  CHECK(parse_device("cpu:0") == Device{});
  CHECK_FALSE(parse_device("cuda") == Device{DeviceType::kCuda, 1});
  CHECK_FALSE(parse_device("ipu") == parse_device("mtia"));
}

TEST_CASE("names of no device are refused with what is known") {
  for (const char* name : {"", "tpu", "CPU", ":0", "cud", "cuda0"}) {
    INFO(name);
    const std::string text = failure([&] { parse_device(name); }, ErrorCode::kUsage);
    CHECK(contains(text, "device '" + std::string(name) + "'"));
    CHECK(contains(text, "cpu, cuda, ipu, mtia, xpu"));
  }
  for (const char* name : {"cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999", "cpu:"}) {
    INFO(name);
    CHECK(contains(failure([&] { parse_device(name); }, ErrorCode::kUsage), "a number from 0"));
  }
  CHECK(contains(failure([] { parse_device("cpu:1"); }, ErrorCode::kUsage), "one cpu"));
}

}  // namespace
}  // namespace trainrt
