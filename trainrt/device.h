// Where tensors and modules live.
#ifndef TRAINRT_DEVICE_H_
#define TRAINRT_DEVICE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace trainrt {

/// The kinds that PyTorch's modules can move to. That a kind has a name does not mean that this
/// build can use it.
enum class DeviceType : uint8_t { kCpu, kCuda, kIpu, kMtia, kXpu };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;  // which of several; 0 for the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0"
std::string to_string(const Device& device);

/// Inverse of to_string(). Without a number the index is 0. Throws Error(kUsage) naming what is
/// known for anything else.
Device parse_device(std::string_view name);

}  // namespace trainrt

#endif  // TRAINRT_DEVICE_H_
