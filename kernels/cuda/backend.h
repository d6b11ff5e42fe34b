// What libtrainrt_cuda.so offers to the core.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_H_

#include <vector>

#include "kernels/gpu.h"

namespace trainrt::cuda {

/// The only symbol: `trainrt_cuda_backend`. The core looks at `abi` before anything else, which is
/// that of kernels/gpu.h and of the version.
struct Backend {
  const char* abi;
  /// Throws Error(kUnsupported) when there is no usable device of this number.
  gpu::Device* (*open)(int index);
  /// Throws Error(kUnsupported) when there are none.
  std::vector<gpu::Properties> (*list)();
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_H_
