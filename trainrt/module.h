// A model read from an ONNX file, as a trainable module: forward, backward, parameters, state, and
// the tree of the modules it was exported from.
#ifndef TRAINRT_MODULE_H_
#define TRAINRT_MODULE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainrt/device.h"
#include "trainrt/dtype.h"
#include "trainrt/error.h"
#include "trainrt/hooks.h"
#include "trainrt/loss.h"
#include "trainrt/model_info.h"
#include "trainrt/options.h"
#include "trainrt/tensor.h"
#include "trainrt/values.h"

namespace trainrt {

class Session;  // the machinery behind Module and Trainer; not part of the public interface
struct ParameterState;
class Optimizer;    // trainrt/optimizer.h
struct StepResult;  // trainrt/trainer.h

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
  /// The working type, or the 16-bit type that Module::half() or bfloat16() stores values in.
  DType dtype() const;
  DType grad_dtype() const;  // the working type
  int64_t size() const;
  /// The stored value itself: writing to it changes the parameter.
  Tensor value() const;
  /// Sum of the gradients since the last zero_grad(); undefined before the first backward().
  Tensor grad() const;
  void set_grad(
      Tensor grad);  // undefined: drops it; throws Error(kInput) for another type or shape
  bool requires_grad() const;
  Parameter& requires_grad_(bool on);

  /// For trainrt's own layers.
  const std::shared_ptr<ParameterState>& state() const { return state_; }

 private:
  std::shared_ptr<ParameterState> state_;
};

struct PlanStats {
  double plan_ms = 0;
  size_t arena_bytes = 0;
  size_t arena_lower_bound_bytes = 0;
  size_t fixed_bytes = 0;  // inputs, outputs and constants of the plan
  size_t state_bytes = 0;  // parameters, buffers, moments, gradient stores
  size_t step_bytes = 0;   // what the step adds to a loaded model: arena, fixed, moments, stores
  int64_t nodes = 0;
  int64_t flops = 0;  // multiplications and additions of matmul and conv nodes
  /// What the backward section computes again instead of keeping it.
  int64_t recomputed_values = 0;
  int64_t recomputed_bytes = 0;  // no longer kept from the forward section on
  int64_t recomputed_flops = 0;  // part of `flops`
};

/// A handle: copies refer to the same module. The handle of the root stands for the model; those of
/// get_submodule(), children() and modules() for a part of it, which owns the parameters whose
/// original names lie below its path. Members that run or save the whole model throw Error(kUsage)
/// on a submodule. Starts in train mode.
///
/// Threads: modules that were loaded separately may be used at the same time. Of one module (and
/// the trainers and optimizers made from it) one thread at a time may train or change anything;
/// forward() in eval mode may be called by several threads at once, which then take turns.
class Module {
 public:
  // Loading.

  /// Reads the file and the external data below its folder; throws Error.
  explicit Module(const std::string& path, const ModuleOptions& options = {});
  /// As ORTModule(module, debug_options).
  Module(const std::string& path, const DebugOptions& debug);
  /// As above, from memory (a serialized ModelProto); external data is looked for below `folder`.
  static Module from_bytes(std::span<const char> bytes, const ModuleOptions& options = {},
                           const std::string& folder = ".");
  /// As above, from an onnx::ModelProto (anything with SerializeAsString()) of less than 2 GB.
  template <typename ModelProto>
  static Module from_proto(const ModelProto& model, const ModuleOptions& options = {},
                           const std::string& folder = ".") {
    const std::string bytes = model.SerializeAsString();
    return from_bytes(bytes, options, folder);
  }
  Module(const Module&);
  Module(Module&&) noexcept;
  Module& operator=(const Module&);
  Module& operator=(Module&&) noexcept;
  ~Module();

  const ModuleOptions& options() const;
  const std::vector<PortInfo>& inputs() const;
  const std::vector<PortInfo>& outputs() const;
  /// Remarks of the import that are no obstacles.
  const std::vector<std::string>& warnings() const;
  /// The imported model: what the file says of itself, and its graph.
  ModelInfo module() const;

  // Running.

  /// The first call of a signature (mode, shapes) checks and plans; later calls run. In train mode
  /// what backward() needs is kept until the next forward, step or evaluation of this module.
  Outputs forward(const TensorMap& inputs);
  Outputs forward(std::span<const Tensor> inputs);  // in the file's order
  Outputs forward(std::initializer_list<Tensor> inputs) {
    return forward(std::span<const Tensor>(inputs.begin(), inputs.size()));
  }
  Outputs operator()(const TensorMap& inputs) { return forward(inputs); }
  Outputs operator()(std::initializer_list<Tensor> inputs) { return forward(inputs); }

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
  void attach_loss(std::initializer_list<std::string> losses) {
    attach_loss(std::vector<std::string>(losses));
  }
  /// A loss of the program's own, in the place of what was attached.
  void attach_loss(LossFunction loss);
  /// An ONNX graph with one output, a floating number. Its inputs that are called as outputs of
  /// this model are those; the others are targets, "target/NAME" in a batch, or "target" when it is
  /// the only one. Its weights are constants.
  void attach_loss(const Module& loss);

