// Convolutions, attention, pooling and softmax by cuDNN.
#include <cudnn.h>

#include <cstdio>
#include <limits>
#include <map>

#include "kernels/cuda/backend/check.h"
#include "kernels/cuda/backend/cuda_device.h"
#include "kernels/cuda/backend/cudnn_graphs.h"
#include "kernels/cuda/backend/libraries.h"

namespace trainrt::cuda {
namespace {

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const ErrorCode code =
      status == CUDNN_STATUS_ALLOC_FAILED ? ErrorCode::kMemory : ErrorCode::kRuntime;
  throw Error(code, std::string(call) + ": " + cudnnGetErrorString(status));
}

#define TRAINRT_CUDNN(call) check_cudnn(call, #call)

class GraphCall final : public gpu::LibraryCall {
 public:
  GraphCall(cudnnHandle_t handle, std::shared_ptr<CudnnGraph> graph, Operands operands)
      : handle_(handle), graph_(std::move(graph)), operands_(operands) {}

  size_t workspace_bytes() const override { return graph_->workspace_bytes(); }

  void run(gpu::Stream& stream, const void* const* in, void* const* out,
           void* workspace) const override {
    TRAINRT_CUDNN(cudnnSetStream(handle_, native(stream)));
    std::unordered_map<int64_t, void*> tensors;
    for (int64_t i = 0; i < operands_.inputs; ++i) tensors[i] = const_cast<void*>(in[i]);
    for (int64_t i = 0; i < operands_.outputs; ++i) tensors[CudnnGraph::kOutputs + i] = out[i];
    graph_->run(handle_, tensors, workspace);
  }

 private:
  cudnnHandle_t handle_;
  std::shared_ptr<CudnnGraph> graph_;
  Operands operands_;
};

class TensorDescription {
 public:
  TensorDescription() { TRAINRT_CUDNN(cudnnCreateTensorDescriptor(&handle_)); }
  TensorDescription(const TensorDescription&) = delete;
  TensorDescription& operator=(const TensorDescription&) = delete;
  ~TensorDescription() { cudnnDestroyTensorDescriptor(handle_); }

  void set(cudnnDataType_t type, const Shape& shape) {
    std::vector<int> dims(shape.begin(), shape.end()), strides(shape.size());
    int stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
    TRAINRT_CUDNN(cudnnSetTensorNdDescriptor(handle_, type, static_cast<int>(dims.size()),
                                             dims.data(), strides.data()));
  }
  cudnnTensorDescriptor_t get() const { return handle_; }

 private:
  cudnnTensorDescriptor_t handle_ = nullptr;
};

class SoftmaxRun final : public gpu::LibraryCall {
 public:
  SoftmaxRun(cudnnHandle_t handle, const gpu::SoftmaxCall& call) : handle_(handle), call_(call) {
    description_.set(call.type == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT,
                     {call.outer, call.axis, call.inner, 1});
  }
  size_t workspace_bytes() const override { return 0; }
  void run(gpu::Stream& stream, const void* const* in, void* const* out, void*) const override {
    TRAINRT_CUDNN(cudnnSetStream(handle_, native(stream)));
    const float one = 1, zero = 0;
    const double double_one = 1, double_zero = 0;
    const bool doubles = call_.type == DType::kFloat64;
    const void* alpha = doubles ? static_cast<const void*>(&double_one) : &one;
    const void* beta = doubles ? static_cast<const void*>(&double_zero) : &zero;
    const auto algorithm = call_.log ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
    const auto d = description_.get();
    if (call_.backward) {
      TRAINRT_CUDNN(cudnnSoftmaxBackward(handle_, algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, alpha, d,
                                         in[1], d, in[0], beta, d, out[0]));
    } else {
      TRAINRT_CUDNN(cudnnSoftmaxForward(handle_, algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, alpha, d,
                                        in[0], beta, d, out[0]));
    }
  }

 private:
  cudnnHandle_t handle_;
  gpu::SoftmaxCall call_;
  TensorDescription description_;
};

class PoolRun final : public gpu::LibraryCall {
 public:
  PoolRun(cudnnHandle_t handle, const gpu::PoolCall& call) : handle_(handle), call_(call) {
    TRAINRT_CUDNN(cudnnCreatePoolingDescriptor(&pooling_));
    const std::vector<int> window(call.kernel.begin(), call.kernel.end()),
        pads(call.pads_begin.begin(), call.pads_begin.end()),
        strides(call.strides.begin(), call.strides.end());
    const auto mode = call.kind == gpu::PoolKind::kMax ? CUDNN_POOLING_MAX_DETERMINISTIC
                      : call.kind == gpu::PoolKind::kAverage
                          ? CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
                          : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    const cudnnStatus_t status = cudnnSetPoolingNdDescriptor(
        pooling_, mode, CUDNN_PROPAGATE_NAN, static_cast<int>(window.size()), window.data(),
        pads.data(), strides.data());
    if (status != CUDNN_STATUS_SUCCESS) {
      cudnnDestroyPoolingDescriptor(pooling_);
      check_cudnn(status, "cudnnSetPoolingNdDescriptor");
    }
    x_.set(CUDNN_DATA_FLOAT, call.x);
    y_.set(CUDNN_DATA_FLOAT, call.y);
  }
  ~PoolRun() override { cudnnDestroyPoolingDescriptor(pooling_); }
  size_t workspace_bytes() const override { return 0; }
  void run(gpu::Stream& stream, const void* const* in, void* const* out, void*) const override {
    TRAINRT_CUDNN(cudnnSetStream(handle_, native(stream)));
    const float one = 1, zero = 0;
    if (!call_.backward) {
      TRAINRT_CUDNN(
          cudnnPoolingForward(handle_, pooling_, &one, x_.get(), in[0], &zero, y_.get(), out[0]));
      return;
    }
    // Averages do not look at x and y, which are asked for all the same.
    const bool max = call_.kind == gpu::PoolKind::kMax;
    const void* y = max ? in[2] : in[0];
    const void* x = max ? in[1] : out[0];
    TRAINRT_CUDNN(cudnnPoolingBackward(handle_, pooling_, &one, y_.get(), y, y_.get(), in[0],
                                       x_.get(), x, &zero, x_.get(), out[0]));
  }

