#include "tests/cuda/test_device.h"

#include "tests/cuda/emulator/device.h"

namespace trainrt::testing {

gpu::Device& test_device() {
  static const std::unique_ptr<gpu::Device> device = make_emulated_device();
  return *device;
}

bool on_real_device() { return false; }

}  // namespace trainrt::testing