  /// Forward, backward and update in one planned run, with the attached loss: as train_step() of
  /// trainrt/optimizer.h, which a program that calls this includes.
  StepResult train_step(const TensorMap& batch, Optimizer& optimizer);

  /// Whether backward() also computes the gradients of float inputs (off by default).
  void input_requires_grad_(bool on);
  /// Of the last backward(); throws Error(kUsage) when there is none.
  Tensor input_grad(const std::string& name) const;

  /// Plans the calls of forward() (and backward(), in train mode) with inputs of these shapes,
  /// whose other values are made up, before the first of them. Throws as forward() does.
  PlanStats compile(const std::map<std::string, Shape>& shapes = {});
  /// Everything that stands in the way of training, at the given inputs (absent: synthetic ones of
  /// the declared shapes). Empty: nothing does.
  std::vector<Problem> check(const TensorMap& inputs = {});

  // The tree of modules: TorchScript's scopes, dynamo's metadata, the slashes of Keras names, and
  // the names of weights.

  /// Dotted; empty for the root.
  const std::string& path() const { return path_; }
  /// "Linear", "Conv2d", …: the framework's class where the file tells it, else what it computes.
  std::string type_name() const;
  /// What is printed between the parentheses: "in=64, out=10".
  std::string extra_repr() const;
  /// Direct submodules in order of their first node.
  std::vector<Module> children() const;
  std::vector<std::pair<std::string, Module>> named_children() const;
  /// This module and all below it, a parent before its children. Names start with `prefix`; paths
  /// in `memo` are left out, and what is returned is added to it. No module occurs twice in the
  /// tree, so that remove_duplicate changes nothing.
  std::vector<Module> modules() const;
  std::vector<std::pair<std::string, Module>> named_modules(std::set<std::string>* memo = nullptr,
                                                            const std::string& prefix = "",
                                                            bool remove_duplicate = true) const;
  /// By dotted path from this module; "" is the module itself. Throws Error(kUsage) naming the
  /// nearest.
  Module get_submodule(const std::string& target) const;
  /// Puts another model in the place of a submodule: its inputs and outputs stand for what the
  /// submodule reads and gives, in that order, and must agree in number; types are checked when the
  /// next plan is made. Its weights appear under "TARGET.NAME". All other parameters keep their
  /// values, gradients and handles; moments of optimizers are kept by name. `strict`: throws
  /// Error(kUsage) when there is no such submodule; otherwise returns without doing anything.
  /// Throws Error(kUnsupported) when the submodule is called more than once or the opsets differ.
  void set_submodule(const std::string& target, const Module& module, bool strict = true);
  /// Calls fn on every submodule, children before their parent, this module last.
  Module& apply(const std::function<void(Module&)>& fn);
  /// Throw Error(kUnsupported): the graph is the file's. As ORTModule's.
  void add_module(const std::string& name, const Module& module);
  void register_module(const std::string& name, const Module& module);

  // Parameters and buffers. Below a submodule names are relative to its path where they begin with
  // it.

  std::vector<Parameter> parameters(bool recurse = true) const;
  /// In the file's order. With recurse false, those of the module itself. The graph has each
  /// parameter once, so that remove_duplicate changes nothing.
  std::vector<std::pair<std::string, Parameter>> named_parameters(
      const std::string& prefix = "", bool recurse = true, bool remove_duplicate = true) const;
  /// By file name or original name; throws Error(kUsage) naming the nearest.
  Parameter get_parameter(const std::string& name) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  std::vector<std::pair<std::string, Tensor>> named_buffers(const std::string& prefix = "",
                                                            bool recurse = true,
                                                            bool remove_duplicate = true) const;
  Tensor get_buffer(const std::string& name) const;
  /// Adds a tensor to the state of this module; the graph does not read it. Floating values are
  /// converted to the working type. A buffer that is not persistent stays out of state_dict() and
  /// checkpoints. A parameter is among parameters() and takes part in an optimizer's steps when it
  /// is given a gradient. Throw Error(kUsage) when the name is taken, empty or has a dot, and
  /// Error(kInput) for a tensor that is not floating.
  Tensor register_buffer(const std::string& name, const Tensor& value, bool persistent = true);
  Parameter register_parameter(const std::string& name, const Tensor& value);

  Module& train(bool mode = true);  // of this module and all below: BatchNorm, Dropout
  Module& eval() { return train(false); }
  bool is_training() const;
  /// Drops the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);
  /// Every parameter of the module and below. What is frozen costs no backward work.
  Module& requires_grad_(bool on = true);

  // State.

  /// Parameters, then buffers, then extra states. The tensors share the module's storage;
  /// keep_vars is PyTorch's, and changes nothing here. Names begin with `prefix`.
  StateDict state_dict(const std::string& prefix = "", bool keep_vars = false) const;
  /// All or nothing: when a shape or type does not fit, or (strict) a key is missing or unknown,
  /// throws Error(kInput) with every fault, and nothing has changed. Original names are accepted,
  /// with the framework's layout.
  LoadResult load_state_dict(const StateDict& values, bool strict = true);
  /// Bytes of the caller that go into state_dict() ("PATH._extra_state", uint8) and checkpoints.
  void set_extra_state(const std::string& bytes);
  std::string get_extra_state() const;  // empty when there is none

