#include "runtime/cli/step_batch.h"

#include "runtime/cli/batch_source.h"
#include "runtime/cli/report.h"
#include "trainrt/error.h"

namespace trainrt::cli {

StepBatch make_step_batch(const Module& module, const ModelArgs& model, const DataArgs& data,
                          const TrainArgs& train) {
  StepBatch out;
  out.options = train.options();
  out.options.static_inputs = model.fixed_inputs(module);
  out.options.total_steps = 1;
  if (!data.data.empty()) {
    if (!data.shapes.empty()) throw Error(ErrorCode::kUsage, "--shape goes without --data");
    SourceOptions options;
    options.spec = data.data;
    options.batch = data.batch;
    options.seed = model.seed;
    BatchSource source(module, data, out.options.static_inputs, options);
    out.batch = source.batch(0, 0);
    if (out.options.losses.empty()) out.options.losses = default_losses(out.batch);
    fit_column_targets(module, out.options.losses, &out.batch);
    return out;
  }
  out.batch = made_up_inputs(module, data, model.seed, out.options.static_inputs);
  if (out.options.losses.empty()) {
    out.options.losses = {"mse"};
    note("no --loss: mse against made-up targets");
  }
  TensorMap inputs = out.batch;
  inputs.insert(out.options.static_inputs.begin(), out.options.static_inputs.end());
  out.batch.merge(synthetic_targets(module, out.options, inputs, model.seed));
  return out;
}

}  // namespace trainrt::cli
