// What the plans of a session share on a GPU: streams, the arena, state, and what went wrong there.
#ifndef TRAINRT_RUNTIME_GPU_CONTEXT_H_
#define TRAINRT_RUNTIME_GPU_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/gpu.h"
#include "trainrt/device.h"
#include "trainrt/tensor.h"

namespace trainrt {

/// Memory of a device, given back at the end.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(gpu::Device& device, size_t bytes)
      : device_(&device), data_(bytes == 0 ? nullptr : device.allocate(bytes)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) device_->free(data_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  gpu::Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// Host memory that copies reach behind the caller's back.
class StagingMemory {
 public:
  StagingMemory() = default;
  StagingMemory(gpu::Device& device, size_t bytes)
      : data_(bytes == 0 ? nullptr : device.allocate_host(bytes),
              [&device](void* p) { device.free_host(p); }) {}
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  const std::shared_ptr<void>& owner() const { return data_; }

 private:
  std::shared_ptr<void> data_;
};

/// The device's copies of state tensors, which a session also keeps on the host. Each is brought up
/// to date where it is needed.
class StateMirror {
 public:
  StateMirror(gpu::Device& device, gpu::Stream& stream) : device_(device), stream_(stream) {}

  /// Where the device keeps the tensor; made on first use, with the host's values.
  void* address(const Tensor& host) { return memory(host)->data(); }
  /// The same, to keep.
  const std::shared_ptr<DeviceMemory>& memory(const Tensor& host);
  /// Copies what the host has changed.
  void to_device();
  /// A step has written these addresses.
  void changed_on_device(void* address);
  /// Copies what the device has changed; the host may then write any of it.
  void to_host();
  /// Whether the host may have newer values of anything.
  bool host_is_newer() const { return host_is_newer_; }
  /// After to_host(): forgets all tensors. No plan that has their addresses may run again.
  void clear();
  size_t bytes() const { return bytes_; }
  /// Zeros on both sides, without a copy.
  void zero(const Tensor& host);

 private:
  struct Entry {
    Tensor host;
    std::shared_ptr<DeviceMemory> memory;
    bool device_is_newer = false;
  };

  gpu::Device& device_;
  gpu::Stream& stream_;
  std::vector<Entry> entries_;
  std::unordered_map<const void*, size_t> by_host_, by_device_;
  bool host_is_newer_ = false, device_is_newer_ = false;
  size_t bytes_ = 0;
};

class GpuContext {
 public:
  explicit GpuContext(std::shared_ptr<gpu::Device> device);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  gpu::Device& device() { return *device_; }
  const std::shared_ptr<gpu::Device>& shared_device() const { return device_; }
  /// Steps run in the first stream; inputs come through the second.
  gpu::Stream& compute() { return *compute_; }
  gpu::Stream& upload() { return *upload_; }
  StateMirror& state() { return state_; }

  /// The arena that plans share; moves when it grows.
  void reserve(size_t bytes);
  std::byte* arena() const { return arena_.data(); }
  size_t arena_bytes() const { return arena_.bytes(); }
  /// For nodes that run on the host.
  void reserve_host(size_t bytes);
  std::byte* host_arena() const { return host_arena_.data(); }

  /// A word that kernels set to KernelArgs::step + 1 when contents do not fit.
  int32_t* status() const { return reinterpret_cast<int32_t*>(status_.data()); }
  /// A range of numbers for the steps of a plan, and how to name them in errors; valid until
  /// forgotten.
  int32_t add_steps(int32_t count, std::function<std::string(int32_t)> describe);
  void forget_steps(int32_t first);
  /// Waits for all work and throws Error(kRuntime) naming the first node that reported.
  void finish();

 private:
  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Stream> compute_, upload_;
  StateMirror state_;
  DeviceMemory arena_, status_;
  StagingMemory host_arena_;
  size_t host_arena_bytes_ = 0;
  struct Steps {
    int32_t count;
    std::function<std::string(int32_t)> describe;
  };
  std::map<int32_t, Steps> steps_;
  int32_t next_step_ = 0;
};

/// Scalars that steps leave on the device, kept there until somebody wants them.
class ScalarLog {
 public:
  explicit ScalarLog(std::shared_ptr<GpuContext> context);

  const std::shared_ptr<GpuContext>& context() const { return context_; }
  /// Copies a scalar without waiting for it.
  void note(const void* address, DType dtype);
  /// Waits; all that were noted since the last call.
  std::vector<double> take();

 private:
  void fetch();

  std::shared_ptr<GpuContext> context_;
  DeviceMemory memory_;
  std::vector<DType> noted_;
  std::vector<double> fetched_;
};

/// The GPU of this number, shared by all who use it. Throws Error(kUnsupported) saying what is
/// missing: the backend's library, one of NVIDIA's, the driver or the device.
std::shared_ptr<gpu::Device> find_gpu(int index);
/// For tests: where find_gpu() gets its devices from; empty: from libtrainrt_cuda.so.
void set_gpu_source(std::function<std::unique_ptr<gpu::Device>(int index)> source);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_GPU_CONTEXT_H_
