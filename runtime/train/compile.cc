// Plans made ahead of the first call.
#include "runtime/module/impl.h"
#include "trainrt/trainer.h"

namespace trainrt {

PlanStats Module::compile(const std::map<std::string, Shape>& shapes) {
  root_only("compile()");
  Session& session = *impl_->session;
  const std::lock_guard lock(session.mutex());
  const uint64_t seed = session.options().seed;
  TensorMap inputs = synthetic_inputs(*this, 2, seed, shapes);
  if (impl_->training && !impl_->loss_texts.empty()) {
    TrainerOptions options;
    options.losses = impl_->loss_texts;
    inputs.merge(synthetic_targets(*this, options, inputs, seed));
  }
  Batch batch = session.make_batch(inputs);
  return plan_stats(session, *session.prepare(impl_->forward_spec(batch), batch));
}

}  // namespace trainrt
