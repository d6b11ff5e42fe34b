#include "trainrt/device.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr std::string_view kTypes[] = {"cpu", "cuda", "ipu", "mtia", "xpu"};  // as in DeviceType

}  // namespace

std::string to_string(const Device& device) {
  std::string text(kTypes[static_cast<size_t>(device.type)]);
  if (device.type != DeviceType::kCpu) text += ":" + std::to_string(device.index);
  return text;
}

Device parse_device(std::string_view name) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, "device '" + std::string(name) + "': " + why);
  };
  const size_t colon = name.find(':');
  const auto* type = std::find(std::begin(kTypes), std::end(kTypes), name.substr(0, colon));
  if (type == std::end(kTypes)) {
    std::string known;
    for (const std::string_view t : kTypes) known += (known.empty() ? "" : ", ") + std::string(t);
    refuse("known are " + known + ", all but cpu with a number if wanted, as in cuda:1");
  }
  Device device{static_cast<DeviceType>(type - std::begin(kTypes)), 0};
  if (colon == std::string_view::npos) return device;
  const std::string_view number = name.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), device.index);
  if (error != std::errc() || end != number.data() + number.size() || device.index < 0) {
    refuse("a number from 0 is expected behind the colon");
  }
  if (device.type == DeviceType::kCpu && device.index != 0) refuse("there is one cpu, number 0");
  return device;
}

}  // namespace trainrt
