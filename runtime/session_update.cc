// The session's part in updates: which parameters share a learning rate and a number of updates,
// and plans of the update section alone.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "runtime/session.h"
#include "runtime/threads.h"

namespace trainrt {
namespace {

constexpr size_t kUpdatePlans = 8;  // clipping, updates and averages of a few lists

int64_t count_of(ParameterState& parameter, OptimizerKind kind) {
  const int64_t* count = updates_of(parameter, kind);
  return count != nullptr ? *count : 0;
}

/// Group by group the parameters with equal numbers of updates.
std::vector<UpdateGroup> split_groups(const std::vector<UpdateGroup>& groups,
                                      const std::vector<ParameterStates>& updated) {
  std::vector<UpdateGroup> result;
  for (size_t i = 0; i < updated.size(); ++i) {
    std::map<int64_t, UpdateGroup> parts;
    for (const auto& p : updated[i]) {
      UpdateGroup& part = parts[count_of(*p, groups[i].optimizer.kind)];
      part.parameters.push_back(p->info.name);
    }
    for (auto& [count, part] : parts) {
      part.optimizer = groups[i].optimizer;
      part.rate = groups[i].rate;
      result.push_back(std::move(part));
    }
  }
  return result;
}

}  // namespace

int64_t* updates_of(ParameterState& parameter, OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return &parameter.updates[0];
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return &parameter.updates[1];
    default:
      return nullptr;
  }
}

ParameterStates Session::states_of(const std::vector<std::string>& names) const {
  ParameterStates states;
  for (const std::string& name : names) states.push_back(parameters_[by_name_.at(name)]);
  return states;
}

std::shared_ptr<CompiledStep> Session::prepare_training(StepSpec spec, Batch& batch) {
  std::shared_ptr<CompiledStep> step = prepare(spec, batch);
  const std::vector<UpdateGroup> whole = {{spec.update->optimizer, 0, {}}};
  const std::vector<UpdateGroup>& groups =
      spec.update->groups.empty() ? whole : spec.update->groups;
  const bool equal = [&] {
    for (size_t i = 0; i < step->updated.size(); ++i) {
      const OptimizerKind kind = groups[i].optimizer.kind;
      for (const auto& p : step->updated[i]) {
        if (count_of(*p, kind) != count_of(*step->updated[i][0], kind)) return false;
      }
    }
    return true;
  }();
  if (equal) return step;
  spec.update->groups = split_groups(groups, step->updated);
  return prepare(spec, batch);
}

std::shared_ptr<CompiledStep> Session::prepare_update(UpdateSpec update,
                                                      const ParameterStates& parameters) {
  set_threads(options_.threads);
  const std::set<std::shared_ptr<ParameterState>> wanted(parameters.begin(), parameters.end());
  ParameterStates ordered;
  std::copy_if(parameters_.begin(), parameters_.end(), std::back_inserter(ordered),
               [&](const auto& p) { return wanted.contains(p); });
  std::vector<ParameterStates> updated;
  for (const UpdateGroup& group : update.groups) updated.push_back(states_of(group.parameters));
  update.groups = split_groups(update.groups, updated);

  StepSpec spec;
  spec.update = update;
  std::string key = "update;" + spec.key();
  for (const auto& p : ordered) key += p->info.name + ",";
  const auto found = std::find_if(update_plans_.begin(), update_plans_.end(),
                                  [&](const auto& step) { return step->key == key; });
  if (found != update_plans_.end()) {
    update_plans_.splice(update_plans_.begin(), update_plans_, found);
    return update_plans_.front();
  }
  std::vector<std::pair<std::string, TensorType>> types;
  for (const auto& p : ordered) {
    types.emplace_back(p->info.name, TensorType{working(), p->stored.shape()});
  }
  const StepContext context{model_, {}, {}, fused_kernels(), 0, {}, {}, {}};
  StepGraph built = build_update(context, update, types);
  auto step = std::make_shared<CompiledStep>();
  step->key = std::move(key);
  step->spec = std::move(spec);
  for (const auto& names : built.updated) step->updated.push_back(states_of(names));
  step->plan = make_plan(plan_options(step->spec), std::move(built.graph));
  step->executor = std::make_unique<Executor>(*step->plan, arena_);
  update_plans_.push_front(step);
  if (update_plans_.size() > kUpdatePlans) update_plans_.pop_back();
  return step;
}

void Session::load_rates(CompiledStep& step, std::span<const double> rates) const {
  if (rates.empty()) return;
  const std::vector<UpdateGroup>& groups = step.spec.update->groups;
  for (size_t i = 0; i < step.updated.size(); ++i) {
    if (step.updated[i].empty()) continue;
    Tensor hyper = step.plan->input(groups.empty() ? "hyper" : "hyper/" + std::to_string(i),
                                    InputRole::kHyper);
    const OptimizerAttrs& optimizer =
        groups.empty() ? step.spec.update->optimizer : groups[i].optimizer;
    hyper.data<double>()[0] = rates[groups.empty() ? 0 : groups[i].rate];
    hyper.data<double>()[1] =
        static_cast<double>(count_of(*step.updated[i][0], optimizer.kind) + 1);
  }
}

void Session::load_update(CompiledStep& step, const ParameterStates& parameters,
                          std::span<const double> rates) {
  pull_stored();
  host_state();  // the gradients are written to state
  reserve(*step.plan);
  step.run = arena_.take();
  for (const auto& p : parameters) {
    Tensor given = given_gradients_.find("grad/" + p->info.name);
    if (given.defined()) given.copy_from(p->grad);
  }
  load_rates(step, rates);
}

void Session::count_updates(CompiledStep& step) {
  const UpdateSpec& update = *step.spec.update;
  for (size_t i = 0; i < step.updated.size(); ++i) {
    const OptimizerKind kind =
        update.groups.empty() ? update.optimizer.kind : update.groups[i].optimizer.kind;
    for (const auto& p : step.updated[i]) {
      if (int64_t* count = updates_of(*p, kind)) ++*count;
    }
  }
}

}  // namespace trainrt
