#include "trainrt/optimizer.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "runtime/train/optimizer_impl.h"
#include "runtime/train/option_check.h"

namespace trainrt {
namespace {

struct Setting {
  std::string_view name;
  std::optional<double> ParamGroup::*value;
};

constexpr Setting kSettings[] = {
    {"lr", &ParamGroup::lr},
    {"weight_decay", &ParamGroup::weight_decay},
    {"momentum", &ParamGroup::momentum},
    {"dampening", &ParamGroup::dampening},
    {"beta1", &ParamGroup::beta1},
    {"beta2", &ParamGroup::beta2},
    {"eps", &ParamGroup::eps},
};

std::optional<double> ParamGroup::*setting_of(std::string_view name) {
  return std::find_if(std::begin(kSettings), std::end(kSettings),
                      [&](const Setting& s) { return s.name == name; })
      ->value;
}

std::string place(size_t group) { return "param group " + std::to_string(group); }

/// The groups as a step takes them, with the rates to run it with; parameters that `takes` refuses
/// stay out.
std::vector<UpdateGroup> update_groups(const std::vector<ResolvedGroup>& resolved,
                                       const std::function<bool(const ParameterState&)>& takes,
                                       std::vector<double>& rates) {
  std::vector<UpdateGroup> groups;
  for (const ResolvedGroup& from : resolved) {
    UpdateGroup group{from.attrs, rates.size(), {}};
    for (const auto& p : from.params) {
      if (takes(*p)) group.parameters.push_back(p->info.name);
    }
    rates.push_back(from.lr);
    if (!group.parameters.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

ParameterStates states_of(const Session& session, const std::vector<Parameter>& params,
                          const std::string& where) {
  check_usage(!params.empty(), where + " has no parameters");
  ParameterStates states;
  for (const Parameter& p : params) {
    check_usage(p.state() != nullptr, where + " has an empty Parameter");
    check_usage(p.state()->owner != nullptr && *p.state()->owner == &session,
                where + ": parameter '" + p.name() + "' belongs to another module");
    states.push_back(p.state());
  }
  return states;
}

std::pair<Session*, ParameterStates> common_session(const std::vector<Parameter>& params,
                                                    const std::string& where) {
  Session* session = nullptr;
  std::set<std::shared_ptr<ParameterState>> given;
  for (const Parameter& p : params) {
    check_usage(p.state() != nullptr, where + ": an empty Parameter");
    Session* own = p.state()->owner != nullptr ? *p.state()->owner : nullptr;
    check_usage(own != nullptr, where + ": the module of parameter '" + p.name() + "' is gone");
    check_usage(session == nullptr || own == session, where + ": parameter '" + p.name() +
                                                          "' belongs to another module than '" +
                                                          params[0].name() + "'");
    check_usage(given.insert(p.state()).second,
                where + ": parameter '" + p.name() + "' is given twice");
    session = own;
  }
  ParameterStates states;
  if (session == nullptr) return {nullptr, states};
  std::copy_if(session->parameters().begin(), session->parameters().end(),
               std::back_inserter(states), [&](const auto& p) { return given.contains(p); });
  return {session, states};
}

Optimizer::Impl::Impl(const Module& module, const std::string& text) : session(module.session()) {
  lr = -1;
  attrs = parse_optimizer(text, &lr);
  if (lr < 0) lr = default_learning_rate(attrs.kind);
  name = optimizer_name(attrs.kind);
}

void Optimizer::Impl::complete(ParamGroup& group, const std::string& where) const {
  OptimizerAttrs defaults = attrs;
  double rate = lr;
  const std::vector<OptimizerKey> keys = optimizer_keys(defaults, &rate);
  for (const Setting& setting : kSettings) {
    std::optional<double>& value = group.*setting.value;
    const auto key = std::find_if(keys.begin(), keys.end(),
                                  [&](const OptimizerKey& k) { return k.name == setting.name; });
    if (key != keys.end()) {
      if (!value) value = *key->value;
      continue;
    }
    check_usage(!value, where + ": optimizer '" + name + "' has no " + std::string(setting.name));
  }
}

std::vector<ResolvedGroup> Optimizer::Impl::resolve(const std::vector<ParamGroup>& list) const {
  std::vector<ResolvedGroup> resolved;
  std::map<const ParameterState*, size_t> group_of;
  for (size_t i = 0; i < list.size(); ++i) {
    ParamGroup group = list[i];
    complete(group, place(i));
    ResolvedGroup& result = resolved.emplace_back();
    result.attrs = attrs;
    for (const OptimizerKey& key : optimizer_keys(result.attrs, &result.lr)) {
      const double value = *(group.*setting_of(key.name));
      check_usage(key.takes(value), place(i) + ": " + std::string(key.name) + " must be " +
                                        key.rule() + ", not " + std::to_string(value));
      *key.value = value;
    }
    result.params = states_of(*session, group.params, place(i));
    for (const auto& p : result.params) {
      const auto [before, fresh] = group_of.emplace(p.get(), i);
      check_usage(fresh, before->second == i
                             ? place(i) + ": parameter '" + p->info.name + "' is given twice"
                             : "parameter '" + p->info.name + "' is in " + place(before->second) +
                                   " and in " + place(i));
    }
  }
  return resolved;
}

void Optimizer::Impl::write_settings(ResolvedGroup& from, ParamGroup& to) {
  for (const OptimizerKey& key : optimizer_keys(from.attrs, &from.lr)) {
    to.*setting_of(key.name) = *key.value;
  }
}

void Optimizer::Impl::set_groups(std::vector<ParamGroup> list) {
  check_usage(!list.empty(), "an optimizer needs at least one param group");
  for (size_t i = 0; i < list.size(); ++i) complete(list[i], place(i));
  resolve(list);
  groups = std::move(list);
}

Optimizer::Optimizer(const Module& module, const std::string& text)
    : Optimizer(module, text, module.parameters()) {}

Optimizer::Optimizer(const Module& module, const std::string& text, std::vector<Parameter> params)
    : impl_(std::make_shared<Impl>(module, text)) {
  ParamGroup group;
  group.params = std::move(params);
  impl_->set_groups({std::move(group)});
}

Optimizer::Optimizer(const Module& module, const std::string& text, std::vector<ParamGroup> groups)
    : impl_(std::make_shared<Impl>(module, text)) {
  impl_->set_groups(std::move(groups));
}

Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

void Optimizer::step() {
  Session& session = *impl_->session;
  const std::vector<ResolvedGroup> resolved = impl_->resolve(impl_->groups);
  UpdateSpec update;
  std::vector<double> rates;
  const auto has_gradient = [](const ParameterState& p) { return p.grad.defined(); };
  update.groups = update_groups(resolved, has_gradient, rates);
  if (update.groups.empty()) return;
  ParameterStates params;
  for (const ResolvedGroup& group : resolved) {
    std::copy_if(group.params.begin(), group.params.end(), std::back_inserter(params),
                 [&](const auto& p) { return has_gradient(*p); });
  }
  const auto step = session.prepare_update(std::move(update), params);
  session.load_update(*step, params, rates);
  session.run(*step);
  session.count_updates(*step);
  ++impl_->steps;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const ParamGroup& group : impl_->groups) {
    for (const Parameter& p : group.params) {
      Tensor& grad = p.state()->grad;
      if (set_to_none) {
        grad = Tensor();
      } else if (grad.defined()) {
        grad.fill(0);
      }
    }
  }
}

std::vector<ParamGroup>& Optimizer::param_groups() { return impl_->groups; }
const std::vector<ParamGroup>& Optimizer::param_groups() const { return impl_->groups; }

void Optimizer::add_param_group(ParamGroup group) {
  std::vector<ParamGroup> list = impl_->groups;
  list.push_back(std::move(group));
  impl_->set_groups(std::move(list));
}

const std::string& Optimizer::name() const { return impl_->name; }
int64_t Optimizer::steps_done() const { return impl_->steps; }

StepResult train_step(Module& module, Optimizer& optimizer, const TensorMap& given,
                      const TrainStepOptions& options) {
  Optimizer::Impl& own = *optimizer.impl();
  Session& session = *module.session();
  check_usage(own.session == module.session(),
              "train_step() needs an optimizer of the same module");
  check_usage(!session.attached_losses().empty() || session.custom_loss() != nullptr,
              "train_step() needs a loss: call attach_loss() first");
  check_usage(module.is_training(), "train_step() needs train mode: call train() first");
  check_above_zero(options.clip_norm, "clip_norm");
  check_above_zero(options.clip_value, "clip_value");
  StepSpec spec;
  spec.modes = session.modes();
  spec.losses = session.attached_losses();
  spec.custom_loss = session.custom_loss();
  spec.seeds = Seeds::kLoss;
  spec.update = UpdateSpec{};
  spec.update->clip_norm = options.clip_norm;
  spec.update->clip_value = options.clip_value;
  std::vector<double> rates;
  spec.update->groups = update_groups(
      own.resolve(own.groups), [](const ParameterState& p) { return p.requires_grad; }, rates);
  check_usage(!spec.update->groups.empty(),
              "nothing to train: every parameter of the optimizer is frozen");

  Batch batch = session.make_batch(given);
  const auto step = session.prepare_training(std::move(spec), batch);
  session.load(*step, batch, rates);
  session.run(*step);
  session.set_rng_step(session.rng_step() + 1);
  session.count_updates(*step);
  StepResult result;
  result.loss = step->plan->output("loss", OutputRole::kLoss).item();
  result.lr = rates[0];
  result.step = ++own.steps;
  return result;
}

StepResult Module::train_step(const TensorMap& batch, Optimizer& optimizer) {
  return trainrt::train_step(*this, optimizer, batch, {});
}

}  // namespace trainrt
