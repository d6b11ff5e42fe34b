#include "kernels/cuda/loader.h"

#include "trainrt/error.h"

namespace trainrt::cuda {

std::unique_ptr<gpu::Device> open_gpu(int) {
  throw Error(ErrorCode::kUnsupported, "this trainrt has no CUDA backend");
}

}  // namespace trainrt::cuda
