#include "runtime/train/loss_options.h"

#include <algorithm>
#include <functional>

#include "kernels/philox.h"
#include "runtime/session.h"
#include "runtime/step_builder.h"

namespace trainrt {

std::vector<LossSpec> loss_specs(const TrainerOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw Error(ErrorCode::kUsage, "label smoothing lies between 0 and 1");
  }
  std::vector<LossSpec> specs;
  for (const std::string& text : options.losses) {
    LossSpec spec = parse_loss(text);
    if (target_is_class_ids(spec.kind)) {
      spec.class_axis = options.class_axis;
      spec.label_smoothing = options.label_smoothing;
    }
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) throw Error(ErrorCode::kUsage, "training needs at least one loss");
  return specs;
}

TensorMap synthetic_targets(const Module& module, const TrainerOptions& options,
                            const TensorMap& inputs, uint64_t seed) {
  Session& session = *module.session();
  Batch batch = session.make_batch(inputs, options.static_inputs);
  const std::vector<LossTerm> terms =
      bind_losses(loss_specs(options), session.output_types(true, batch),
                  [](const std::string& name) { return name.starts_with("target/"); });
  TensorMap targets;
  uint32_t stream = 1u << 16;
  for (const LossTerm& term : terms) {
    if (term.target.empty() || targets.contains(term.target)) continue;
    const TensorType type = target_type(term.spec, term.output_type);
    const Philox random{seed, 0, stream++};
    Tensor value(type.dtype, type.shape);
    if (target_is_class_ids(term.spec.kind)) {
      const int64_t positions = std::max<int64_t>(type.size(), 1);
      const auto classes =
          static_cast<uint64_t>(std::max<int64_t>(term.output_type.size() / positions, 1));
      auto ids = value.data<int64_t>();
      for (size_t i = 0; i < ids.size(); ++i) {
        ids[i] = static_cast<int64_t>(philox_word(random, i) % classes);
      }
    } else {
      with_float_type(type.dtype, [&](auto sample) {
        auto numbers = value.data<decltype(sample)>();
        for (size_t i = 0; i < numbers.size(); ++i) {
          numbers[i] = static_cast<decltype(sample)>(to_uniform(philox_word(random, i)));
        }
      });
    }
    targets[term.target] = std::move(value);
  }
  return targets;
}

}  // namespace trainrt
