// The header that generated device code stands behind, as text.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_SOURCES_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_SOURCES_H_

namespace trainrt::cuda {

extern const char kDeviceHeader[];

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_SOURCES_H_
