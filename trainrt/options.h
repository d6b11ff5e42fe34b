// How a model is loaded, and what its inputs and outputs are.
#ifndef TRAINRT_OPTIONS_H_
#define TRAINRT_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainrt/device.h"
#include "trainrt/dtype.h"

namespace trainrt {

enum class BatchNormPolicy : uint8_t {
  kTrain,   // batch statistics in train mode, whatever the exporter froze
  kGraph,   // as the file says
  kFrozen,  // running statistics always
};

enum class Backend : uint8_t {
  kAuto,       // the fastest kernels that support a node
  kReference,  // plain loops for every op
};

enum class Precision : uint8_t {
  kFloat32,
  /// Products and convolutions read bfloat16 and sum in float32; what lies between them is kept as
  /// bfloat16 where all its readers can read it. Parameters, gradients on their way to an update,
  /// optimizer state, inputs and outputs are float32, as are the sums inside norms, softmax and
  /// losses. Relative errors of a few 1e-3 where float32 has 1e-7.
  kBFloat16,
  /// On a GPU: products and convolutions round their operands to 10 bits of mantissa (TF32) and sum
  /// in float32; everything else is float32.
  kTf32,
};

enum class LogLevel : uint8_t {
  kWarning,  // remarks of the import, deprecated calls: to stderr
  kInfo,     // each plan that is made, too
  kError     // nothing but errors, which are thrown
};

/// PyTorch's, for Module::to().
enum class MemoryFormat : uint8_t { kPreserve, kContiguous, kChannelsLast, kChannelsLast3d };

/// As ORTModule's: what a module writes while it works.
struct DebugOptions {
  LogLevel log_level = LogLevel::kError;
  /// Writes each stage of each new plan's graph to `save_path`/`onnx_prefix`_STAGE_N.txt, and the
  /// model as it was loaded to `save_path`/`onnx_prefix`.onnx. Throws Error(kUsage) on an empty
  /// prefix and Error(kFile) when a file cannot be written.
  bool save_onnx = false;
  std::string onnx_prefix;
  std::string save_path = ".";
};

struct ModuleOptions {
  /// Working type of all floating values: float32, or float64 (reference kernels for everything).
  DType dtype = DType::kFloat32;
  /// kBFloat16: with dtype float32 and Backend::kAuto only, else Error(kUsage); throws
  /// Error(kUnsupported) on processors without bfloat16 products. kTf32: the same, on a GPU only.
  Precision precision = Precision::kFloat32;
  BatchNormPolicy batch_norm = BatchNormPolicy::kTrain;
  bool dropout = true;  // false: Dropout is the identity in train mode too
  /// Gradients pass through QuantizeLinear and DequantizeLinear as if they did not round; what is
  /// clamped gets 0. Without it a model that would need them is refused.
  bool straight_through = false;
  uint64_t seed = 0;
  int threads = 0;  // 0: all cores
  Backend backend = Backend::kAuto;
  /// Where steps run: the CPU or an NVIDIA GPU. For a GPU throws Error(kUnsupported) that says
  /// which of the CUDA backend, its libraries, the driver and the device is missing (docs/cuda.md).
  Device device;
  /// Nodes that no kernel for GPUs takes run on the CPU, with copies to and fro. Without it a model
  /// that has such nodes is refused with the list of them.
  bool allow_cpu_fallback = false;
  /// Only check() and the listings of graphs are wanted: nothing is opened for `device`, and a step
  /// that would run there throws Error(kUsage).
  bool plan_only = false;
  /// Shell patterns (* ? [a-z]) over file names and original names. A parameter is trained when it
  /// matches some pattern of train_only (or there is none) and no pattern of freeze.
  std::vector<std::string> freeze, train_only;
  /// An embedding and an output projection which the exporter wrote as two weights with the same
  /// values become one parameter.
  bool tie_weights = false;
  /// Bytes that the intermediate values of a step with gradients may take (PlanStats::arena_bytes):
  /// its backward section computes again what it takes to stay within, by the same kernels, so that
  /// results are the same to the bit. 0: no limit. A step that cannot stay within throws
  /// Error(kMemory), which names the smallest size it can have.
  size_t memory_budget = 0;
  size_t plan_cache = 8;  // plans kept, least recently used go first
  DebugOptions debug;
};

/// An input or output as the file declares it.
struct PortInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  bool has_shape = false;
  std::vector<int64_t> dims;         // -1: free
  std::vector<std::string> symbols;  // names of free dims; may be empty
  std::string text;                  // "[n,4]"
  /// Of tensors like this, which forward() takes and returns as "NAME[0]", "NAME[1]", …: as many as
  /// there are.
  bool sequence = false;
  bool optional = false;  // may be left out
};

}  // namespace trainrt

#endif  // TRAINRT_OPTIONS_H_
