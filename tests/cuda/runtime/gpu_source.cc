#include "tests/cuda/runtime/gpu_source.h"

#include "runtime/gpu_context.h"
#include "tests/cuda/test_device.h"

namespace trainrt::testing {
namespace {

EmulatedDevice* current = nullptr;

/// Forgets the device when it goes.
class Watched final : public gpu::Device {
 public:
  explicit Watched(std::unique_ptr<EmulatedDevice> device) : device_(std::move(device)) {
    current = device_.get();
  }
  ~Watched() override { current = nullptr; }
  const gpu::Properties& properties() const override { return device_->properties(); }
  size_t free_memory() const override { return device_->free_memory(); }
  void* allocate(size_t bytes) override { return device_->allocate(bytes); }
  void free(void* address) noexcept override { device_->free(address); }
  void* allocate_host(size_t bytes) override { return device_->allocate_host(bytes); }
  void free_host(void* address) noexcept override { device_->free_host(address); }
  std::unique_ptr<gpu::Stream> make_stream() override { return device_->make_stream(); }
  std::unique_ptr<gpu::Event> make_event() override { return device_->make_event(); }
  const gpu::Function* function(std::string_view name) override { return device_->function(name); }
  const gpu::Function* compile(const std::string& source, std::string_view name) override {
    return device_->compile(source, name);
  }
  void finish_compiling() override { device_->finish_compiling(); }
  std::unique_ptr<gpu::LibraryCall> matmul(const gpu::MatMulCall& c, std::string* why) override {
    return device_->matmul(c, why);
  }
  std::unique_ptr<gpu::LibraryCall> convolution(const gpu::ConvCall& c, std::string* why) override {
    return device_->convolution(c, why);
  }
  std::unique_ptr<gpu::LibraryCall> attention(const gpu::AttentionCall& c,
                                              std::string* why) override {
    return device_->attention(c, why);
  }
  std::unique_ptr<gpu::LibraryCall> pool(const gpu::PoolCall& c, std::string* why) override {
    return device_->pool(c, why);
  }
  std::unique_ptr<gpu::LibraryCall> softmax(const gpu::SoftmaxCall& c, std::string* why) override {
    return device_->softmax(c, why);
  }

 private:
  std::unique_ptr<EmulatedDevice> device_;
};

}  // namespace

ModuleOptions on_gpu(DType dtype) {
  if (!on_real_device()) {
    static const bool once = [] {
      set_gpu_source([](int) { return std::make_unique<Watched>(make_emulated_device()); });
      return true;
    }();
    (void)once;
  }
  ModuleOptions options;
  options.dtype = dtype;
  options.device = Device{DeviceType::kCuda, 0};
  return options;
}

const EmulatedCounts* gpu_counts() { return current == nullptr ? nullptr : &current->counts(); }

}  // namespace trainrt::testing
