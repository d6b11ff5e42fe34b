// A model read from an ONNX file, as a trainable module: forward, backward, parameters, state.
#ifndef TRAINRT_MODULE_H_
#define TRAINRT_MODULE_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainrt/dtype.h"
#include "trainrt/error.h"
#include "trainrt/tensor.h"

namespace trainrt {

class Session;  // the machinery behind Module and Trainer; not part of the public interface
struct ParameterState;

/// Names and values in a stable order.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

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
};

struct ModuleOptions {
  /// Working type of all floating values: float32, or float64 (reference kernels for everything).
  DType dtype = DType::kFloat32;
  /// kBFloat16: with dtype float32 and Backend::kAuto only, else Error(kUsage); throws
  /// Error(kUnsupported) on processors without bfloat16 products.
  Precision precision = Precision::kFloat32;
  BatchNormPolicy batch_norm = BatchNormPolicy::kTrain;
  bool dropout = true;  // false: Dropout is the identity in train mode too
  /// Gradients pass through QuantizeLinear and DequantizeLinear as if they did not round; what is
  /// clamped gets 0. Without it a model that would need them is refused.
  bool straight_through = false;
  uint64_t seed = 0;
  int threads = 0;  // 0: all cores
  Backend backend = Backend::kAuto;
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

/// A weight that training changes. A handle: copies refer to the same parameter, which lives as
/// long as the module or any handle.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(std::shared_ptr<ParameterState> state) : state_(std::move(state)) {}

  const std::string& name() const;           // in the file
  const std::string& original_name() const;  // the framework's, where it can be told
  const std::string& module() const;         // dotted path of the owner; may be empty
  const std::string& reason() const;         // why it is a parameter
  const Shape& shape() const;
  DType dtype() const;  // the working type
  int64_t size() const;
  /// The stored value itself: writing to it changes the parameter.
  Tensor value() const;
  /// Sum of the gradients since the last zero_grad(); undefined before the first backward().
  Tensor grad() const;
  void set_grad(
      Tensor grad);  // undefined: drops it; throws Error(kInput) for another type or shape
  bool requires_grad() const;
  Parameter& requires_grad_(bool on);

 private:
  std::shared_ptr<ParameterState> state_;
};

/// Results of a forward call, in the file's order. The tensors are the caller's.
class Outputs {
 public:
  Outputs() = default;
  Outputs(std::vector<std::pair<std::string, Tensor>> values, uint64_t call)
      : values_(std::move(values)), call_(call) {}

  size_t size() const { return values_.size(); }
  const Tensor& at(size_t index) const;           // throws Error(kUsage) when out of range
  const Tensor& at(std::string_view name) const;  // throws Error(kUsage) naming those there
  template <std::integral I>
  const Tensor& operator[](I index) const {
    return at(static_cast<size_t>(index));
  }
  const Tensor& operator[](std::string_view name) const { return at(name); }
  const Tensor& operator[](const char* name) const { return at(std::string_view(name)); }
  bool contains(std::string_view name) const;
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  /// Number of the forward call that made them.
  uint64_t call() const { return call_; }

 private:
  std::vector<std::pair<std::string, Tensor>> values_;
  uint64_t call_ = 0;
};

/// Keys that load_state_dict(…, false) did not find or did not know.
struct LoadResult {
  std::vector<std::string> missing, unexpected;
};

/// Starts in train mode. Movable, not copyable; one thread at a time may use a module and the
/// trainers made from it.
class Module {
 public:
  /// Reads the file and the external data below its folder; throws Error.
  explicit Module(const std::string& path, const ModuleOptions& options = {});
  /// As above, from memory; external data is looked for below `folder`.
  static Module from_bytes(std::span<const char> bytes, const ModuleOptions& options = {},
                           const std::string& folder = ".");
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  ~Module();

  const ModuleOptions& options() const;
  const std::vector<PortInfo>& inputs() const;
  const std::vector<PortInfo>& outputs() const;
  /// Remarks of the import that are no obstacles.
  const std::vector<std::string>& warnings() const;

  /// The first call of a signature (mode, shapes) checks and plans; later calls run. In train mode
  /// what backward() needs is kept until the next forward, step or evaluation of this module.
  Outputs forward(const TensorMap& inputs);
  Outputs forward(std::span<const Tensor> inputs);  // in the file's order
  Outputs forward(std::initializer_list<Tensor> inputs) {
    return forward(std::span<const Tensor>(inputs.begin(), inputs.size()));
  }

  /// Gradients of sum(dy * output) over the outputs named, of the last forward in train mode; added
  /// to Parameter::grad(). Runs once per forward; throws Error(kUsage) when there is nothing to go
  /// back through, or what it needs was overwritten.
  void backward(const TensorMap& output_grads);
  void backward(std::span<const Tensor> output_grads);  // in the file's order; undefined: zero
  void backward(std::initializer_list<Tensor> output_grads) {
    backward(std::span<const Tensor>(output_grads.begin(), output_grads.size()));
  }
  /// As above, checking that `outputs` are those of the last forward.
  void backward(const Outputs& outputs, const TensorMap& output_grads);
  /// Of the attached loss.
  void backward();

  /// Adds the loss terms (`NAME[:OUTPUT][*WEIGHT]`) to the model: forward() then takes the targets
  /// too ("target" or "target/<output>"), returns "loss" last, and backward() needs no gradients.
  void attach_loss(const std::vector<std::string>& losses);

  /// Whether backward() also computes the gradients of float inputs (off by default).
  void input_requires_grad_(bool on);
  /// Of the last backward(); throws Error(kUsage) when there is none.
  Tensor input_grad(const std::string& name) const;

  std::vector<Parameter> parameters() const;
  std::vector<std::pair<std::string, Parameter>> named_parameters() const;
  /// By file name or original name; throws Error(kUsage) naming the nearest.
  Parameter get_parameter(const std::string& name) const;
  std::vector<Tensor> buffers() const;
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  Tensor get_buffer(const std::string& name) const;

  /// Parameters, then buffers; the tensors share the module's storage.
  StateDict state_dict() const;
  /// All or nothing: when a shape or type does not fit, or (strict) a key is missing or unknown,
  /// throws Error(kInput) with every fault, and nothing has changed. Original names are accepted.
  LoadResult load_state_dict(const StateDict& values, bool strict = true);

  Module& train(bool mode = true);
  Module& eval() { return train(false); }
  bool is_training() const;
  /// Drops the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);
  /// Every parameter.
  Module& requires_grad_(bool on);

  /// The file with the present weights and running statistics, BatchNormalization and Dropout in
  /// their inference form; all else as it was.
  void export_onnx(const std::string& path) const;
  /// Parameters and buffers in trainrt's checkpoint format; a killed write leaves the old file.
  void save(const std::string& path) const;
  /// Parameters and buffers of a checkpoint, whoever wrote it (Module or Trainer).
  void load(const std::string& path);

  /// Everything that stands in the way of training, at the given inputs (absent: synthetic ones of
  /// the declared shapes). Empty: nothing does.
  std::vector<Problem> check(const TensorMap& inputs = {});

  /// For trainrt's own layers.
  const std::shared_ptr<Session>& session() const;

 private:
  struct Impl;
  explicit Module(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Inputs of the declared shapes with made-up contents, for smoke tests: normal floats, integers 0
/// or 1. `shapes` replaces declared shapes by name; a free first dim becomes `batch`, other free
/// dims a small size.
TensorMap synthetic_inputs(const Module& module, int64_t batch, uint64_t seed,
                           const std::map<std::string, Shape>& shapes = {});

}  // namespace trainrt

#endif  // TRAINRT_MODULE_H_
