// The machine code of kernels/cuda/device that is part of the library.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_IMAGES_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_IMAGES_H_

#include <vector>

namespace trainrt::cuda {

struct Image {
  const char* name;
  const void* data;  // a fatbin
};

const std::vector<Image>& device_images();

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_IMAGES_H_
