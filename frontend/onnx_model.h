// An ONNX file in memory: decoded, checked, with its parameters found; shapes still symbolic.
#ifndef TRAINRT_FRONTEND_ONNX_MODEL_H_
#define TRAINRT_FRONTEND_ONNX_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/state_layout.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "trainrt/error.h"
#include "trainrt/model_info.h"
#include "trainrt/tensor.h"

namespace trainrt {

/// A dim of an input or output as the file declares it.
struct Dim {
  int64_t size = -1;   // -1: not fixed
  std::string symbol;  // name of a free dim; may be empty
};

enum class PortKind : uint8_t { kTensor, kSequence, kOptional, kOptionalSequence };

/// An input or output of the model. A sequence is bound, and put out, as its tensors under the
/// names of entry_name(); how many there are is its length. An optional that holds nothing, and an
/// optional sequence without entries, are left out.
struct Port {
  std::string name;
  PortKind kind = PortKind::kTensor;
  DType dtype = DType::kFloat32;  // as in the file; of a sequence: that of its entries, as the dims
  bool has_shape = false;
  std::vector<Dim> dims;
  /// ONNX's number of the element type when dtype is only the one that holds its values (float32
  /// for float8 and float4, int8 or uint8 for 4 and 2 bits); else 0.
  int64_t narrow = 0;
};
/// "[n,4]"
std::string to_string(const Port& port);
/// "float32[n,4]", without a shape where the file has none.
std::string declared_type(const Port& port);
/// Whether the rank and the fixed dims are those declared.
bool shape_fits(const Port& port, const Shape& shape);
/// "x[3]": entry 3 of the sequence x.
std::string entry_name(const std::string& port, size_t entry);
/// The port that a name belongs to: its own, or that of an entry. Null when there is none.
const Port* find_port(const std::vector<Port>& ports, const std::string& name);

/// A weight of the file. The rule of discovery stands in docs/design.md, "Parameters".
struct WeightInfo {
  std::string name;  // as in the file; Constant nodes: the output's name, "#2" … on recurrence
  std::string
      original;  // the framework's name where it can be told (blocks.0.attn.weight), else name
  bool transposed = false;        // the file holds the framework's weight transposed
  std::string module;             // dotted path of the owning module, may be empty
  DType dtype = DType::kFloat32;  // as stored
  Shape shape;
  std::string reason;  // why it is, or is not, a parameter
};

/// A module of the original framework, as far as the file tells.
struct ModuleInfo {
  std::string path;   // dotted; "" is the root
  std::string type;   // "Linear", "Conv2d", …; empty where nothing tells it
  std::string extra;  // what stands between the parentheses when it is printed
};

/// Sees where a graph that is being built enters and leaves calls of modules, and may put other
/// values in the place of those that cross the border. Calls nest.
class ModuleBorders {
 public:
  virtual ~ModuleBorders() = default;
  /// A graph is about to be built.
  virtual void begin() = 0;
  /// Paths of the modules that it wants to see.
  virtual const std::vector<std::string>& modules() const = 0;
  /// What the call reads that is neither stored in the file nor known when the plan is built.
  virtual void enter(Builder& b, const std::string& module, const std::vector<std::string>& names,
                     std::vector<Var>& inputs) = 0;
  /// What is read of the call's results outside of it.
  virtual void leave(Builder& b, const std::string& module, const std::vector<std::string>& names,
                     std::vector<Var>& outputs) = 0;
};

/// What a call binds an input to.
struct InputBinding {
  TensorType type;
  /// The contents, when they decide a shape or a branch (they become constants of the graph).
  std::optional<Tensor> value;
};

enum class BatchNormMode : uint8_t {
  kTrain,   // batch statistics in train mode, whatever the exporter froze
  kGraph,   // as the file says
  kFrozen,  // running statistics always
};

struct SpecializeOptions {
  DType working = DType::kFloat32;  // every floating value of the file is computed in this type
  bool training = true;
  BatchNormMode batch_norm = BatchNormMode::kTrain;
  bool dropout = true;  // false: Dropout is the identity in train mode too
  /// QuantizeLinear passes the gradient of what it does not clamp on to its input.
  bool straight_through = false;
  /// Modes of modules that differ from `training`, by path; the nearest one above a node counts.
  std::map<std::string, bool> modes = {};
  ModuleBorders* borders = nullptr;  // may be null
};

/// What a model is being run on, for values that no plan can be built without: branches taken, trip
/// counts, shapes that follow from contents.
struct Contents {
  /// The tensor an Input node of the graph will hold, in that node's type.
  std::function<Tensor(const InputAttrs&)> of;
  Evaluator evaluator;

