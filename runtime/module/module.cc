#include "trainrt/module.h"

#include <algorithm>
#include <set>

#include "runtime/module/names.h"
#include "runtime/module/state.h"
#include "runtime/session.h"
#include "runtime/train/checkpoint.h"

namespace trainrt {
namespace {

std::vector<PortInfo> port_infos(const std::vector<Port>& ports) {
  std::vector<PortInfo> infos;
  for (const Port& port : ports) {
    PortInfo info{port.name, port.dtype, port.has_shape, {}, {}, to_string(port), false, false};
    info.sequence = port.kind == PortKind::kSequence || port.kind == PortKind::kOptionalSequence;
    info.optional = port.kind == PortKind::kOptional || port.kind == PortKind::kOptionalSequence;
    for (const Dim& dim : port.dims) {
      info.dims.push_back(dim.size);
      info.symbols.push_back(dim.symbol);
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

void add_to(Tensor& sum, const Tensor& more) {
  if (!sum.defined()) {
    sum = more.clone();
    return;
  }
  with_float_type(sum.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* s = static_cast<T*>(sum.raw());
    const T* m = static_cast<const T*>(more.raw());
    const int64_t n = sum.size();
#pragma omp parallel for if (n > 65536)
    for (int64_t i = 0; i < n; ++i) s[i] += m[i];
  });
}

TensorMap by_position(const std::vector<PortInfo>& ports, std::span<const Tensor> values,
                      const char* what) {
  if (values.size() != ports.size()) {
    throw Error(ErrorCode::kInput, "the model has " + std::to_string(ports.size()) + " " + what +
                                       ", given " + std::to_string(values.size()));
  }
  TensorMap map;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (values[i].defined()) map[ports[i].name] = values[i];
  }
  return map;
}

}  // namespace

struct Module::Impl {
  std::shared_ptr<Session> session;
  std::vector<PortInfo> inputs, outputs;
  bool training = true;
  bool input_grads = false;
  std::vector<LossSpec> losses;
  // The last forward in train mode.
  std::shared_ptr<CompiledStep> step;
  uint64_t run = 0;
  bool went_back = false;
  uint64_t calls = 0, call_of_step = 0;
  TensorMap input_gradients;

  Impl(OnnxModel model, const ModuleOptions& options)
      : session(std::make_shared<Session>(std::move(model), options)),
        inputs(port_infos(session->model().inputs())),
        outputs(port_infos(session->model().outputs())) {}

  void check_backward() const {
    if (step == nullptr) {
      throw Error(ErrorCode::kUsage, training ? "backward() needs a forward() first"
                                              : "backward() needs a forward() in train mode first");
    }
    if (went_back) {
      throw Error(ErrorCode::kUsage,
                  "backward() has run already for the last forward(): run forward() again");
    }
    if (!session->holds(*step) || step->run != run) {
      throw Error(ErrorCode::kUsage,
                  "what backward() needs was overwritten by a later forward, step or evaluation of "
                  "this module: run backward() right after its forward()");
    }
  }

