// A GPU that is a part of this process: memory that the host must not touch, streams whose work
// runs as late as it may, kernels on fibers. It finds what a real GPU would find only now and then:
// reads of results that nobody waited for, staging memory that is overwritten too early, host code
// that follows a device address, accesses beyond an allocation.
#ifndef TRAINRT_TESTS_CUDA_EMULATOR_DEVICE_H_
#define TRAINRT_TESTS_CUDA_EMULATOR_DEVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gpu.h"

namespace trainrt::testing {

struct EmulatedOptions {
  size_t memory_bytes = size_t{8} << 30;
  /// Whether library calls are taken (and run by plain loops); otherwise rows of our own run.
  bool libraries = true;
  /// Whether generated sources are compiled, so that they can run.
  bool compile = true;
};

/// What an emulated device did.
struct EmulatedCounts {
  int64_t launches = 0, copies_to_device = 0, copies_to_host = 0, synchronizations = 0;
  int64_t recordings = 0, recordings_run = 0, library_calls = 0;
  size_t allocated_bytes = 0, host_bytes = 0;  // at this time
  std::vector<std::string> sources;            // given to compile()
};

class EmulatedDevice : public gpu::Device {
 public:
  virtual const EmulatedCounts& counts() const = 0;
};

std::unique_ptr<EmulatedDevice> make_emulated_device(const EmulatedOptions& options = {});

/// The libraries' calls as plain loops (library.cc).
std::unique_ptr<gpu::LibraryCall> emulated_matmul(const gpu::MatMulCall& call, std::string* why);
std::unique_ptr<gpu::LibraryCall> emulated_convolution(const gpu::ConvCall& call, std::string* why);
std::unique_ptr<gpu::LibraryCall> emulated_attention(const gpu::AttentionCall& call,
                                                     std::string* why);
std::unique_ptr<gpu::LibraryCall> emulated_pool(const gpu::PoolCall& call, std::string* why);
std::unique_ptr<gpu::LibraryCall> emulated_softmax(const gpu::SoftmaxCall& call, std::string* why);

/// Puts host code into an emulated stream, to run when its turn comes.
void enqueue(gpu::Stream& stream, std::function<void()> work);

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_CUDA_EMULATOR_DEVICE_H_
