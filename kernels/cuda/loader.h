// Finds libtrainrt_cuda.so, which implements gpu::Device with CUDA, and opens it when it is needed.
#ifndef TRAINRT_KERNELS_CUDA_LOADER_H_
#define TRAINRT_KERNELS_CUDA_LOADER_H_

#include <memory>
#include <vector>

#include "kernels/gpu.h"

namespace trainrt::cuda {

/// The library is looked for at $TRAINRT_CUDA_LIBRARY (nowhere else when that is set), beside the
/// program or library that this code is part of, in ../lib and ../../kernels/cuda/backend from
/// there, and where the system looks for libraries.
///
/// Both throw Error(kUnsupported) that says what is missing and what to do: libtrainrt_cuda.so
/// itself or another build of it, a library of NVIDIA's that it needs, the driver, or the device.
std::unique_ptr<gpu::Device> open_gpu(int index);
std::vector<gpu::Properties> list_gpus();

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_LOADER_H_
