// What a kernel is, and the ordered rows by which backends offer kernels.
#ifndef TRAINRT_KERNELS_KERNEL_H_
#define TRAINRT_KERNELS_KERNEL_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "kernels/gpu.h"

namespace trainrt {

/// A node as kernels see it: op, attributes and types; no names, no neighbours.
struct NodeView {
  Op op;
  const Attrs& attrs;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;

  template <typename T>
  const T& attr() const {
    return std::get<T>(attrs);
  }
};

/// Whether a row takes a node; a refusal says why, for dumps.
struct Support {
  bool ok = true;
  std::string reason;

  static Support yes() { return {}; }
  static Support no(std::string why) { return {false, std::move(why)}; }
};

/// Addresses of one run, 64-byte aligned, in the order of the node's inputs and outputs.
struct KernelArgs {
  const void* const* in;
  void* const* out;
  void* scratch;  // of the size that plan() booked; shared by all nodes of a plan
  // Kernels of a GPU: addresses are the device's, run() puts work into the stream. A kernel that
  // finds contents it cannot compute with sets *status, which the device holds, to step + 1.
  gpu::Stream* stream = nullptr;
  int32_t* status = nullptr;
  int32_t step = 0;

  template <typename T>
  const T* input(size_t i) const {
    return static_cast<const T*>(in[i]);
  }
  template <typename T>
  T* output(size_t i) const {
    return static_cast<T*>(out[i]);
  }
};

/// A planned node. run() neither allocates nor looks anything up, uses OpenMP inside, and throws
/// Error(kRuntime) only for contents that types cannot rule out (an index out of range). Must be
/// called by one thread at a time.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const KernelArgs& args) const = 0;
};

/// Wraps a callable void(const KernelArgs&).
template <typename F>
std::unique_ptr<Kernel> make_kernel(F f) {
  struct Wrapped final : Kernel {
    explicit Wrapped(F f) : f(std::move(f)) {}
    void run(const KernelArgs& args) const override { f(args); }
    F f;
  };
  return std::make_unique<Wrapped>(std::move(f));
}

/// What a kernel needs besides its operands while it runs, and what it is planned for.
struct Scratch {
  size_t bytes = 0;
  /// The GPU that a kernel for GPUs will run on. Without one it is planned as far as that goes, and
  /// cannot run.
  gpu::Device* device = nullptr;
  gpu::Products products = gpu::Products::kFloat32;
  size_t alignment = 64;  // bytes: where operands begin, a power of two
};

struct KernelRow {
  Op op;
  std::string_view name;  // "onednn.conv", "cpu.softmax", "reference": shown in dumps and refusals
  Support (*supports)(const NodeView&);  // pure; null: every node of this op
  /// Called once per node and plan. The view's spans do not outlive the call: copy what is needed.
  /// Null: the scratch's device has no way to run this after all; the next row is asked.
  std::unique_ptr<Kernel> (*plan)(const NodeView&, Scratch&);
  /// The first output may share the memory of an input of the same byte size that dies here.
  bool in_place = false;
  /// supports() knows layouts; every other row sees plain operands only.
  bool layouts = false;
  /// supports() knows float32 values that are kept as bfloat16; every other row sees none.
  bool bf16 = false;
};

/// Lists of rows in order of preference.
using KernelLists = std::vector<std::span<const KernelRow>>;

/// oneDNN and hand-written float32 kernels, best first.
std::span<const KernelRow> cpu_kernels();
/// Whether this processor multiplies bfloat16 (AVX512-BF16, AMX, …), so that cpu_kernels() does.
bool cpu_runs_bf16();
/// Kernels for NVIDIA GPUs, best first: cuBLASLt, cuDNN, our own and generated ones. They are there
/// in every build; running them takes a gpu::Device.
std::span<const KernelRow> cuda_kernels();
/// Plain loops for every op, float32 and float64 (and integers where ONNX has them).
std::span<const KernelRow> reference_kernels();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_KERNEL_H_
