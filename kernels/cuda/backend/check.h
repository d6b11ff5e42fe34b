// Statuses of NVIDIA's libraries as errors.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_CHECK_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_CHECK_H_

#include <cuda_runtime_api.h>

#include <string>

#include "trainrt/error.h"

namespace trainrt::cuda {

/// "cudaMalloc(&p, n): cudaErrorMemoryAllocation (out of memory)"
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that can be recovered from is not to be reported again
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kMemory : ErrorCode::kRuntime;
  throw Error(code, std::string(call) + ": " + cudaGetErrorName(status) + " (" +
                        cudaGetErrorString(status) + ")");
}

#define TRAINRT_CUDA(call) ::trainrt::cuda::check(call, #call)

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_CHECK_H_