 private:
  cudnnHandle_t handle_;
  gpu::PoolCall call_;
  cudnnPoolingDescriptor_t pooling_ = nullptr;
  TensorDescription x_, y_;
};

bool fits_int(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size <= 0 || product > std::numeric_limits<int>::max() / size) return false;
    product *= size;
  }
  return true;
}

class Library final : public Cudnn {
 public:
  Library() { TRAINRT_CUDNN(cudnnCreate(&handle_)); }
  ~Library() override {
    graphs_.clear();
    cudnnDestroy(handle_);
  }

  std::unique_ptr<gpu::LibraryCall> convolution(const gpu::ConvCall& call,
                                                std::string* why) override {
    if (call.relu) return refuse("what cuDNN's ReLU makes of NaN is not documented", why);
    return planned(call, key_of(call), why);
  }

  std::unique_ptr<gpu::LibraryCall> attention(const gpu::AttentionCall& call,
                                              std::string* why) override {
    return planned(call, key_of(call), why);
  }

  std::unique_ptr<gpu::LibraryCall> pool(const gpu::PoolCall& call, std::string* why) override {
    int64_t x = 1, y = 1;
    for (const int64_t d : call.x) x *= d;
    for (const int64_t d : call.y) y *= d;
    if (!fits_int({x}) || !fits_int({y})) return refuse("the tensor is too large", why);
    return attempt<PoolRun>(call, why);
  }

  std::unique_ptr<gpu::LibraryCall> softmax(const gpu::SoftmaxCall& call,
                                            std::string* why) override {
    if (!fits_int({call.outer, call.axis, call.inner})) {
      return refuse("the tensor is too large", why);
    }
    return attempt<SoftmaxRun>(call, why);
  }

 private:
  static std::unique_ptr<gpu::LibraryCall> refuse(const std::string& reason, std::string* why) {
    if (why != nullptr) *why = reason;
    return nullptr;
  }

  template <typename Run, typename Call>
  std::unique_ptr<gpu::LibraryCall> attempt(const Call& call, std::string* why) {
    try {
      return std::make_unique<Run>(handle_, call);
    } catch (const Error& e) {
      return refuse(e.what(), why);
    }
  }

  /// One plan for all calls that are alike.
  template <typename Call>
  std::unique_ptr<gpu::LibraryCall> planned(const Call& call, const std::string& key,
                                            std::string* why) {
    std::shared_ptr<CudnnGraph>& graph = graphs_[key];
    if (graph == nullptr) {
      try {
        auto fresh = std::make_shared<CudnnGraph>(call);
        fresh->plan(handle_);
        graph = std::move(fresh);
      } catch (const Error& e) {
        graphs_.erase(key);
        return refuse(e.what(), why);
      }
    }
    return std::make_unique<GraphCall>(handle_, graph, operands_of(call));
  }

  static std::string key_of(const gpu::ConvCall& c) {
    std::string key = "conv";
    for (const auto* list :
         {&c.x, &c.w, &c.y, &c.strides, &c.dilations, &c.pads_begin, &c.pads_end}) {
      key += "|";
      for (const int64_t n : *list) key += std::to_string(n) + ",";
    }
    for (const int64_t n :
         {int64_t(c.pass), c.group, int64_t(c.x_type), int64_t(c.w_type), int64_t(c.y_type),
          int64_t(c.channels_last), int64_t(c.products), int64_t(c.bias), int64_t(c.relu)}) {
      key += std::to_string(n) + ",";
    }
    return key;
  }

  static std::string key_of(const gpu::AttentionCall& c) {
    char scale[32];
    std::snprintf(scale, sizeof(scale), "%a", c.scale);
    std::string key = std::string("attention ") + scale + ",";
    for (const int64_t n : {int64_t(c.backward), c.batch, c.heads, c.kv_heads, c.queries, c.keys,
                            c.size, c.value_size, int64_t(c.causal), int64_t(c.type)}) {
      key += std::to_string(n) + ",";
    }
    for (const auto& o : {c.q, c.k, c.v, c.y, c.dy, c.dq, c.dk, c.dv}) {
      key += std::to_string(o.batch) + "," + std::to_string(o.head) + "," +
             std::to_string(o.token) + ";";
    }
    return key;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<std::string, std::shared_ptr<CudnnGraph>> graphs_;
};

}  // namespace

std::unique_ptr<Cudnn> make_cudnn() { return std::make_unique<Library>(); }

}  // namespace trainrt::cuda