  explicit operator bool() const { return static_cast<bool>(of); }
};

/// A computed value whose contents the graph was built for.
struct Decision {
  ValueId value;
  Tensor contents;
};

/// A specialized model. Inputs: kData for the model's inputs (name, concrete type), kParameter for
/// each weight of OnnxModel::parameters() that the graph uses, kBuffer for running statistics, at
/// most one kRng named "rng". Outputs: role kOutput, in the file's order. Updates of running
/// statistics are Assign nodes of section kForward with kState outputs.
struct Specialized {
  Graph graph;
  /// Inputs whose contents decide shapes or branches but were not given as values. When it is not
  /// empty the graph is not usable: specialize again with their contents.
  std::vector<std::string> needs_value;
  /// The graph is right only for calls in which these values come out the same.
  std::vector<Decision> decisions;
};

struct LoadOptions {
  /// An embedding and an output projection that hold the same values (one of them transposed, as
  /// exporters that fold constants write a tied weight) become one parameter, the embedding.
  /// Without it such a pair is a warning.
  bool tie_weights = false;
};

/// Immutable after loading; may be shared between threads.
class OnnxModel {
 public:
  /// Reads a model and the external data below its folder. A file that is no ONNX model, or breaks
  /// ONNX's rules, throws Error(kFile) or Error(kInvalidModel) with every problem found.
  static OnnxModel load(const std::string& path, const LoadOptions& options = {});
  /// As load; external data is looked for below `folder`.
  static OnnxModel from_bytes(std::span<const char> bytes, const std::string& folder = ".",
                              const LoadOptions& options = {});

  OnnxModel(OnnxModel&&) noexcept;
  OnnxModel& operator=(OnnxModel&&) noexcept;
  ~OnnxModel();

  /// Inputs that are no initializers, in the file's order.
  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  /// Candidates for training: float weights on a differentiable path to some output.
  const std::vector<WeightInfo>& parameters() const;
  /// Running statistics of BatchNormalization that are stored in the file.
  const std::vector<WeightInfo>& buffers() const;
  /// Float weights of rank >= 1 that are neither, with the reason.
  const std::vector<WeightInfo>& other_weights() const;

  /// The tree of modules, a parent before its children, the root first.
  const std::vector<ModuleInfo>& modules() const;
  /// Where the framework's tensors lie in parameters() and buffers().
  const StateLayout& state_layout() const;

  /// The stored value; float16 and bfloat16 stay as they are. Throws Error(kInput) for an unknown
  /// name.
  Tensor weight(const std::string& name) const;
  /// 0 when the domain is not imported.
  int64_t opset(const std::string& domain = "") const;
  /// Nodes by op ("Conv", "com.microsoft::Gelu"), functions inlined.
  std::map<std::string, int64_t> op_counts() const;
  /// Things a user should know that are no obstacles (a newer opset than known, …).
  const std::vector<std::string>& warnings() const;
  /// The imported graph, symbolic shapes, one line a node.
  std::string text() const;

  /// Lowers the model to the IR for concrete input types. Obstacles go to `problems`, all that can
  /// be found at once. Every tensor among the inputs of the model must be bound. Throws
  /// Error(kInput) when a binding does not fit its declaration ("input x: expected [n,4], given
  /// [5,6]"). Without `contents`, what depends on the contents of float inputs, weights or random
  /// numbers is refused as "dynamic" where a plan needs it.
  Specialized specialize(const std::map<std::string, InputBinding>& inputs,
                         const SpecializeOptions& options, const Evaluator& evaluator,
                         Diagnostics& problems, const Contents& contents = {}) const;

  /// This model with another one in the place of a module. See Module::set_submodule.
  OnnxModel with_submodule(const std::string& target, const OnnxModel& part) const;
  /// What the file says of itself.
  ModelInfo info() const;

  /// Writes the same model with new values for some weights (file names, any float dtype, converted
  /// to the stored one), BatchNormalization and Dropout in their inference form (what other
  /// consumers compute is then what eval mode computes here), all else as it was; external data is
  /// kept external or made so above 2 GB. Written to a temporary file and renamed. Throws
  /// Error(kFile).
  void save(const std::string& path, const std::map<std::string, Tensor>& values) const;

 private:
  OnnxModel();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_ONNX_MODEL_H_
