// Opens libtrainrt_cuda.so, which implements gpu::Device with CUDA.
#ifndef TRAINRT_KERNELS_CUDA_LOADER_H_
#define TRAINRT_KERNELS_CUDA_LOADER_H_

#include <memory>

#include "kernels/gpu.h"

namespace trainrt::cuda {

/// Throws Error(kUnsupported) saying what is missing.
std::unique_ptr<gpu::Device> open_gpu(int index);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_LOADER_H_
