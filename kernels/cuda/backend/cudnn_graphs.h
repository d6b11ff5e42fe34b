// Convolutions and attention as graphs for cuDNN, through its frontend. Building them and asking
// which engines would run them needs no GPU.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_CUDNN_GRAPHS_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_CUDNN_GRAPHS_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/gpu.h"

namespace trainrt::cuda {

/// A graph whose tensors are known by number: inputs of the call from 0, outputs from kOutputs.
class CudnnGraph {
 public:
  static constexpr int64_t kOutputs = 100;

  /// Throws Error(kUnsupported) for types that cuDNN does not take.
  /// `capability`: of a device that is not there, as 90; 0: of the current device.
  explicit CudnnGraph(const gpu::ConvCall& call, int capability = 0);
  explicit CudnnGraph(const gpu::AttentionCall& call, int capability = 0);
  ~CudnnGraph();
  CudnnGraph(const CudnnGraph&) = delete;
  CudnnGraph& operator=(const CudnnGraph&) = delete;

  /// Chooses an engine that always gives the same bits. Throws Error(kUnsupported) when there is
  /// none, or the frontend says something against the call.
  void plan(cudnnHandle_t handle);
  size_t workspace_bytes() const;
  void run(cudnnHandle_t handle, std::unordered_map<int64_t, void*>& tensors,
           void* workspace) const;

  /// Engines that cuDNN offers on a device of the graph's capability, without having one.
  int64_t engines_without_device();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Numbers of inputs and outputs of the calls.
struct Operands {
  int64_t inputs, outputs;
};
Operands operands_of(const gpu::ConvCall& call);
Operands operands_of(const gpu::AttentionCall& call);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_CUDNN_GRAPHS_H_