  void go_back() {
    session->run(*step, Section::kBackward);
    went_back = true;
    input_gradients.clear();
    for (const Output& o : step->plan->graph().outputs()) {
      if (o.role != OutputRole::kGradient) continue;
      const Tensor gradient = step->plan->output(o.name, OutputRole::kGradient);
      if (const auto parameter = session->find_parameter(o.name)) {
        add_to(parameter->grad, gradient);
      } else {
        input_gradients[o.name] = gradient.clone();
      }
    }
  }
};

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::Module(const std::string& path, const ModuleOptions& options)
    : impl_(std::make_unique<Impl>(OnnxModel::load(path, {options.tie_weights}), options)) {}
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;
Module::~Module() = default;

Module Module::from_bytes(std::span<const char> bytes, const ModuleOptions& options,
                          const std::string& folder) {
  return Module(
      std::make_unique<Impl>(OnnxModel::from_bytes(bytes, folder, {options.tie_weights}), options));
}

const ModuleOptions& Module::options() const { return impl_->session->options(); }
const std::vector<PortInfo>& Module::inputs() const { return impl_->inputs; }
const std::vector<PortInfo>& Module::outputs() const { return impl_->outputs; }
const std::vector<std::string>& Module::warnings() const {
  return impl_->session->model().warnings();
}
const std::shared_ptr<Session>& Module::session() const { return impl_->session; }

Outputs Module::forward(const TensorMap& inputs) {
  Session& session = *impl_->session;
  Batch batch = session.make_batch(inputs);
  StepSpec spec;
  spec.training = impl_->training;
  if (impl_->training || !batch.targets.empty()) spec.losses = impl_->losses;
  if (impl_->training) {
    spec.seeds = spec.losses.empty() ? Seeds::kOutputs : Seeds::kLoss;
    spec.input_grads = impl_->input_grads;
    spec.sections = true;
  }
  const std::shared_ptr<CompiledStep> step = session.prepare(spec, batch);
  impl_->step = nullptr;
  session.load(*step, batch, 0, 0);
  const uint64_t call = ++impl_->calls;
  if (impl_->training) {
    session.run(*step, Section::kForward);
    session.set_rng_step(session.rng_step() + 1);
    impl_->step = step;
    impl_->run = step->run;
    impl_->went_back = false;
    impl_->call_of_step = call;
  } else {
    session.run(*step);
  }
  auto values = session.outputs(*step);
  const Tensor loss = step->plan->output("loss", OutputRole::kLoss);
  if (loss.defined()) values.emplace_back("loss", loss.clone());
  return Outputs(std::move(values), call);
}

Outputs Module::forward(std::span<const Tensor> inputs) {
  return forward(by_position(impl_->inputs, inputs, "inputs"));
}

void Module::backward(const TensorMap& output_grads) {
  impl_->check_backward();
  if (impl_->step->spec.seeds == Seeds::kLoss) {
    throw Error(ErrorCode::kUsage, "a loss is attached: call backward() without gradients");
  }
  impl_->session->load_grads(*impl_->step, output_grads);
  impl_->go_back();
}

void Module::backward(std::span<const Tensor> output_grads) {
  backward(by_position(impl_->outputs, output_grads, "outputs"));
}

void Module::backward(const Outputs& outputs, const TensorMap& output_grads) {
  impl_->check_backward();
  if (outputs.call() != impl_->call_of_step) {
    throw Error(ErrorCode::kUsage,
                "these outputs are of an earlier forward(): another has run since, and only the "
                "last can be gone back through");
  }
  backward(output_grads);
}

void Module::backward() {
  impl_->check_backward();
  if (impl_->step->spec.seeds != Seeds::kLoss) {
    throw Error(
        ErrorCode::kUsage,
        "backward() without gradients needs a loss: call attach_loss() before forward(), or "
        "give the gradients of the outputs");
  }
  impl_->go_back();
}

void Module::attach_loss(const std::vector<std::string>& losses) {
  std::vector<LossSpec> specs;
  for (const std::string& text : losses) specs.push_back(parse_loss(text));
  impl_->losses = std::move(specs);
}

void Module::input_requires_grad_(bool on) { impl_->input_grads = on; }

Tensor Module::input_grad(const std::string& name) const {
  const auto it = impl_->input_gradients.find(name);
  if (it != impl_->input_gradients.end()) return it->second;
  throw Error(ErrorCode::kUsage,
              "there is no gradient of input '" + name +
                  "': it needs input_requires_grad_(true), a forward() and a backward(), and a "
                  "differentiable path");
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> list;
  for (const auto& state : impl_->session->parameters()) list.emplace_back(state);
  return list;
}

std::vector<std::pair<std::string, Parameter>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Parameter>> list;
  for (const auto& state : impl_->session->parameters()) {
    list.emplace_back(state->info.name, Parameter(state));
  }
  return list;
}

Parameter Module::get_parameter(const std::string& name) const {
  if (auto state = impl_->session->find_parameter(name)) return Parameter(std::move(state));
  const std::string nearest = nearest_name(name, impl_->session->parameter_values().names());
  throw Error(ErrorCode::kUsage, "there is no parameter '" + name + "'" +
                                     (nearest.empty() ? "" : "; the nearest is '" + nearest + "'"));
}

std::vector<Tensor> Module::buffers() const {
  std::vector<Tensor> list;
  for (size_t i = 0; i < impl_->session->buffers().size(); ++i) {
    list.push_back(impl_->session->buffers().at(i));
  }
  return list;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> list;
  const Store& store = impl_->session->buffers();
  for (size_t i = 0; i < store.size(); ++i) list.emplace_back(store.names()[i], store.at(i));
  return list;
}

Tensor Module::get_buffer(const std::string& name) const {
  const Tensor buffer = impl_->session->buffers().find(name);
  if (buffer.defined()) return buffer;
  const std::string nearest = nearest_name(name, impl_->session->buffers().names());
  throw Error(ErrorCode::kUsage, "there is no buffer '" + name + "'" +
                                     (nearest.empty() ? "" : "; the nearest is '" + nearest + "'"));
}

StateDict Module::state_dict() const { return trainrt::state_dict(*impl_->session); }

LoadResult Module::load_state_dict(const StateDict& values, bool strict) {
  return trainrt::load_state_dict(*impl_->session, values, strict);
}

Module& Module::train(bool mode) {
  impl_->training = mode;
  return *this;
}

bool Module::is_training() const { return impl_->training; }

void Module::zero_grad(bool set_to_none) {
  for (const auto& state : impl_->session->parameters()) {
    if (set_to_none) {
      state->grad = Tensor();
    } else if (state->grad.defined()) {
      state->grad.fill(0);
    }
  }
}

Module& Module::requires_grad_(bool on) {
  for (Parameter& p : parameters()) p.requires_grad_(on);
  return *this;
}

void Module::export_onnx(const std::string& path) const {
  std::map<std::string, Tensor> values;
  for (const auto& [name, value] : state_dict()) values[name] = value;
  impl_->session->model().save(path, values);
}

void Module::save(const std::string& path) const {
  Checkpoint checkpoint;
  checkpoint.text["kind"] = "module";
  checkpoint.text["working"] = std::string(dtype_name(impl_->session->working()));
  add_weights(*impl_->session, checkpoint);
  write_checkpoint(path, checkpoint);
}

void Module::load(const std::string& path) {
  const Checkpoint checkpoint = read_checkpoint(path);
  try {
    trainrt::load_state_dict(*impl_->session, weights_of(checkpoint), true);
  } catch (const Error& e) {
    throw Error(e.code(), "checkpoint " + path + " does not fit the model: " + e.what());
  }
}

std::vector<Problem> Module::check(const TensorMap& inputs) {
  Session& session = *impl_->session;
  Diagnostics problems;
  try {
    Batch batch = session.make_batch(
        inputs.empty() ? synthetic_inputs(*this, 2, session.options().seed) : inputs);
    batch.targets.clear();
    StepSpec spec;
    LossSpec mean;
    mean.kind = LossKind::kMean;
    spec.losses = {mean};
    spec.seeds = Seeds::kLoss;
    const std::vector<std::string> trainable = session.check(spec, batch, problems);
    if (problems.empty() && trainable.empty()) {
      problems.add({"", "", "", 0, "nothing_to_train",
                    "nothing to train: no float output depends on a parameter that is not frozen"});
    }
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    if (!e.problems().empty()) {
      for (const Problem& p : e.problems()) problems.add(p);
    } else {
      const bool memory = e.code() == ErrorCode::kMemory;
      problems.add({"", "", "", 0, memory ? "memory" : "invalid", e.what()});
    }
  }
  return problems.problems();
}

}  // namespace trainrt
