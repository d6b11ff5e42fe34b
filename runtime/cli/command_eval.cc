#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "runtime/cli/batch_source.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/evaluation.h"
#include "runtime/cli/report.h"
#include "runtime/data/file.h"
#include "runtime/data/npy.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {
namespace {

struct EvalArgs {
  ModelArgs model;
  DataArgs data;
  TrainArgs train;
  std::string metrics, out;
};

BatchSource open_source(const Module& module, const EvalArgs& args, const TensorMap& fixed,
                        bool targets) {
  SourceOptions options;
  options.spec = args.data.data;
  options.targets = targets;
  options.batch = args.data.batch;
  options.seed = args.model.seed;
  return BatchSource(module, args.data, fixed, options);
}

int eval(const EvalArgs& args) {
  if (!args.out.empty()) check_writable(args.out);
  const std::vector<std::string> metrics = parse_metrics(args.metrics);
  const Module module = args.model.load();
  TrainerOptions options = args.train.options();
  options.static_inputs = args.model.fixed_inputs(module);
  BatchSource source = open_source(module, args, options.static_inputs, true);
  if (options.losses.empty()) options.losses = default_losses(source.batch(0, 0));
  Trainer trainer(module, options);
  OutputCollector outputs;
  const Evaluation result = evaluate_all(
      trainer, source, [&](TensorMap* batch) { fit_column_targets(module, options.losses, batch); },
      [&](const EvalResult& r) {
        if (!args.out.empty()) outputs.add(r.outputs, r.samples);
      });
  if (!args.out.empty()) write_npz(args.out, outputs.take());

  Json line = {{"event", "eval"}, {"samples", result.samples}, {"loss", result.loss}};
  for (const char* name : {"accuracy", "top5", "mae", "perplexity"}) {
    const bool asked = std::find(metrics.begin(), metrics.end(), name) != metrics.end();
    const bool obvious = metrics.empty() && std::string(name) != "perplexity";
    if (asked || (obvious && result.metrics.has(name))) line[name] = result.metrics.value(name);
  }
  if (args.model.json) {
    print_json(line);
    return 0;
  }
  for (const auto& [key, value] : line.items()) {
    if (key == "samples") std::printf("%ld samples", value.get<int64_t>());
    if (value.is_number_float()) {
      std::printf("  %s %s", key.c_str(), readable(value.get<double>()).c_str());
    }
  }
  std::printf("\n");
  return 0;
}

void print_outputs(const std::vector<std::pair<std::string, Tensor>>& outputs) {
  for (const auto& [name, tensor] : outputs) {
    std::printf("%s  %s%s ", name.c_str(), std::string(dtype_name(tensor.dtype())).c_str(),
                to_string(tensor.shape()).c_str());
    const Tensor values = tensor.to(DType::kFloat64);
    for (int64_t i = 0; i < std::min<int64_t>(values.size(), 8); ++i) {
      std::printf(" %s", readable(values.data<double>()[static_cast<size_t>(i)]).c_str());
    }
    std::printf("%s\n", values.size() > 8 ? " …" : "");
  }
}

int predict(const EvalArgs& args) {
  if (!args.out.empty()) check_writable(args.out);
  const Module module = args.model.load();
  TrainerOptions options;
  options.static_inputs = args.model.fixed_inputs(module);
  BatchSource source = open_source(module, args, options.static_inputs, false);
  Trainer trainer(module, options);
  OutputCollector collector;
  for (int64_t i = 0; i < source.loader().batches_per_epoch(); ++i) {
    collector.add(trainer.predict(source.batch(0, i)), source.loader().samples(i));
  }
  const std::vector<std::pair<std::string, Tensor>> outputs = collector.take();
  if (!args.out.empty()) write_npz(args.out, outputs);
  if (args.model.json) {
    Json shapes = Json::object();
    for (const auto& [name, tensor] : outputs) shapes[name] = tensor.shape();
    print_json({{"event", "predict"}, {"outputs", shapes}});
  } else {
    print_outputs(outputs);
  }
  return 0;
}

void add_common(CLI::App& command, EvalArgs& args) {
  args.model.add(command);
  args.data.add(command, false);
  command.get_option("--data")->required();
  command.add_option("--weights", args.model.weights, "Weights of a checkpoint");
  command.add_option("--out", args.out, "The outputs, for all samples")->type_name("Y.npz");
}

}  // namespace

void add_eval(CLI::App& app, Command* run) {
  CLI::App* command = app.add_subcommand("eval", "Loss and metrics of a dataset");
  auto args = std::make_shared<EvalArgs>();
  add_common(*command, *args);
  args->train.add_loss(*command);
  command->add_option("--metrics", args->metrics, "accuracy,top5,mae,perplexity");
  command->callback([args, run] { *run = [args] { return eval(*args); }; });
}

void add_predict(CLI::App& app, Command* run) {
  CLI::App* command = app.add_subcommand("predict", "Outputs for a dataset");
  auto args = std::make_shared<EvalArgs>();
  add_common(*command, *args);
  command->callback([args, run] { *run = [args] { return predict(*args); }; });
}

}  // namespace trainrt::cli
