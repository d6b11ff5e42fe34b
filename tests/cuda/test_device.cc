#include "tests/cuda/test_device.h"

#include <cstdlib>
#include <memory>

#include "kernels/cuda/loader.h"
#include "tests/cuda/emulator/device.h"
#include "trainrt/device.h"

namespace trainrt::testing {

bool on_real_device() { return std::getenv("TRAINRT_TEST_DEVICE") != nullptr; }

gpu::Device& test_device() {
  static const std::unique_ptr<gpu::Device> device = [] {
    if (!on_real_device()) return std::unique_ptr<gpu::Device>(make_emulated_device());
    return cuda::open_gpu(parse_device(std::getenv("TRAINRT_TEST_DEVICE")).index);
  }();
  return *device;
}

}  // namespace trainrt::testing
