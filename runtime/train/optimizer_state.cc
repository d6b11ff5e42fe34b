// State dicts of optimizers.
#include "runtime/train/optimizer_impl.h"

namespace trainrt {

Tensor number(double value) { return Tensor::scalar<double>(value); }
Tensor count(int64_t value) { return Tensor::scalar<int64_t>(value); }

StateReader::StateReader(const StateDict& state, std::string what) : what_(std::move(what)) {
  for (const auto& [name, value] : state) {
    if (!entries_.emplace(name, value).second) fault("'" + name + "' is given twice");
  }
}

Tensor StateReader::take(const std::string& name, DType dtype, const Shape& shape) {
  const auto entry = entries_.extract(name);
  if (entry.empty()) {
    fault("'" + name + "' is missing");
    return {};
  }
  const Tensor& value = entry.mapped();
  if (value.defined() && value.dtype() == dtype && value.shape() == shape) return value;
  fault("'" + name + "': expected " + to_string(TensorType{dtype, shape}) + ", given " +
        (value.defined() ? to_string(TensorType{value.dtype(), value.shape()})
                         : "an undefined tensor"));
  return {};
}

bool StateReader::has(const std::string& name) const { return entries_.contains(name); }

void StateReader::fault(const std::string& text) {
  faults_ += (faults_.empty() ? "" : "; ") + text;
}

void StateReader::finish() {
  for (const auto& [name, value] : entries_) fault("'" + name + "' is unknown");
  if (!faults_.empty()) throw Error(ErrorCode::kInput, what_ + ": " + faults_);
}

StateDict Optimizer::state_dict() const {
  const std::string prefix = impl_->name + "/";
  const std::vector<std::string> slots = optimizer_slots(impl_->attrs.kind);
  StateDict state = {{prefix + "steps", count(impl_->steps)}};
  std::vector<ResolvedGroup> groups = impl_->resolve(impl_->groups);
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string group = prefix + "group/" + std::to_string(i) + "/";
    for (const OptimizerKey& key : optimizer_keys(groups[i].attrs, &groups[i].lr)) {
      state.emplace_back(group + std::string(key.name), number(*key.value));
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const auto& p : groups[i].params) {
      const std::string& name = p->info.name;
      state.emplace_back(prefix + "group_of/" + name, count(static_cast<int64_t>(i)));
      const int64_t* updates = updates_of(*p, impl_->attrs.kind);
      if (updates == nullptr || *updates == 0) continue;
      state.emplace_back(prefix + "updates/" + name, count(*updates));
      for (const std::string& slot : slots) {
        state.emplace_back(prefix + slot + "/" + name,
                           impl_->session->optimizer_state().find(slot + "/" + name));
      }
    }
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const std::string prefix = impl_->name + "/";
  const OptimizerKind kind = impl_->attrs.kind;
  if (!state.empty() && !state[0].first.starts_with(prefix)) {
    throw Error(ErrorCode::kInput, "the state is not of optimizer '" + impl_->name + "': it has '" +
                                       state[0].first + "'");
  }
  StateReader reader(state, "optimizer state");
  const Tensor steps = reader.take(prefix + "steps", DType::kInt64, {});
  if (steps.defined() && steps.item() < 0) reader.fault("'" + prefix + "steps' is negative");

  // Loaded into a copy of the groups, so that nothing has changed when a fault turns up.
  std::vector<ResolvedGroup> groups = impl_->resolve(impl_->groups);
  std::vector<ParamGroup> loaded = impl_->groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string group = prefix + "group/" + std::to_string(i) + "/";
    for (const OptimizerKey& key : optimizer_keys(groups[i].attrs, &groups[i].lr)) {
      const Tensor value = reader.take(group + std::string(key.name), DType::kFloat64, {});
      if (!value.defined()) continue;
      if (!key.takes(value.item())) {
        reader.fault("'" + group + std::string(key.name) + "' must be " + key.rule());
        continue;
      }
      *key.value = value.item();
    }
    Impl::write_settings(groups[i], loaded[i]);
  }

  struct Moments {
    ParameterState* parameter;
    int64_t updates;
    std::vector<std::pair<std::string, Tensor>> slots;
  };
  std::vector<Moments> moments;
  std::vector<StoreEntry> entries;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const auto& p : groups[i].params) {
      const std::string& name = p->info.name;
      const Tensor group = reader.take(prefix + "group_of/" + name, DType::kInt64, {});
      if (group.defined() && group.item() != static_cast<double>(i)) {
        reader.fault("parameter '" + name + "' was in group " +
                     std::to_string(static_cast<int64_t>(group.item())) + ", is in group " +
                     std::to_string(i));
      }
      Moments& m = moments.emplace_back(p.get(), 0);
      if (updates_of(*p, kind) == nullptr || !reader.has(prefix + "updates/" + name)) continue;
      const Tensor updates = reader.take(prefix + "updates/" + name, DType::kInt64, {});
      if (updates.defined()) m.updates = static_cast<int64_t>(updates.item());
      if (m.updates < 0) reader.fault("'" + prefix + "updates/" + name + "' is negative");
      for (const std::string& slot : optimizer_slots(kind)) {
        const Tensor value =
            reader.take(prefix + slot + "/" + name, p->value().dtype(), p->value().shape());
        if (!value.defined()) continue;
        entries.push_back({slot + "/" + name, {value.dtype(), value.shape()}});
        m.slots.emplace_back(slot + "/" + name, value);
      }
    }
  }
  reader.finish();

  Store& store = impl_->session->optimizer_state();
  store.add(entries);
  for (const Moments& m : moments) {
    if (m.slots.empty()) impl_->reset(*m.parameter);
    for (const auto& [name, value] : m.slots) {
      if (Tensor own = store.find(name); own.raw() != value.raw()) own.copy_from(value);
    }
    if (int64_t* updates = updates_of(*m.parameter, kind)) *updates = m.updates;
  }
  impl_->groups = std::move(loaded);
  impl_->steps = static_cast<int64_t>(steps.item());
}

void Optimizer::Impl::reset(ParameterState& parameter) {
  for (const std::string& slot : optimizer_slots(attrs.kind)) {
    Tensor moment = session->optimizer_state().find(slot + "/" + parameter.info.name);
    if (moment.defined()) moment.fill(0);
  }
  if (int64_t* updates = updates_of(parameter, attrs.kind)) *updates = 0;
}

void Optimizer::reset_state() {
  for (const ResolvedGroup& group : impl_->resolve(impl_->groups)) {
    for (const auto& p : group.params) impl_->reset(*p);
  }
}

}  // namespace trainrt
