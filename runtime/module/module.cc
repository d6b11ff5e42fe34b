#include "trainrt/module.h"

#include <cstdio>
#include <utility>

#include "runtime/debug_dump.h"
#include "runtime/module/impl.h"

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

Module::Impl::Impl(std::shared_ptr<Session> shared) : session(std::move(shared)) {
  look_at_model();
}

std::shared_ptr<Module::Impl> Module::Impl::make(OnnxModel model, const ModuleOptions& options) {
  auto impl = std::make_shared<Impl>(std::make_shared<Session>(std::move(model), options));
  impl->hooks->module_at = [weak = std::weak_ptr<Impl>(impl)](const std::string& path) {
    const std::shared_ptr<Impl> self = weak.lock();
    return self == nullptr ? std::nullopt : std::optional<Module>(self->handle(path));
  };
  for (const std::string& text : impl->session->model().warnings()) impl->warn(text);
  if (options.debug.save_onnx) impl->session->model().save(debug_model_path(options.debug), {});
  return impl;
}

void Module::Impl::look_at_model() {
  inputs = port_infos(session->model().inputs());
  outputs = port_infos(session->model().outputs());
  places.clear();
  children.clear();
  for (const ModuleInfo& info : tree()) {
    places[info.path] = places.size();
    if (info.path.empty()) continue;
    const size_t dot = info.path.rfind('.');
    children[dot == std::string::npos ? "" : info.path.substr(0, dot)].push_back(info.path);
  }
}

void Module::Impl::hooks_changed() {
  if (borders == nullptr) borders = std::make_unique<HookBorders>(hooks);
  const std::string key = borders->key();
  session->set_borders(key.empty() ? nullptr : borders.get(), key);
}

void Module::Impl::warn(const std::string& text) const {
  if (session->options().debug.log_level == LogLevel::kError) return;
  std::fprintf(stderr, "trainrt: %s\n", text.c_str());
}

bool Module::Impl::mode_of(const std::string& path) const {
  bool mode = training;
  size_t nearest = 0;
  for (const auto& [module, own] : session->modes()) {
    if (module.size() < nearest || !lies_in(path, module)) continue;
    nearest = module.size();
    mode = own;
  }
  return mode;
}

void Module::Impl::set_mode(const std::string& path, bool mode) {
  std::map<std::string, bool> modes = session->modes();
  std::erase_if(modes, [&](const auto& entry) { return lies_in(entry.first, path); });
  session->set_modes(modes);
  if (path.empty()) {
    training = mode;
  } else if (mode_of(path) != mode) {
    modes[path] = mode;
    session->set_modes(std::move(modes));
  }
}

StepSpec Module::Impl::forward_spec(const Batch& batch) const {
  StepSpec spec;
  spec.training = training;
  spec.modes = session->modes();
  if (training || !batch.targets.empty()) {
    spec.losses = session->attached_losses();
    spec.custom_loss = session->custom_loss();
  }
  if (training) {
    spec.seeds = spec.has_loss() ? Seeds::kLoss : Seeds::kOutputs;
    spec.input_grads = input_grads;
    spec.sections = true;
  }
  return spec;
}

