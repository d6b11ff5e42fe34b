// The calls of gpu::Device that NVIDIA's libraries compute.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_LIBRARIES_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_LIBRARIES_H_

#include <memory>
#include <string>

#include "kernels/gpu.h"

namespace trainrt::cuda {

class CublasLt {
 public:
  virtual ~CublasLt() = default;
  virtual std::unique_ptr<gpu::LibraryCall> matmul(const gpu::MatMulCall& call,
                                                   std::string* why) = 0;
};

class Cudnn {
 public:
  virtual ~Cudnn() = default;
  virtual std::unique_ptr<gpu::LibraryCall> convolution(const gpu::ConvCall& call,
                                                        std::string* why) = 0;
  virtual std::unique_ptr<gpu::LibraryCall> attention(const gpu::AttentionCall& call,
                                                      std::string* why) = 0;
  virtual std::unique_ptr<gpu::LibraryCall> pool(const gpu::PoolCall& call, std::string* why) = 0;
  virtual std::unique_ptr<gpu::LibraryCall> softmax(const gpu::SoftmaxCall& call,
                                                    std::string* why) = 0;
};

/// For the current device.
std::unique_ptr<CublasLt> make_cublas(const gpu::Properties& device);
std::unique_ptr<Cudnn> make_cudnn();

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_LIBRARIES_H_