  /// The file with the present weights and running statistics, BatchNormalization and Dropout in
  /// their inference form; all else as it was. Registered parameters and buffers are not in it.
  void export_onnx(const std::string& path) const;
  /// Parameters, buffers and extra states in trainrt's checkpoint format; a killed write leaves the
  /// old file.
  void save(const std::string& path) const;
  /// Of a checkpoint, whoever wrote it (Module or Trainer).
  void load(const std::string& path);

  // Types and devices.

  /// Parameters, floating buffers and moments change their type in place; handles stay valid,
  /// tensors taken before do not follow. float64 computes on the reference kernels. With float16
  /// and bfloat16 the values are stored in that type after each update, and computed with in
  /// float32. The whole model only.
  Module& float32() { return type(DType::kFloat32); }
  Module& float64() { return type(DType::kFloat64); }
  Module& half() { return type(DType::kFloat16); }
  Module& bfloat16() { return type(DType::kBFloat16); }
  /// Throws Error(kUsage) for a type that is not floating.
  Module& type(DType dst_type);
  Module& to(DType dtype, bool non_blocking = false,
             MemoryFormat format = MemoryFormat::kPreserve);
  /// Moves parameters and buffers. This build computes on the CPU: every other device throws
  /// Error(kUnsupported), which says whether the build lacks it or the machine.
  /// Plans choose the layouts between nodes themselves: a format changes nothing.
  Module& to(Device device, bool non_blocking = false,
             MemoryFormat format = MemoryFormat::kPreserve);
  Module& cpu() { return to(Device{}); }
  Module& cuda(int device = 0) { return to(Device{DeviceType::kCuda, device}); }
  Module& ipu(int device = 0) { return to(Device{DeviceType::kIpu, device}); }
  Module& mtia(int device = 0) { return to(Device{DeviceType::kMtia, device}); }
  Module& xpu(int device = 0) { return to(Device{DeviceType::kXpu, device}); }
  /// To a device, with parameters and buffers zero instead of copied. With recurse false, those of
  /// this module only.
  Module& to_empty(Device device, bool recurse = true);
  /// To a tensor's type and device.
  Module& to(const Tensor& like, bool non_blocking = false,
             MemoryFormat format = MemoryFormat::kPreserve);
  /// Parameters and buffers move to POSIX shared memory; attach_shared() of another process sees
  /// them while training goes on (single values are whole, a set of them may be from two steps).
  /// The memory lives until the module and all attached processes let go of it. Returns its name.
  std::string share_memory();

  // Hooks. The handles remove them. A module without hooks costs nothing, and a graph without any
  // has the same plan as before.

  RemovableHandle register_forward_pre_hook(ForwardPreHook hook, HookOptions options = {});
  RemovableHandle register_forward_pre_hook(ForwardPreHookWithKwargs hook,
                                            HookOptions options = {});
  RemovableHandle register_forward_hook(ForwardHook hook, HookOptions options = {});
  RemovableHandle register_forward_hook(ForwardHookWithKwargs hook, HookOptions options = {});
  RemovableHandle register_full_backward_pre_hook(BackwardPreHook hook, HookOptions options = {});
  RemovableHandle register_full_backward_hook(BackwardHook hook, HookOptions options = {});
  /// Deprecated, as in PyTorch; as register_full_backward_hook(), with a warning at LogLevel
  /// kWarning.
  RemovableHandle register_backward_hook(BackwardHook hook);
  RemovableHandle register_state_dict_pre_hook(StateDictPreHook hook);
  RemovableHandle register_state_dict_post_hook(StateDictPostHook hook);
  RemovableHandle register_load_state_dict_pre_hook(LoadStateDictPreHook hook);
  RemovableHandle register_load_state_dict_post_hook(LoadStateDictPostHook hook);

  /// For trainrt's own layers.
  const std::shared_ptr<Session>& session() const;

 private:
  struct Impl;
  friend struct HookTable;
  Module(std::shared_ptr<Impl> impl, std::string path);
  void root_only(const char* member) const;

  std::shared_ptr<Impl> impl_;
  std::string path_;
};

/// The tree, one module a line, as PyTorch prints it.
std::ostream& operator<<(std::ostream& out, const Module& module);

/// The state that another process shares under a name that its Module::share_memory() returned:
/// keys as in state_dict(). The tensors are read-only views; writing to one crashes. Throws
/// Error(kInput) when there is no such memory.
StateDict attach_shared(const std::string& name);

/// Inputs of the declared shapes with made-up contents, for smoke tests: normal floats, integers 0
/// or 1. `shapes` replaces declared shapes by name; a free first dim becomes `batch`, other free
/// dims a small size.
TensorMap synthetic_inputs(const Module& module, int64_t batch, uint64_t seed,
                           const std::map<std::string, Shape>& shapes = {});

}  // namespace trainrt

#endif  // TRAINRT_MODULE_H_