void Module::Impl::check_backward() const {
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

void Module::Impl::go_back() {
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
Module::Module(std::shared_ptr<Impl> impl, std::string path)
    : impl_(std::move(impl)), path_(std::move(path)) {}
Module::Module(const std::string& path, const ModuleOptions& options)
    : impl_(Impl::make(OnnxModel::load(path, {options.tie_weights}), options)) {}
Module::Module(const std::string& path, const DebugOptions& debug)
    : Module(path, [&] {
        ModuleOptions options;
        options.debug = debug;
        return options;
      }()) {}
Module::Module(const Module&) = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(const Module&) = default;
Module& Module::operator=(Module&&) noexcept = default;
Module::~Module() = default;

Module Module::from_bytes(std::span<const char> bytes, const ModuleOptions& options,
                          const std::string& folder) {
  return Module(Impl::make(OnnxModel::from_bytes(bytes, folder, {options.tie_weights}), options),
                "");
}

void Module::root_only(const char* member) const {
  if (path_.empty()) return;
  throw Error(ErrorCode::kUsage, std::string(member) + " is for the whole model, not for '" +
                                     path_ + "'; hooks see what goes through a submodule");
}

const ModuleOptions& Module::options() const { return impl_->session->options(); }
ModelInfo Module::module() const { return impl_->session->model().info(); }
const std::vector<PortInfo>& Module::inputs() const { return impl_->inputs; }
const std::vector<PortInfo>& Module::outputs() const { return impl_->outputs; }
const std::vector<std::string>& Module::warnings() const {
  return impl_->session->model().warnings();
}
const std::shared_ptr<Session>& Module::session() const { return impl_->session; }

Outputs Module::forward(const TensorMap& inputs) {
  root_only("forward()");
  Session& session = *impl_->session;
  const std::lock_guard lock(session.mutex());
  if (impl_->hooks->running) {
    throw Error(ErrorCode::kUsage, "forward() inside of a hook of the same model");
  }
  Batch batch = session.make_batch(inputs);
  const StepSpec spec = impl_->forward_spec(batch);
  const std::shared_ptr<CompiledStep> step = session.prepare(spec, batch);
  impl_->step = nullptr;
  session.load(*step, batch);
  const uint64_t call = ++impl_->calls;
  impl_->hooks->calls.clear();
  try {
    if (spec.training) {
      session.run(*step, Section::kForward);
    } else {
      session.run(*step);
    }
  } catch (const Error&) {
    impl_->hooks->unwind();
    throw;
  }
  if (spec.training) {
    session.set_rng_step(session.rng_step() + 1);
    impl_->step = step;
    impl_->run = step->run;
    impl_->went_back = false;
    impl_->call_of_step = call;
  }
  auto values = session.outputs(*step);
  const Tensor loss = step->plan->output("loss", OutputRole::kLoss);
  if (loss.defined()) values.emplace_back("loss", loss.clone());
  return Outputs(std::move(values), call);
}

Outputs Module::forward(std::span<const Tensor> inputs) {
  root_only("forward()");
  return forward(by_position(impl_->inputs, inputs, "inputs"));
}

void Module::backward(const TensorMap& output_grads) {
  root_only("backward()");
  impl_->check_backward();
  if (impl_->step->spec.seeds == Seeds::kLoss) {
    throw Error(ErrorCode::kUsage, "a loss is attached: call backward() without gradients");
  }
  impl_->session->load_grads(*impl_->step, output_grads);
  impl_->go_back();
}

void Module::backward(std::span<const Tensor> output_grads) {
  root_only("backward()");
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
  root_only("backward()");
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
  root_only("attach_loss()");
  std::vector<LossSpec> specs;
  for (const std::string& text : losses) specs.push_back(parse_loss(text));
  impl_->session->attach(std::move(specs), nullptr);
  impl_->loss_texts = losses;
}

void Module::attach_loss(LossFunction loss) {
  root_only("attach_loss()");
  impl_->session->attach({}, make_custom_loss(std::move(loss)));
  impl_->loss_texts.clear();
}

void Module::attach_loss(const Module& loss) {
  root_only("attach_loss()");
  loss.root_only("attach_loss()'s graph");
  // Shares the other module's session, which owns its model.
  const std::shared_ptr<const OnnxModel> graph(loss.session(), &loss.session()->model());
  impl_->session->attach({}, make_graph_loss(graph, impl_->session->model()));
  impl_->loss_texts.clear();
}

void Module::input_requires_grad_(bool on) {
  root_only("input_requires_grad_()");
  impl_->input_grads = on;
}

Tensor Module::input_grad(const std::string& name) const {
  const auto it = impl_->input_gradients.find(name);
  if (it != impl_->input_gradients.end()) return it->second;
  throw Error(ErrorCode::kUsage,
              "there is no gradient of input '" + name +
                  "': it needs input_requires_grad_(true), a forward() and a backward(), and a "
                  "differentiable path");
}

std::vector<Problem> Module::check(const TensorMap& inputs) {
  root_only("check()");
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
