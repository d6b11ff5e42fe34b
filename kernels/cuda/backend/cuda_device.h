// gpu::Device by CUDA.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_CUDA_DEVICE_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu.h"

namespace trainrt::gpu {

class Function {
 public:
  std::string name;
  cudaKernel_t kernel = nullptr;  // null until a generated source is compiled
};

}  // namespace trainrt::gpu

namespace trainrt::cuda {

inline cudaStream_t native(gpu::Stream& stream);

class CudaStream final : public gpu::Stream {
 public:
  explicit CudaStream(int device);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void launch(const gpu::Function* function, gpu::Size3 grid, uint32_t threads,
              const void* arguments, size_t bytes) override;
  void copy_to_device(void* to, const void* from, size_t bytes) override;
  void copy_to_host(void* to, const void* from, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes) override;
  void zero(void* to, size_t bytes) override;
  void record(gpu::Event& event) override;
  void wait(gpu::Event& event) override;
  void synchronize() override;
  void begin_recording() override;
  std::unique_ptr<gpu::Recording> end_recording() override;
  void run(gpu::Recording& recording) override;

  cudaStream_t get() const { return stream_; }

 private:
  /// Work is given on the stream's device, whichever the thread used last.
  void use() const;

  int device_;
  cudaStream_t stream_ = nullptr;
};

inline cudaStream_t native(gpu::Stream& stream) { return static_cast<CudaStream&>(stream).get(); }

class CublasLt;
class Cudnn;

class CudaDevice final : public gpu::Device {
 public:
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  const gpu::Properties& properties() const override { return properties_; }
  size_t free_memory() const override;
  void* allocate(size_t bytes) override;
  void free(void* address) noexcept override;
  void* allocate_host(size_t bytes) override;
  void free_host(void* address) noexcept override;
  std::unique_ptr<gpu::Stream> make_stream() override;
  std::unique_ptr<gpu::Event> make_event() override;
  const gpu::Function* function(std::string_view name) override;
  const gpu::Function* compile(const std::string& source, std::string_view name) override;
  void finish_compiling() override;
  std::unique_ptr<gpu::LibraryCall> matmul(const gpu::MatMulCall& call, std::string* why) override;
  std::unique_ptr<gpu::LibraryCall> convolution(const gpu::ConvCall& call,
                                                std::string* why) override;
  std::unique_ptr<gpu::LibraryCall> attention(const gpu::AttentionCall& call,
                                              std::string* why) override;
  std::unique_ptr<gpu::LibraryCall> pool(const gpu::PoolCall& call, std::string* why) override;
  std::unique_ptr<gpu::LibraryCall> softmax(const gpu::SoftmaxCall& call,
                                            std::string* why) override;

 private:
  void use() const;
  CublasLt& cublas();
  Cudnn& cudnn();

  int index_;
  gpu::Properties properties_;
  std::string architecture_, cache_;
  std::vector<cudaLibrary_t> images_;   // of kernels/cuda/device
  std::vector<cudaLibrary_t> modules_;  // of generated sources
  std::map<std::string, std::unique_ptr<gpu::Function>, std::less<>> functions_;
  struct Pending {
    gpu::Function* function;
    std::string source, code;
    std::exception_ptr error;
  };
  std::vector<Pending> pending_;  // generated sources that nobody has waited for
  std::unique_ptr<CublasLt> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
};

/// Throws Error(kUnsupported) saying whether driver or device is missing.
int device_count();
gpu::Properties properties_of(int index);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_CUDA_DEVICE_H_
