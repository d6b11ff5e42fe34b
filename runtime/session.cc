#include "runtime/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "frontend/registered_ops.h"
#include "graph/call.h"
#include "graph/text.h"
#include "kernels/reference/evaluate.h"
#include "runtime/debug_dump.h"
#include "runtime/glob.h"
#include "runtime/input_check.h"
#include "runtime/quantization.h"
#include "runtime/threads.h"

namespace trainrt {
namespace {

BatchNormMode batch_norm_mode(BatchNormPolicy policy) {
  switch (policy) {
    case BatchNormPolicy::kGraph:
      return BatchNormMode::kGraph;
    case BatchNormPolicy::kFrozen:
      return BatchNormMode::kFrozen;
    default:
      return BatchNormMode::kTrain;
  }
}

bool matches_any(const std::vector<std::string>& patterns, const WeightInfo& weight) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) {
    return glob_match(p, weight.name) || glob_match(p, weight.original);
  });
}

// A pattern that matches nothing is a misspelt one.
void check_patterns(const char* option, const std::vector<std::string>& patterns,
                    const std::vector<WeightInfo>& weights) {
  for (const std::string& p : patterns) {
    if (std::any_of(weights.begin(), weights.end(),
                    [&](const WeightInfo& w) { return matches_any({p}, w); })) {
      continue;
    }
    throw Error(ErrorCode::kUsage, std::string(option) + ": no parameter matches '" + p + "' (of " +
                                       std::to_string(weights.size()) + " parameters)");
  }
}

void fill(Tensor to, const Tensor& from, const std::string& name) {
  if (!to.defined()) return;  // folded away
  if (to.shape() != from.shape()) {
    throw Error(ErrorCode::kInput, name + ": expected " + to_string(to.shape()) + ", given " +
                                       to_string(from.shape()));
  }
  to.copy_from(from);
}

}  // namespace

Session::Session(OnnxModel model, const ModuleOptions& options)
    : options_(options),
      model_(std::move(model)),
      trained_version_(std::make_shared<uint64_t>(0)),
      stored_(options.dtype),
      seed_(options.seed) {
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kFloat64) {
    throw Error(ErrorCode::kUsage, "the working type is float32 or float64, not " +
                                       std::string(dtype_name(options.dtype)));
  }
  if (options.device.type != DeviceType::kCpu && options.device.type != DeviceType::kCuda) {
    throw Error(
        ErrorCode::kUnsupported,
        "no build of trainrt runs on " + to_string(options.device) + ": devices are cpu and cuda");
  }
  if (on_gpu() && options.backend == Backend::kReference) {
    throw Error(ErrorCode::kUsage, "the reference kernels run on the CPU only");
  }
  if (options.precision != Precision::kFloat32) {
    const std::string name = options.precision == Precision::kTf32 ? "tf32" : "bf16";
    if (options.dtype != DType::kFloat32 || options.backend == Backend::kReference) {
      throw Error(ErrorCode::kUsage, "precision " + name +
                                         " goes with the working type float32 and the backend "
                                         "auto only");
    }
    if (options.precision == Precision::kTf32 && !on_gpu()) {
      throw Error(ErrorCode::kUsage, "precision tf32 is for GPUs: add the device cuda");
    }
    if (options.precision == Precision::kBFloat16 && !on_gpu() && !cpu_runs_bf16()) {
      throw Error(ErrorCode::kUnsupported,
                  "precision bf16: this processor has no bfloat16 products (AVX512-BF16, AMX); "
                  "use f32");
    }
  }
  check_debug_options(options.debug);
  if (options_.plan_cache == 0) options_.plan_cache = 1;
  set_threads(options_.threads);
  check_patterns("freeze", options.freeze, model_.parameters());
  check_patterns("train_only", options.train_only, model_.parameters());

  if (!options.plan_only) open_device();
  take_weights();
  for (const auto& p : parameters_) {
    p->requires_grad = (options.train_only.empty() || matches_any(options.train_only, p->info)) &&
                       !matches_any(options.freeze, p->info);
  }
}

std::shared_ptr<ParameterState> Session::find_parameter(const std::string& name) const {
  if (const auto it = by_name_.find(name); it != by_name_.end()) return parameters_[it->second];
  if (const auto it = by_original_.find(name); it != by_original_.end()) {
    return parameters_[it->second];
  }
  return nullptr;
}

