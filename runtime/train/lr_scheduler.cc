#include <algorithm>
#include <cmath>

#include "runtime/train/lr_schedule.h"
#include "runtime/train/optimizer_impl.h"
#include "runtime/train/option_check.h"

namespace trainrt {

struct LRScheduler::Impl {
  std::shared_ptr<Optimizer::Impl> optimizer;
  std::vector<std::function<double(int64_t)>> factors;  // one for all groups, or one for each
  std::vector<double> base, last;
  int64_t steps = 0;

  Impl(Optimizer& of, std::vector<std::function<double(int64_t)>> given, bool shared)
      : optimizer(of.impl()), factors(std::move(given)) {
    for (const auto& factor : factors) {
      check_usage(static_cast<bool>(factor), "LRScheduler: an empty function");
    }
    const size_t groups = optimizer->groups.size();
    check_usage(shared || factors.size() == groups,
                "LRScheduler: " + std::to_string(factors.size()) + " factors for " +
                    std::to_string(groups) + " param groups");
    shared_ = shared;
    apply(base, 0);
  }

  /// Sets the rates of an update; groups beyond those in `bases` start from their present rate.
  void apply(std::vector<double> bases, int64_t update) {
    std::vector<ParamGroup>& groups = optimizer->groups;
    check_usage(bases.size() <= groups.size() && (shared_ || factors.size() == groups.size()),
                "LRScheduler: the optimizer has " + std::to_string(groups.size()) +
                    " param groups now, the scheduler was made for " +
                    std::to_string(shared_ ? bases.size() : factors.size()));
    for (size_t i = bases.size(); i < groups.size(); ++i) {
      bases.push_back(groups[i].lr.value_or(optimizer->lr));
    }
    std::vector<double> rates;
    for (size_t i = 0; i < groups.size(); ++i) {
      rates.push_back(bases[i] * factors[shared_ ? 0 : i](update));
      check_usage(std::isfinite(rates[i]) && rates[i] >= 0,
                  "LRScheduler: the rate of param group " + std::to_string(i) + " at update " +
                      std::to_string(update) + " would be " + std::to_string(rates[i]));
    }
    for (size_t i = 0; i < groups.size(); ++i) groups[i].lr = rates[i];
    base = std::move(bases);
    last = std::move(rates);
    steps = update;
  }

 private:
  bool shared_ = true;
};

LRScheduler::LRScheduler(Optimizer& optimizer, const std::string& text, int64_t total_steps) {
  check_usage(total_steps >= 0, "total_steps must be 0 or more");
  const LrSchedule schedule = parse_schedule(text, total_steps);
  impl_ = std::make_unique<Impl>(
      optimizer, std::vector<std::function<double(int64_t)>>{[schedule](int64_t update) {
        return schedule.factor(update);
      }},
      true);
}

LRScheduler::LRScheduler(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : impl_(std::make_unique<Impl>(
          optimizer, std::vector<std::function<double(int64_t)>>{std::move(factor)}, true)) {}

LRScheduler::LRScheduler(Optimizer& optimizer, std::vector<std::function<double(int64_t)>> factors)
    : impl_(std::make_unique<Impl>(optimizer, std::move(factors), false)) {}

LRScheduler::LRScheduler(LRScheduler&&) noexcept = default;
LRScheduler& LRScheduler::operator=(LRScheduler&&) noexcept = default;
LRScheduler::~LRScheduler() = default;

void LRScheduler::step() { impl_->apply(impl_->base, impl_->steps + 1); }
std::vector<double> LRScheduler::get_last_lr() const { return impl_->last; }
int64_t LRScheduler::steps_done() const { return impl_->steps; }

StateDict LRScheduler::state_dict() const {
  return {{"steps", count(impl_->steps)},
          {"base_lrs", Tensor::from<double>(std::span<const double>(impl_->base),
                                            {static_cast<int64_t>(impl_->base.size())})}};
}

void LRScheduler::load_state_dict(const StateDict& state) {
  StateReader reader(state, "scheduler state");
  const Tensor steps = reader.take("steps", DType::kInt64, {});
  const Tensor base = reader.take("base_lrs", DType::kFloat64,
                                  {static_cast<int64_t>(impl_->optimizer->groups.size())});
  if (steps.defined() && steps.item() < 0) reader.fault("'steps' is negative");
  reader.finish();
  const auto rates = base.data<double>();
  impl_->apply({rates.begin(), rates.end()}, static_cast<int64_t>(steps.item()));
}

}  // namespace trainrt
