// The state of a session: parameters, buffers, their types and where they lie.
#include <algorithm>

#include "runtime/session.h"

namespace trainrt {
namespace {

size_t bytes_of(std::initializer_list<const Store*> stores) {
  size_t bytes = 0;
  for (const Store* store : stores) bytes += store->bytes();
  return bytes;
}

/// The same entries with their values, floating ones in another type.
Store converted(const Store& old, DType dtype) {
  std::vector<StoreEntry> entries;
  for (size_t i = 0; i < old.size(); ++i) {
    const Tensor value = old.at(i);
    entries.push_back(
        {old.names()[i], {is_float(value.dtype()) ? dtype : value.dtype(), value.shape()}});
  }
  Store fresh;
  fresh.add(entries);
  for (size_t i = 0; i < old.size(); ++i) {
    fresh.at(i).copy_from(old.at(i).dtype() == fresh.at(i).dtype() ? old.at(i)
                                                                   : old.at(i).to(dtype));
  }
  return fresh;
}

void copy_converted(const Store& from, const Store& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    Tensor target = to.find(from.names()[i]);
    target.copy_from(from.at(i).to(target.dtype()));
  }
}

}  // namespace

void Session::take_weights() {
  const auto add = [&](Store& store, const std::vector<WeightInfo>& weights) {
    std::vector<StoreEntry> entries;
    for (const WeightInfo& w : weights) entries.push_back({w.name, {working(), w.shape}});
    store.add(entries);
    for (const WeightInfo& w : weights) {
      Tensor stored = model_.weight(w.name);
      if (stored.dtype() != working()) stored = stored.to(working());
      store.find(w.name).copy_from(stored);
    }
  };
  add(parameter_store_, model_.parameters());
  add(buffers_, model_.buffers());
  std::map<std::string, int> originals;
  for (const WeightInfo& w : model_.parameters()) ++originals[w.original];
  for (const WeightInfo& w : model_.parameters()) {
    keep_parameter(w);
    if (originals[w.original] == 1) by_original_.emplace(w.original, parameters_.size() - 1);
  }
}

std::shared_ptr<ParameterState> Session::keep_parameter(const WeightInfo& info) {
  auto state = std::make_shared<ParameterState>();
  state->owner = self_;
  state->info = info;
  state->stored = parameter_store_.find(info.name);
  state->version = trained_version_;
  by_name_.emplace(info.name, parameters_.size());
  parameters_.push_back(state);
  return state;
}

std::shared_ptr<ParameterState> Session::add_parameter(const WeightInfo& info,
                                                       const Tensor& value) {
  host_state();
  const StoreEntry entry{info.name, {working(), info.shape}};
  parameter_store_.add({&entry, 1});
  parameter_store_.find(info.name).copy_from(value.to(working()));
  if (stored_ != working()) {
    const StoreEntry stored{info.name, {stored_, info.shape}};
    stored_parameters_.add({&stored, 1});
    stored_parameters_.find(info.name).copy_from(value.to(stored_));
  }
  auto state = keep_parameter(info);
  state->registered = true;
  point_parameters();
  return state;
}