Batch Session::make_batch(const TensorMap& given, const TensorMap& fixed) const {
  Batch batch;
  auto names = [&] {
    std::string text;
    for (const Port& p : model_.inputs()) text += (text.empty() ? "" : ", ") + p.name;
    return text.empty() ? std::string("none") : text;
  };
  auto take = [&](const std::string& name, const Tensor& value) {
    const Port* port = find_port(model_.inputs(), name);
    if (port != nullptr) batch.inputs[name] = fit_input(name, *port, working(), value);
    return port != nullptr;
  };
  for (const auto& [name, value] : fixed) {
    if (!take(name, value)) {
      throw Error(ErrorCode::kInput,
                  "static input '" + name + "' is no input of the model; those are " + names());
    }
    batch.fixed.insert(name);
  }
  for (const auto& [name, value] : given) {
    if (batch.fixed.contains(name) || take(name, value)) continue;
    if (name == "target" || name.starts_with("target/")) {
      batch.targets[name] = value;
    } else if (name.starts_with("dy/")) {
      batch.grads[name.substr(3)] = value;
    } else {
      throw Error(ErrorCode::kInput, "'" + name + "' is no input of the model; those are " +
                                         names() +
                                         " (targets are called 'target' or 'target/OUTPUT')");
    }
  }
  for (const Port& port : model_.inputs()) {
    if (port.kind == PortKind::kTensor && !batch.inputs.contains(port.name)) {
      throw Error(ErrorCode::kInput,
                  "input " + port.name + " is missing: expected " + declared_type(port));
    }
  }
  return batch;
}

std::string Session::make_key(const StepSpec& spec, const Batch& batch) const {
  std::string key = spec.key() + borders_key_ + "v" + std::to_string(*trained_version_) + ";r" +
                    std::to_string(registrations()) + ";";
  for (const auto& [name, value] : batch.inputs) {
    key += name + ":" + to_string(TensorType{value.dtype(), value.shape()});
    if (value_inputs_.contains(name) || batch.fixed.contains(name)) {
      key += "=";
      key.append(static_cast<const char*>(value.raw()), value.bytes());
    }
    key += ";";
  }
  if (spec.has_loss()) {
    for (const auto& [name, value] : batch.targets) {
      key += name + to_string(value.shape()) + (is_float(value.dtype()) ? ";" : "i;");
    }
  }
  return key;
}

StepInputs Session::step_inputs(const Batch& batch) const {
  StepInputs inputs;
  for (const auto& [name, value] : batch.inputs) {
    InputBinding& binding = inputs.model[name];
    binding.type = {value.dtype(), value.shape()};
    if (value_inputs_.contains(name) || batch.fixed.contains(name)) binding.value = value.clone();
  }
  for (const auto& [name, value] : batch.targets) {
    inputs.targets[name] = {value.dtype(), value.shape()};
  }
  return inputs;
}

StepGraph Session::build_graph(const StepSpec& spec, const Batch& batch, const StageHook& on_stage,
                               Diagnostics& problems) {
  pull_stored();  // contents may decide
  ScratchSizes scratch;
  const PlanOptions planned = plan_options(spec);
  StepContext context{
      model_,
      {working(),
       spec.training,
       batch_norm_mode(options_.batch_norm),
       options_.dropout,
       options_.straight_through,
       {},
       borders_},
      {[&](const InputAttrs& attrs) { return contents_of(attrs, batch); },
       make_evaluator(host_kernels())},
      fused_kernels(),
      spec.seeds == Seeds::kNone ? 0 : options_.memory_budget,
      [&](const Graph& graph) { return planned_arena_bytes(graph, planned, scratch); },
      [this](const std::string& name) { return parameters_[by_name_.at(name)]->requires_grad; },
      on_stage};
  for (;;) {
    Diagnostics found;
    StepGraph built = build_step(context, spec, step_inputs(batch), found);
    bool again = false;
    for (const std::string& name : built.needs_value) again |= value_inputs_.insert(name).second;
    if (again) continue;
    TRAINRT_CHECK(built.needs_value.empty(), "specialization asks for values that it was given");
    for (const Problem& p : found.problems()) problems.add(p);
    if (found.empty() && spec.update && built.trainable.empty()) {
      if (parameters_.empty()) report_quantized_weights(built.graph, problems);
      problems.throw_if_any(ErrorCode::kUnsupported, "the model cannot be trained");
      throw Error(
          ErrorCode::kUnsupported,
          "nothing to train: the loss depends on none of the " +
              std::to_string(std::count_if(parameters_.begin(), parameters_.end(),
                                           [](const auto& p) { return p->requires_grad; })) +
              " parameters that are not frozen (the file has " +
              std::to_string(parameters_.size()) + ")");
    }
    return built;
  }
}

