#include "runtime/train/averages.h"

#include "runtime/train/optimizer_impl.h"
#include "runtime/train/option_check.h"

namespace trainrt {

struct ExponentialMovingAverage::Impl {
  std::shared_ptr<Session> session;
  ParameterStates params;
  UpdateSpec update;
  bool swapped = false;
  std::vector<Tensor> stored;  // by store()

  Impl(const Module& module, double decay, const std::vector<Parameter>& list)
      : session(module.session()) {
    check_usage(decay > 0 && decay < 1,
                "the decay of a moving average lies between 0 and 1, not " + std::to_string(decay));
    states_of(*session, list, "a moving average");
    params = common_session(list, "a moving average").second;
    update.ema = decay;
    session->prepare_update(update, params);  // makes the averages
  }

  Tensor average(const ParameterState& p) const {
    return session->optimizer_state().find("ema/" + p.info.name);
  }
};

namespace {

std::vector<Parameter> trained_parameters(const Module& module) {
  std::vector<Parameter> list = module.parameters();
  std::erase_if(list, [](const Parameter& p) { return !p.requires_grad(); });
  return list;
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(const Module& module, double decay)
    : ExponentialMovingAverage(module, decay, trained_parameters(module)) {}

ExponentialMovingAverage::ExponentialMovingAverage(const Module& module, double decay,
                                                   std::vector<Parameter> params)
    : impl_(std::make_unique<Impl>(module, decay, params)) {}

ExponentialMovingAverage::ExponentialMovingAverage(ExponentialMovingAverage&&) noexcept = default;
ExponentialMovingAverage& ExponentialMovingAverage::operator=(ExponentialMovingAverage&&) noexcept =
    default;
ExponentialMovingAverage::~ExponentialMovingAverage() = default;

void ExponentialMovingAverage::update() {
  check_usage(!impl_->swapped, "update() while the averages are swapped in: call swap() first");
  const auto step = impl_->session->prepare_update(impl_->update, impl_->params);
  impl_->session->load_update(*step, {});
  impl_->session->run(*step);
}

void ExponentialMovingAverage::swap() {
  swap_averages(*impl_->session, impl_->params);
  impl_->swapped = !impl_->swapped;
}

void ExponentialMovingAverage::store() {
  impl_->stored.clear();
  for (const auto& p : impl_->params) impl_->stored.push_back(p->value().clone());
}

void ExponentialMovingAverage::copy_to() {
  check_usage(!impl_->swapped, "copy_to() while the averages are swapped in: call swap() first");
  for (const auto& p : impl_->params) {
    p->value().copy_from(impl_->average(*p).to(p->value().dtype()));
  }
}

void ExponentialMovingAverage::restore() {
  check_usage(!impl_->stored.empty(), "restore() needs a store() first");
  for (size_t i = 0; i < impl_->stored.size(); ++i) {
    Tensor& value = impl_->params[i]->value();
    value.copy_from(impl_->stored[i].to(value.dtype()));
  }
  impl_->stored.clear();
}

StateDict ExponentialMovingAverage::state_dict() const {
  StateDict state;
  for (const auto& p : impl_->params) state.emplace_back(p->info.name, impl_->average(*p));
  return state;
}

void ExponentialMovingAverage::load_state_dict(const StateDict& state) {
  StateReader reader(state, "state of a moving average");
  std::vector<Tensor> values;
  for (const auto& p : impl_->params) {
    values.push_back(reader.take(p->info.name, impl_->average(*p).dtype(), p->value().shape()));
  }
  reader.finish();
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor own = impl_->average(*impl_->params[i]);
    if (own.raw() != values[i].raw()) own.copy_from(values[i]);
  }
}

}  // namespace trainrt
