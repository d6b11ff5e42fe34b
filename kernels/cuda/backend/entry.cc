#include "kernels/cuda/abi.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/backend/cuda_device.h"

namespace trainrt::cuda {
namespace {

gpu::Device* open(int index) { return new CudaDevice(index); }

std::vector<gpu::Properties> list() {
  std::vector<gpu::Properties> devices;
  const int count = device_count();
  for (int i = 0; i < count; ++i) devices.push_back(properties_of(i));
  return devices;
}

}  // namespace
}  // namespace trainrt::cuda

extern "C" {
__attribute__((visibility("default"))) extern const trainrt::cuda::Backend trainrt_cuda_backend;
const trainrt::cuda::Backend trainrt_cuda_backend = {trainrt::cuda::kAbi, trainrt::cuda::open,
                                                     trainrt::cuda::list};
}