bool Session::on_reference() const {
  return options_.backend == Backend::kReference || working() == DType::kFloat64;
}

KernelLists Session::kernels() const { return on_gpu() ? gpu_kernel_lists() : host_kernels(); }

KernelLists Session::host_kernels() const { return kernel_lists(on_reference()); }

KernelLists Session::fused_kernels() const {
  if (on_gpu()) return gpu_kernel_lists();
  return on_reference() ? KernelLists() : KernelLists{cpu_kernels()};
}

Tensor Session::contents_of(const InputAttrs& attrs, const Batch& batch) const {
  switch (attrs.role) {
    case InputRole::kData:
      return batch.inputs.at(attrs.name);
    case InputRole::kRng: {
      Tensor key(DType::kInt64, {2});
      key.data<int64_t>()[0] = static_cast<int64_t>(seed_);
      key.data<int64_t>()[1] = static_cast<int64_t>(rng_step_);
      return key;
    }
    default:
      host_state();
      return state_tensor(attrs);
  }
}

bool Session::holds_for(CompiledStep& step, const Batch& batch) {
  if (!step.guard) return true;
  pull_stored();
  host_state();
  guard_arena_.reserve(step.guard->arena_bytes());
  load_inputs(*step.guard, batch);
  try {
    step.guard_executor->run();
  } catch (const Error&) {
    return false;  // built for other branches, it may not fit these contents at all
  }
  for (size_t i = 0; i < step.decided.size(); ++i) {
    const Tensor now = step.guard->output("decision" + std::to_string(i), OutputRole::kOutput);
    if (std::memcmp(now.raw(), step.decided[i].raw(), now.bytes()) != 0) return false;
  }
  return true;
}

void Session::add_state(const Graph& graph) {
  std::vector<StoreEntry> moments, stores, given;
  std::vector<std::string> averages;
  for (NodeId id : graph.inputs()) {
    const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
    if (attrs.role == InputRole::kOptimizerState) {
      if (attrs.name.starts_with("ema/") && !optimizer_state_.contains(attrs.name)) {
        averages.push_back(attrs.name);
      }
      moments.push_back({attrs.name, {attrs.dtype, attrs.shape}});
    } else if (attrs.role == InputRole::kGradient && attrs.name.starts_with("acc/")) {
      stores.push_back({attrs.name, {attrs.dtype, attrs.shape}});
    } else if (attrs.role == InputRole::kGradient && attrs.name.starts_with("grad/")) {
      given.push_back({attrs.name, {attrs.dtype, attrs.shape}});
    }
  }
  optimizer_state_.add(moments);
  gradient_stores_.add(stores);
  given_gradients_.add(given);
  for (const std::string& name : averages) {
    Tensor average = optimizer_state_.find(name);
    average.copy_from(parameter_values().find(name.substr(4)).to(average.dtype()));
  }
}

Tensor Session::state_tensor(const InputAttrs& attrs) const {
  switch (attrs.role) {
    case InputRole::kParameter:
      return parameter_store_.find(attrs.name);
    case InputRole::kBuffer:
      return buffers_.find(attrs.name);
    case InputRole::kOptimizerState:
      return optimizer_state_.find(attrs.name);
    default:
      return (attrs.name.starts_with("grad/") ? given_gradients_ : gradient_stores_)
          .find(attrs.name);
  }
}

PlanOptions Session::plan_options(const StepSpec& spec) const {
  PlanOptions options = host_plan_options(spec);
  if (!on_gpu()) return options;
  options.kernels = kernels();
  options.gpu = GpuTarget{
      gpu_, options_.allow_cpu_fallback ? host_kernels() : KernelLists(),
      options_.precision == Precision::kTf32 ? gpu::Products::kTf32 : gpu::Products::kFloat32};
  if (gpu_ != nullptr) {
    options.bytes_in_use = 0;
    options.memory_limit =
        gpu_->device().free_memory() + gpu_->arena_bytes() + gpu_->state().bytes();
  }
  return options;
}

PlanOptions Session::host_plan_options(const StepSpec& spec) const {
  PlanOptions options;
  options.kernels = host_kernels();
  options.bf16 = options_.precision == Precision::kBFloat16;
  options.schedule.interleave_updates = !spec.sections;
  // The file's own copy of the weights; the stores are counted as state of the plan.
  options.bytes_in_use = parameter_store_.bytes() + buffers_.bytes();
  return options;
}

