#include "kernels/cuda/backend/check.h"
#include "kernels/cuda/backend/cuda_device.h"

namespace trainrt::cuda {
namespace {

class CudaEvent final : public gpu::Event {
 public:
  CudaEvent() { TRAINRT_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaRecording final : public gpu::Recording {
 public:
  explicit CudaRecording(cudaGraph_t graph) : graph_(graph) {
    TRAINRT_CUDA(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~CudaRecording() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  cudaGraphExec_t get() const { return executable_; }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

CudaStream::CudaStream(int device) : device_(device) {
  TRAINRT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void CudaStream::use() const { TRAINRT_CUDA(cudaSetDevice(device_)); }

void CudaStream::launch(const gpu::Function* function, gpu::Size3 grid, uint32_t threads,
                        const void* arguments, size_t) {
  use();
  TRAINRT_CHECK(function != nullptr && function->kernel != nullptr, "a kernel without a function");
  void* parameters[] = {const_cast<void*>(arguments)};
  const cudaError_t status =
      cudaLaunchKernel(reinterpret_cast<const void*>(function->kernel),
                       dim3(grid.x, grid.y, grid.z), dim3(threads), parameters, 0, stream_);
  if (status != cudaSuccess) check(status, ("launch of " + function->name).c_str());
}

void CudaStream::copy_to_device(void* to, const void* from, size_t bytes) {
  use();
  TRAINRT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
}

void CudaStream::copy_to_host(void* to, const void* from, size_t bytes) {
  use();
  TRAINRT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
}

void CudaStream::copy_on_device(void* to, const void* from, size_t bytes) {
  use();
  TRAINRT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
}

void CudaStream::zero(void* to, size_t bytes) {
  use();
  TRAINRT_CUDA(cudaMemsetAsync(to, 0, bytes, stream_));
}

void CudaStream::record(gpu::Event& event) {
  use();
  TRAINRT_CUDA(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_));
}

void CudaStream::wait(gpu::Event& event) {
  use();
  TRAINRT_CUDA(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0));
}

void CudaStream::synchronize() {
  use();
  TRAINRT_CUDA(cudaStreamSynchronize(stream_));
}

void CudaStream::begin_recording() {
  use();
  TRAINRT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
}

std::unique_ptr<gpu::Recording> CudaStream::end_recording() {
  use();
  cudaGraph_t graph = nullptr;
  TRAINRT_CUDA(cudaStreamEndCapture(stream_, &graph));
  return std::make_unique<CudaRecording>(graph);
}

void CudaStream::run(gpu::Recording& recording) {
  use();
  TRAINRT_CUDA(cudaGraphLaunch(static_cast<CudaRecording&>(recording).get(), stream_));
}

std::unique_ptr<gpu::Stream> CudaDevice::make_stream() {
  use();
  return std::make_unique<CudaStream>(index_);
}

std::unique_ptr<gpu::Event> CudaDevice::make_event() {
  use();
  return std::make_unique<CudaEvent>();
}

}  // namespace trainrt::cuda
