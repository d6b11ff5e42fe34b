#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "frontend/onnx_model.h"
#include "runtime/cli/batch_source.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/session.h"
#include "trainrt/error.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {
namespace {

struct InspectArgs {
  ModelArgs model;
  DataArgs data;
  TrainArgs train;
};

struct Cost {
  std::optional<PlanStats> plan;
  std::string obstacle;  // why there is no plan
};

/// Of a training step on made-up data.
Cost training_cost(const Module& module, const InspectArgs& args) {
  Cost cost;
  try {
    TrainerOptions options = args.train.options();
    if (options.losses.empty()) options.losses = {"mean"};
    options.total_steps = 1;
    options.static_inputs = args.model.fixed_inputs(module);
    TensorMap batch = made_up_inputs(module, args.data, args.model.seed, options.static_inputs);
    TensorMap inputs = batch;
    inputs.insert(options.static_inputs.begin(), options.static_inputs.end());
    batch.merge(synthetic_targets(module, options, inputs, args.model.seed));
    cost.plan = Trainer(module, options).plan(batch);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUsage) throw;
    cost.obstacle = error.problems().empty() ? error.what() : to_string(error.problems().front());
  }
  return cost;
}

Json port_json(const PortInfo& port) {
  Json dims = Json::array();
  for (size_t d = 0; d < port.dims.size(); ++d) {
    if (port.dims[d] >= 0) {
      dims.push_back(port.dims[d]);
    } else {
      dims.push_back(d < port.symbols.size() && !port.symbols[d].empty() ? Json(port.symbols[d])
                                                                         : Json());
    }
  }
  Json json = {{"name", port.name},
               {"dtype", dtype_name(port.dtype)},
               {"shape", port.has_shape ? dims : Json()}};
  if (port.sequence) json["sequence"] = true;
  if (port.optional) json["optional"] = true;
  return json;
}

Json weight_json(const WeightInfo& weight) {
  return {{"name", weight.name},     {"original_name", weight.original},
          {"shape", weight.shape},   {"dtype", dtype_name(weight.dtype)},
          {"module", weight.module}, {"reason", weight.reason}};
}

int print_as_json(const Module& module, const Cost& cost) {
  const OnnxModel& model = module.session()->model();
  Json out;
  for (const char* key : {"inputs", "outputs", "parameters", "buffers", "other_weights"}) {
    out[key] = Json::array();
  }
  for (const PortInfo& port : module.inputs()) out["inputs"].push_back(port_json(port));
  for (const PortInfo& port : module.outputs()) out["outputs"].push_back(port_json(port));
  for (const WeightInfo& weight : model.parameters()) {
    Json line = weight_json(weight);
    line["trainable"] = module.get_parameter(weight.name).requires_grad();
    out["parameters"].push_back(line);
  }
  for (const WeightInfo& weight : model.buffers()) out["buffers"].push_back(weight_json(weight));
  for (const WeightInfo& weight : model.other_weights()) {
    out["other_weights"].push_back(weight_json(weight));
  }
  out["ops"] = Json::object();
  for (const auto& [op, count] : model.op_counts()) out["ops"][op] = count;
  out["opset"] = model.opset();
  out["cost"] = Json();
  if (cost.plan) {
    out["cost"] = {{"flops", cost.plan->flops},
                   {"arena_bytes", cost.plan->arena_bytes},
                   {"state_bytes", cost.plan->state_bytes},
                   {"nodes", cost.plan->nodes}};
  }
  print_json(out);
  return 0;
}

/// Elements of the parameters of a module and of everything below it.
void print_tree(const OnnxModel& model) {
  std::map<std::string, int64_t> elements;
  for (const WeightInfo& weight : model.parameters()) {
    const int64_t size = element_count(weight.shape);
    elements[""] += size;
    for (size_t at = 0; at != std::string::npos && !weight.module.empty();) {
      at = weight.module.find('.', at + 1);
      elements[weight.module.substr(0, at)] += size;
    }
  }
  std::printf("modules\n  (model)  %s\n", with_commas(elements[""]).c_str());
  for (const auto& [path, size] : elements) {
    if (path.empty()) continue;
    const auto depth = static_cast<int>(std::count(path.begin(), path.end(), '.'));
    const std::string leaf = path.substr(path.rfind('.') + 1);
    std::printf("  %*s%s  %s\n", 2 * depth + 2, "", leaf.c_str(), with_commas(size).c_str());
  }
}

void print_weights(const char* title, const std::vector<WeightInfo>& weights,
                   const Module* module) {
  if (weights.empty()) return;
  std::printf("%s\n", title);
  for (const WeightInfo& weight : weights) {
    const std::string alias = weight.original != weight.name ? " (" + weight.original + ")" : "";
    const bool frozen = module != nullptr && !module->get_parameter(weight.name).requires_grad();
    std::printf("  %s%s  %s%s%s  %s\n", weight.name.c_str(), alias.c_str(),
                std::string(dtype_name(weight.dtype)).c_str(), to_string(weight.shape).c_str(),
                frozen ? "  frozen" : "", weight.reason.c_str());
  }
}

int print_as_text(const Module& module, const Cost& cost) {
  const OnnxModel& model = module.session()->model();
  std::printf("opset %ld\ninputs\n", model.opset());
  const auto print_port = [](const PortInfo& port) {
    std::printf("  %s  %s%s%s%s\n", port.name.c_str(), port.optional ? "optional " : "",
                port.sequence ? "sequence of " : "", std::string(dtype_name(port.dtype)).c_str(),
                port.text.c_str());
  };
  for (const PortInfo& port : module.inputs()) print_port(port);
  std::printf("outputs\n");
  for (const PortInfo& port : module.outputs()) print_port(port);
  print_tree(model);
  print_weights("parameters", model.parameters(), &module);
  print_weights("buffers", model.buffers(), nullptr);
  print_weights("other weights", model.other_weights(), nullptr);
  std::printf("ops\n");
  for (const auto& [op, count] : model.op_counts()) std::printf("  %-24s %ld\n", op.c_str(), count);
  if (cost.plan) {
    std::printf("training step: %.3g flops, arena %s, state %s\n",
                static_cast<double>(cost.plan->flops),
                readable_bytes(static_cast<double>(cost.plan->arena_bytes)).c_str(),
                readable_bytes(static_cast<double>(cost.plan->state_bytes)).c_str());
  } else {
    std::printf("training step: not planned: %s\n", cost.obstacle.c_str());
  }
  return 0;
}

int inspect(const InspectArgs& args) {
  const Module module = args.model.load();
  const Cost cost = training_cost(module, args);
  return args.model.json ? print_as_json(module, cost) : print_as_text(module, cost);
}

}  // namespace

void add_inspect(CLI::App& app, Command* run) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Module tree, parameters and why each is one, buffers, ops, cost");
  auto args = std::make_shared<InspectArgs>();
  args->model.add(*command);
  args->train.add_loss(*command);
  command->add_option("--batch", args->data.batch, "Samples of the step whose cost is told");
  command->add_option("--shape", args->data.shapes, "Shape of an input (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=D,D,…");
  command->add_option("--int-range", args->data.int_range, "Values of integer inputs");
  command->callback([args, run] { *run = [args] { return inspect(*args); }; });
}

}  // namespace trainrt::cli