std::unique_ptr<Plan> Session::make_plan(const PlanOptions& options, Graph graph) {
  // States are made on the first look-up, which comes after the plan is known to fit.
  bool added = false;
  const Graph states_of = [&] {
    Graph inputs;
    for (NodeId id : graph.inputs()) {
      const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
      inputs.add_node(Op::kInput, {}, attrs, {{attrs.dtype, attrs.shape}});
    }
    return inputs;
  }();
  return std::make_unique<Plan>(
      std::move(graph),
      [&](const InputAttrs& attrs) {
        if (!added) add_state(states_of);
        added = true;
        return state_tensor(attrs);
      },
      options);
}

std::shared_ptr<CompiledStep> Session::prepare(const StepSpec& spec, Batch& batch) {
  set_threads(options_.threads);
  const std::string key = make_key(spec, batch);
  auto found = std::find_if(plans_.begin(), plans_.end(), [&](const auto& step) {
    return step->key == key && holds_for(*step, batch);
  });
  const CallScope calls;
  std::shared_ptr<CompiledStep> step;
  if (found != plans_.end()) {
    step = *found;
    plans_.splice(plans_.begin(), plans_, found);
  } else {
    const auto start = std::chrono::steady_clock::now();
    Diagnostics problems;
    const DebugOptions& debug = options_.debug;
    StageHook dump;
    if (debug.save_onnx) {
      dump = [&](std::string_view stage, const Graph& graph) {
        dump_stage(debug, dumped_, stage, print(graph));
      };
    }
    StepGraph built = build_graph(spec, batch, dump, problems);
    const char* what =
        spec.seeds == Seeds::kNone ? "the model cannot be run" : "the model cannot be trained";
    problems.throw_if_any(ErrorCode::kUnsupported, what);
    // A target that does not fit must not leave a plan behind, nor touch any state.
    step = std::make_shared<CompiledStep>();
    step->spec = spec;
    step->trainable = std::move(built.trainable);
    for (const auto& names : built.updated) step->updated.push_back(states_of(names));
    step->terms = std::move(built.terms);
    step->recomputed = built.recomputed;
    step->recomputed_flops = built.recomputed_flops;
    step->plan = make_plan(plan_options(spec), std::move(built.graph));
    if (debug.save_onnx) dump_stage(debug, dumped_++, "planned", step->plan->text());
    if (debug.log_level == LogLevel::kInfo) {
      std::fprintf(stderr, "trainrt: a plan of %zu nodes, %zu bytes of arena\n",
                   step->plan->steps().size(), step->plan->arena_bytes());
    }
    step->executor = std::make_unique<Executor>(*step->plan, arena_);
    if (!built.decided.empty()) {
      step->decided = std::move(built.decided);
      step->guard = make_plan(host_plan_options(spec), std::move(built.guard));
      step->guard_executor = std::make_unique<Executor>(*step->guard, guard_arena_);
    }
    step->plan_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    step->key = make_key(spec, batch);  // more inputs may have become part of it
    plans_.push_front(step);
    while (plans_.size() > options_.plan_cache) plans_.pop_back();
  }
  std::set<std::string> done;
  for (const LossTerm& term : step->terms) {
    if (term.target.empty()) continue;
    Tensor& target = batch.targets.at(term.target);
    if (done.insert(term.target).second) {
      target = fit_target(term, working(), target);
    }
    if (target_is_class_ids(term.spec.kind)) check_class_ids(term, target);
  }
  return step;
}

std::vector<std::string> Session::check(const StepSpec& spec, Batch& batch, Diagnostics& problems) {
  const CallScope calls;
  StepGraph built = build_graph(spec, batch, {}, problems);
  if (problems.empty()) {
    if (on_gpu()) {
      const RowTable host(host_kernels());
      assign_sides(built.graph, RowTable(kernels()), options_.allow_cpu_fallback ? &host : nullptr,
                   problems);
    } else {
      partition(built.graph, kernels(), problems);
    }
    if (parameters_.empty()) report_quantized_weights(built.graph, problems);
  }
  return built.trainable;
}

void Session::load_inputs(const Plan& plan, const Batch& batch) const {
  for (const auto& [name, value] : batch.inputs) {
    fill(plan.input(name, InputRole::kData), value, "input " + name);
  }
  Tensor rng = plan.input("rng", InputRole::kRng);
  if (!rng.defined()) return;
  rng.copy_from(contents_of({"rng", InputRole::kRng, DType::kInt64, {2}}, batch));
}