std::string Session::owner_of(const std::string& name) const {
  if (const auto parameter = find_parameter(name)) return parameter->info.module;
  for (const WeightInfo& info : model_.buffers()) {
    if (info.name == name) return info.module;
  }
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

bool Session::owned_by(const std::string& name, const std::string& module) const {
  const std::string owner = owner_of(name);
  return module.empty() || owner == module || owner.starts_with(module + ".");
}

Tensor Session::add_buffer(const std::string& name, const Tensor& value) {
  host_state();
  const StoreEntry entry{name, {working(), value.shape()}};
  buffers_.add({&entry, 1});
  buffers_.find(name).copy_from(value.to(working()));
  if (stored_ != working()) {
    const StoreEntry stored{name, {stored_, value.shape()}};
    stored_buffers_.add({&stored, 1});
    stored_buffers_.find(name).copy_from(value.to(stored_));
  }
  registered_buffers_.insert(name);
  return buffers().find(name);
}

size_t Session::state_bytes() const {
  return bytes_of({&parameter_store_, &buffers_, &optimizer_state_, &gradient_stores_,
                   &given_gradients_, &stored_parameters_, &stored_buffers_});
}

void Session::point_parameters() {
  for (const auto& p : parameters_) p->stored = parameter_values().find(p->info.name);
}

void Session::set_types(DType working_type, DType stored) {
  host_state();
  if (stored_ != working()) {
    copy_converted(stored_parameters_, parameter_store_);
    copy_converted(stored_buffers_, buffers_);
  }
  // Everything is made before anything is given up: memory may run out.
  Store parameters = converted(parameter_store_, working_type);
  Store buffers = converted(buffers_, working_type);
  Store moments = converted(optimizer_state_, working_type);
  Store gradients = converted(gradient_stores_, working_type);
  Store stored_parameters, stored_buffers;
  if (stored != working_type) {
    stored_parameters = converted(parameters, stored);
    stored_buffers = converted(buffers, stored);
  }
  std::vector<Tensor> grads;
  for (const auto& p : parameters_) {
    grads.push_back(p->grad.defined() ? p->grad.to(working_type) : Tensor());
  }
  parameter_store_ = std::move(parameters);
  buffers_ = std::move(buffers);
  optimizer_state_ = std::move(moments);
  gradient_stores_ = std::move(gradients);
  given_gradients_ = Store();
  stored_parameters_ = std::move(stored_parameters);
  stored_buffers_ = std::move(stored_buffers);
  for (size_t i = 0; i < grads.size(); ++i) parameters_[i]->grad = grads[i];
  options_.dtype = working_type;
  stored_ = stored;
  point_parameters();
  drop_plans();
}

void Session::drop_plans() {
  host_state();
  plans_.clear();
  update_plans_.clear();
  if (gpu_ != nullptr) gpu_->state().clear();
  arena_.take();
}

void Session::pull_stored() {
  if (stored_ == working()) return;
  host_state();
  copy_converted(stored_parameters_, parameter_store_);
  copy_converted(stored_buffers_, buffers_);
}

void Session::push_stored(const CompiledStep& step, bool updated) {
  if (stored_ == working()) return;
  host_state();
  if (step.spec.training) copy_converted(buffers_, stored_buffers_);
  if (updated && step.spec.update) copy_converted(parameter_store_, stored_parameters_);
}

void Session::replace_model(OnnxModel model) {
  drop_plans();  // while the stores that they know are there
  const std::vector<std::shared_ptr<ParameterState>> old = std::move(parameters_);
  const Store old_parameters = std::move(parameter_store_), old_buffers = std::move(buffers_);
  const DType stored = stored_;
  if (stored_ != working()) {
    copy_converted(stored_parameters_, old_parameters);
    copy_converted(stored_buffers_, old_buffers);
  }
  model_ = std::move(model);
  parameters_.clear();
  by_name_.clear();
  by_original_.clear();
  parameter_store_ = Store();
  buffers_ = Store();
  stored_parameters_ = Store();
  stored_buffers_ = Store();
  stored_ = working();
  value_inputs_.clear();
  take_weights();
  for (const auto& before : old) {
    const auto found = by_name_.find(before->info.name);
    const Tensor value = old_parameters.find(before->info.name);
    if (found == by_name_.end()) {
      if (before->registered) {
        before->stored = add_parameter(before->info, value)->stored;
        parameters_.back() = before;
      }
      continue;
    }
    std::shared_ptr<ParameterState>& now = parameters_[found->second];
    if (now->stored.shape() != value.shape()) continue;
    now->stored.copy_from(value);
    // Handles that the program holds stay good.
    before->info = now->info;
    before->stored = now->stored;
    now = before;
  }
  for (size_t i = 0; i < old_buffers.size(); ++i) {
    const std::string& name = old_buffers.names()[i];
    Tensor now = buffers_.find(name);
    if (now.defined() && now.shape() == old_buffers.at(i).shape()) now.copy_from(old_buffers.at(i));
    if (!now.defined() && registered_buffers_.contains(name)) add_buffer(name, old_buffers.at(i));
  }
  // What is gone belongs to no session: optimizers that hold it say so.
  const auto nobody = std::make_shared<Session*>(nullptr);
  for (const auto& before : old) {
    const auto found = by_name_.find(before->info.name);
    if (found == by_name_.end() || parameters_[found->second] != before) before->owner = nobody;
  }
  ++*trained_version_;
  drop_plans();
  if (stored != working()) set_types(working(), stored);
}

void Session::move_state(const Allocate& allocate) {
  host_state();
  const bool plain = stored_ == working();
  Store& parameters = plain ? parameter_store_ : stored_parameters_;
  Store& buffers = plain ? buffers_ : stored_buffers_;
  parameters.move(allocate);
  buffers.move(allocate);
  point_parameters();
  drop_plans();
}

Tensor& ParameterState::value() {
  if (owner != nullptr && *owner != nullptr) (*owner)->host_state();
  return stored;
}

void Session::host_state() const {
  if (gpu_ != nullptr) gpu_->state().to_host();
}

void Session::zero_gradient_stores() {
  for (size_t i = 0; i < gradient_stores_.size(); ++i) {
    Tensor store = gradient_stores_.at(i);
    if (gpu_ != nullptr) {
      gpu_->state().zero(store);
    } else {
      store.fill(0);
    }
  }
}

void Session::open_device() {
  if (on_gpu()) gpu_ = std::make_shared<GpuContext>(find_gpu(options_.device.index));
}

void Session::set_device(const Device& device) {
  if (device == options_.device && (gpu_ != nullptr) == on_gpu()) return;
  if (device.type != DeviceType::kCpu && device.type != DeviceType::kCuda) {
    throw Error(ErrorCode::kUnsupported,
                "no build of trainrt runs on " + to_string(device) + ": devices are cpu and cuda");
  }
  std::shared_ptr<GpuContext> context;
  if (device.type == DeviceType::kCuda) {
    context = std::make_shared<GpuContext>(find_gpu(device.index));
  }
  drop_plans();
  gpu_ = std::move(context);
  options_.device = device;
}

void Session::reserve(const Plan& plan) {
  if (!on_gpu()) {
    arena_.reserve(plan.arena_bytes());
    return;
  }
  if (gpu_ == nullptr) {
    throw Error(ErrorCode::kUsage,
                "the option plan_only is set: no step can run on " + to_string(options_.device));
  }
  gpu_->reserve(plan.arena_bytes());
  gpu_->reserve_host(plan.host_arena_bytes());
}

PlanStats plan_stats(const Session& session, const CompiledStep& step) {
  const Plan& plan = *step.plan;
  PlanStats stats;
  stats.plan_ms = step.plan_ms;
  stats.arena_bytes = plan.arena_bytes();
  stats.arena_lower_bound_bytes = plan.arena_lower_bound();
  stats.fixed_bytes = plan.fixed_bytes();
  stats.state_bytes = session.state_bytes();
  stats.step_bytes = stats.arena_bytes + stats.fixed_bytes + session.optimizer_state_bytes();
  stats.nodes = static_cast<int64_t>(plan.steps().size());
  stats.flops = plan.flops();
  stats.recomputed_values = step.recomputed.values;
  stats.recomputed_bytes = step.recomputed.bytes;
  stats.recomputed_flops = step.recomputed_flops;
  return stats;
}

}  // namespace trainrt
