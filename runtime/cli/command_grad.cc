#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "runtime/cli/batch_source.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/numeric_check.h"
#include "runtime/cli/report.h"
#include "runtime/data/file.h"
#include "runtime/data/npy.h"
#include "trainrt/error.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {
namespace {

struct GradArgs {
  ModelArgs model;
  DataArgs data;
  TrainArgs train;
  std::string mode = "train", out;
  bool no_input_grads = false, numeric = false;
  NumericOptions check;
};

double norm(const Tensor& tensor) {
  double sum = 0;
  const Tensor values = tensor.to(DType::kFloat64);
  for (const double v : values.data<double>()) sum += v * v;
  return std::sqrt(sum);
}

void write_result(const std::string& path, const GradResult& result, double loss) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  arrays.emplace_back("loss", Tensor::scalar(loss));
  for (const auto& [name, tensor] : result.outputs) arrays.emplace_back("output/" + name, tensor);
  for (const auto& [name, tensor] : result.grads) arrays.emplace_back("grad/" + name, tensor);
  write_npz(path, arrays);
}

void print_result(const GradArgs& args, const GradResult& result, double loss) {
  if (args.model.json) {
    Json norms = Json::object();
    for (const auto& [name, tensor] : result.grads) norms[name] = norm(tensor);
    print_json({{"event", "grad"}, {"loss", loss}, {"grad_norms", norms}});
    return;
  }
  std::printf("loss %.9g\n", loss);
  if (!args.out.empty()) return;
  for (const auto& [name, tensor] : result.grads) {
    std::printf("  %s%s  norm %s\n", name.c_str(), to_string(tensor.shape()).c_str(),
                readable(norm(tensor)).c_str());
  }
}

int print_check(const GradArgs& args, const std::vector<DirectionCheck>& checks) {
  bool ok = true;
  for (const DirectionCheck& c : checks) {
    ok = ok && c.ok;
    if (args.model.json) {
      print_json({{"event", "numeric"},
                  {"name", c.name},
                  {"analytic", c.analytic},
                  {"numeric", c.numeric},
                  {"error", c.error},
                  {"ok", c.ok}});
    } else {
      std::printf("  %s %s  gradient %.9g  differences %.9g  off by %.2e\n", c.ok ? "ok  " : "FAIL",
                  c.name.c_str(), c.analytic, c.numeric, c.error);
    }
  }
  if (!ok) {
    print_error("gradients differ from central differences by more than " +
                readable(args.check.tolerance));
  }
  return ok ? 0 : 1;
}

int grad(GradArgs args) {
  const bool dy = args.train.losses.size() == 1 && args.train.losses[0] == "dy";
  if (args.numeric) args.model.dtype = "float64";
  if (dy) {
    // The caller asks for the derivative of the file's own function.
    if (args.model.batch_norm.empty()) args.model.batch_norm = "graph";
    args.model.no_dropout = true;
  }
  if (!args.data.batch.empty() && args.data.batch != "all") {
    throw Error(ErrorCode::kUsage, "grad takes every array whole; --batch does not apply");
  }
  if (!args.out.empty()) check_writable(args.out);
  Module module = args.model.load();
  TrainerOptions options = args.train.options();
  options.static_inputs = args.model.fixed_inputs(module);
  SourceOptions source_options;
  source_options.spec = args.data.data;
  source_options.targets = !dy;
  source_options.output_grads = dy;
  source_options.batch = "all";
  BatchSource source(module, args.data, options.static_inputs, source_options);
  TensorMap batch = source.whole_batch();
  if (dy) {
    options.losses = {"sum"};
  } else if (options.losses.empty()) {
    options.losses = default_losses(batch);
  }
  fit_column_targets(module, options.losses, &batch);

  Trainer trainer(module, options);
  const GradOptions grad_options{args.mode == "train", !args.no_input_grads, dy};
  const GradResult result = trainer.grad(batch, grad_options);
  const double loss = loss_value(result, batch);
  if (!args.out.empty()) write_result(args.out, result, loss);
  print_result(args, result, loss);
  if (!args.numeric) return 0;
  args.check.seed = args.model.seed;
  return print_check(args, check_numerically(module, trainer, batch, grad_options, args.check));
}

}  // namespace

void add_grad(CLI::App& app, Command* run) {
  CLI::App* command =
      app.add_subcommand("grad", "Loss, outputs and gradients of one batch (arrays taken whole)");
  auto args = std::make_shared<GradArgs>();
  args->model.add(*command);
  args->data.add(*command, false);
  command->get_option("--data")->required();
  args->train.add_loss(*command);
  command->get_option("--loss")->description(
      "A loss as in run, or dy: the gradient of sum(dy * output) for the arrays dy/OUTPUT, "
      "with --bn graph and without dropout");
  command->add_option("--out", args->out, "loss, output/NAME and grad/NAME")->type_name("E.npz");
  command->add_option("--mode", args->mode, "Mode of BatchNormalization and Dropout")
      ->check(CLI::IsMember({"train", "eval"}))
      ->capture_default_str();
  command->add_option("--weights", args->model.weights, "Weights of a checkpoint");
  command->add_flag("--no-input-grads", args->no_input_grads, "Parameters only");
  command->add_flag("--numeric", args->numeric,
                    "Check against central differences along random directions, in float64");
  command->add_option("--tolerance", args->check.tolerance, "Of --numeric, relative")
      ->capture_default_str();
  command->add_option("--directions", args->check.directions, "Of --numeric, per tensor")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([args, run] { *run = [args] { return grad(*args); }; });
}

}  // namespace trainrt::cli