void Session::load(CompiledStep& step, const Batch& batch, std::span<const double> rates) {
  Plan& plan = *step.plan;
  pull_stored();
  reserve(plan);
  step.run = arena_.take();
  load_inputs(plan, batch);
  for (const auto& [name, value] : batch.targets) {
    const Tensor to = plan.input(name, InputRole::kTarget);
    if (!to.defined()) continue;
    const Tensor fitted = value.dtype() == to.dtype() ? value : value.to(to.dtype());
    fill(to, fitted.shape() == to.shape() ? fitted : fitted.reshape(to.shape()), name);
  }
  load_rates(step, rates);
}

void Session::load_grads(CompiledStep& step, const TensorMap& grads) {
  for (const auto& [name, value] : grads) {
    if (!step.plan->graph().find_output(name, OutputRole::kOutput)) {
      throw Error(ErrorCode::kInput, "gradient of '" + name + "': the model has no such output");
    }
  }
  for (const Output& o : step.plan->graph().outputs()) {
    if (o.role != OutputRole::kOutput) continue;
    Tensor to = step.plan->input("dy/" + o.name, InputRole::kGradient);
    const auto it = grads.find(o.name);
    const bool given = it != grads.end() && it->second.defined();
    if (!is_float(step.plan->graph().type(o.value).dtype)) {
      if (!given) continue;
      throw Error(ErrorCode::kInput, "output " + o.name + " is " +
                                         to_string(step.plan->graph().type(o.value)) +
                                         ": it has no gradient");
    }
    if (!to.defined()) continue;
    if (!given) {
      to.fill(0);
      continue;
    }
    to.copy_from(fit_gradient(o.name, {to.dtype(), to.shape()}, it->second));
  }
}

void Session::run(CompiledStep& step) {
  TRAINRT_CHECK(holds(step), "the arena belongs to another run");
  step.executor->run();
  push_stored(step, true);
}

void Session::run(CompiledStep& step, Section section) {
  TRAINRT_CHECK(holds(step) && step.spec.sections, "this step cannot run section by section");
  const Plan& plan = *step.plan;
  const size_t first = plan.section_begin(section);
  const size_t last = section == Section::kUpdate
                          ? plan.steps().size()
                          : plan.section_begin(static_cast<Section>(static_cast<int>(section) + 1));
  step.executor->run(first, last);
  push_stored(step, section == Section::kUpdate);
}

std::vector<std::pair<std::string, Tensor>> Session::outputs(const CompiledStep& step) const {
  std::vector<std::pair<std::string, Tensor>> result;
  for (const Output& o : step.plan->graph().outputs()) {
    if (o.role != OutputRole::kOutput) continue;
    result.emplace_back(o.name, step.plan->output(o.name, OutputRole::kOutput).clone());
  }
  return result;
}

std::vector<std::pair<std::string, TensorType>> Session::output_types(bool training,
                                                                      const Batch& batch) {
  const CallScope calls;
  StepSpec spec;
  spec.training = training;
  Diagnostics problems;
  const StepGraph built = build_graph(spec, batch, {}, problems);
  problems.throw_if_any(ErrorCode::kUnsupported, "the model cannot be run");
  std::vector<std::pair<std::string, TensorType>> types;
  for (const Output& o : built.graph.outputs()) {
    if (o.role == OutputRole::kOutput) types.emplace_back(o.name, built.graph.type(o.value));
  }
  return types;
}

std::string Session::dump(const StepSpec& spec, Batch& batch, std::string_view stage, bool dot) {
  const CallScope calls;
  std::string text;
  const bool planned = stage == "planned";
  Diagnostics problems;
  StepGraph built = build_graph(
      spec, batch,
      [&](std::string_view name, const Graph& graph) {
        if (name == stage) text = dot ? print_dot(graph) : print(graph);
      },
      problems);
  if (!text.empty()) return text;
  problems.throw_if_any(ErrorCode::kUnsupported, "the graph cannot be built up to this stage");
  TRAINRT_CHECK(planned, "no such stage");
  if (dot) throw Error(ErrorCode::kUsage, "stage planned has a text form only");
  const RecomputeReport recomputed = built.recomputed;
  return make_plan(plan_options(spec), std::move(built.graph))->text() + "recomputed " +
         std::to_string(recomputed.values) + " values: " + std::to_string(recomputed.bytes) +
         " bytes less kept for the backward section, " + std::to_string(built.recomputed_flops) +
         " flops\n";
}

}  // namespace trainrt
