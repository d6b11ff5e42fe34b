#include "runtime/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "frontend/onnx_model.h"
#include "runtime/byte_size.h"
#include "runtime/cli/report.h"
#include "runtime/glob.h"
#include "runtime/session.h"
#include "runtime/threads.h"
#include "trainrt/error.h"

namespace trainrt::cli {
namespace {

/// Splits "name=value".
std::pair<std::string, std::string> name_and_value(const std::string& text, const char* option) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    throw Error(ErrorCode::kUsage,
                std::string(option) + ": NAME=VALUE expected, found '" + text + "'");
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

/// A pattern may also name weights that are constants anyway; one that names nothing is a typing
/// error more often than not, which a note tells.
void freeze_matching(const Module& module, const std::string& pattern) {
  bool found = false;
  for (Parameter parameter : module.parameters()) {
    if (!glob_match(pattern, parameter.name()) && !glob_match(pattern, parameter.original_name())) {
      continue;
    }
    parameter.requires_grad_(false);
    found = true;
  }
  for (const WeightInfo& weight : module.session()->model().other_weights()) {
    found = found || glob_match(pattern, weight.name) || glob_match(pattern, weight.original);
  }
  if (!found) note("--freeze '" + pattern + "' matches no weight of the model");
}

}  // namespace

std::vector<double> parse_numbers(const std::string& text, const std::string& option) {
  std::vector<double> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ',')) {
      throw Error(ErrorCode::kUsage,
                  option + ": numbers separated by commas expected, found '" + text + "'");
    }
    out.push_back(value);
    at = next == end ? end : next + 1;
  }
  return out;
}

void add_unsupported(CLI::App& app, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    app.add_option_function<std::string>(
           name,
           [name](const std::string&) {
             throw Error(ErrorCode::kUsage,
                         std::string(name) + " is not supported by this version of trainrt");
           },
           "")
        ->group("")
        ->expected(0, 1);
  }
}

void ModelArgs::add(CLI::App& app) {
  app.add_option("model", path, "ONNX file")->required()->type_name("MODEL.onnx");
  app.add_option("--dtype", dtype, "Working type; float64 runs on the reference kernels")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  app.add_option("--bn", batch_norm,
                 "BatchNormalization: batch statistics when training (train, the default), as the "
                 "graph says, or frozen")
      ->check(CLI::IsMember({"train", "graph", "frozen"}));
  app.add_flag("--no-dropout", no_dropout, "Dropout does nothing, when training too");
  app.add_flag("--straight-through", straight_through,
               "Pass gradients through QuantizeLinear and DequantizeLinear; 0 where values are "
               "clamped");
  seed_option = app.add_option("--seed", seed, "Of shuffling, dropout and made-up data")
                    ->capture_default_str();
  app.add_option("--threads", threads, "CPU threads; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--freeze", freeze, "Do not train parameters matching GLOB (repeatable)")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  app.add_option("--train-only", train_only, "Train only parameters matching GLOB (repeatable)")
      ->allow_extra_args(false)
      ->type_name("GLOB");
  app.add_flag("--tie-weights", tie_weights,
               "Train an embedding and an output projection with the same values as one weight");
  app.add_option("--set", fixed, "Fixed value of an input (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  app.add_option("--backend", backend, "auto, or reference: plain loops for every op")
      ->check(CLI::IsMember({"auto", "reference"}))
      ->capture_default_str();
  app.add_option("--precision", precision,
                 "f32; bf16: products of bfloat16, sums and weights in float32; tf32 on a GPU")
      ->check(CLI::IsMember({"f32", "bf16", "tf32"}))
      ->capture_default_str();
  app.add_option("--device", device, "Where to run: cpu, or cuda with a number: cuda:1")
      ->capture_default_str();
  app.add_flag("--allow-cpu-fallback", allow_cpu_fallback,
               "On a GPU: nodes that have no kernel there run on the CPU, with copies");
  app.add_flag("--json", json, "Results as JSON lines on stdout");
  app.add_option("--memory-budget", memory_budget,
                 "Largest memory of a training step's intermediate values: what does not fit is "
                 "computed again")
      ->type_name("SIZE");
}

ModuleOptions ModelArgs::options() const {
  ModuleOptions out;
  out.device = parse_device(device);
  out.allow_cpu_fallback = allow_cpu_fallback;
  out.plan_only = plan_only;
  out.dtype = dtype == "float64" ? DType::kFloat64 : DType::kFloat32;
  out.precision = precision == "bf16"   ? Precision::kBFloat16
                  : precision == "tf32" ? Precision::kTf32
                                        : Precision::kFloat32;
  out.batch_norm = batch_norm == "graph"    ? BatchNormPolicy::kGraph
                   : batch_norm == "frozen" ? BatchNormPolicy::kFrozen
                                            : BatchNormPolicy::kTrain;
  out.backend = backend == "reference" ? Backend::kReference : Backend::kAuto;
  out.dropout = !no_dropout;
  out.straight_through = straight_through;
  out.seed = seed;
  out.threads = threads;
  out.train_only = train_only;
  out.tie_weights = tie_weights;
  if (!memory_budget.empty()) out.memory_budget = parse_bytes(memory_budget, "--memory-budget");
  return out;
}

Module ModelArgs::load() const {
  const ModuleOptions module_options = options();
  set_threads(threads);
  Module module(path, module_options);
  for (const std::string& warning : module.warnings()) note(warning);
  for (const std::string& pattern : freeze) freeze_matching(module, pattern);
  if (!weights.empty()) module.load(weights);
  return module;
}

TensorMap ModelArgs::fixed_inputs(const Module& module) const {
  TensorMap out;
  for (const std::string& text : fixed) {
    const auto [name, value] = name_and_value(text, "--set");
    const PortInfo* port = nullptr;
    std::string known;
    for (const PortInfo& input : module.inputs()) {
      if (input.name == name) port = &input;
      known += (known.empty() ? "" : ", ") + input.name;
    }
    if (port == nullptr) {
      throw Error(ErrorCode::kUsage,
                  "--set: the model has no input '" + name + "'; its inputs: " + known);
    }
    const std::vector<double> values = value == "true"    ? std::vector<double>{1}
                                       : value == "false" ? std::vector<double>{0}
                                                          : parse_numbers(value, "--set " + name);
    for (const double v : values) {
      if (!is_float(port->dtype) && v != std::rint(v)) {
        throw Error(ErrorCode::kUsage, "--set " + name + ": the input takes " +
                                           std::string(dtype_name(port->dtype)) + ", not '" +
                                           value + "'");
      }
    }
    const bool scalar = values.size() == 1 && port->dims.empty();
    const Shape shape = scalar ? Shape{} : Shape{static_cast<int64_t>(values.size())};
    out[name] = Tensor::from<double>(values, shape).to(port->dtype);
  }
  return out;
}

void DataArgs::add(CLI::App& app, bool synthetic) {
  app.add_option("--data", data,
                 ".npz, .csv, .safetensors, images.idx,labels.idx, or a folder of class folders of "
                 "images")
      ->type_name("DATA");
  app.add_option("--batch", batch, "Samples in a batch, or 'all': every array whole")
      ->type_name("N|all");
  app.add_option("--target-column", target_column,
                 "Of a .csv: name or index; 'none' when it has no target (default: the last)");
  app.add_option("--image-size", image_size, "Size to which images are scaled")->type_name("HxW|N");
  app.add_option("--mean", mean, "Subtracted from images in [0,1]: one number, or one a channel");
  app.add_option("--std", std, "Images are divided by it: one number, or one a channel");
  add_unsupported(app, {"--seq-len"});
  if (!synthetic) return;
  app.add_option("--shape", shapes, "Without --data: shape of an input (repeatable)")
      ->allow_extra_args(false)
      ->type_name("NAME=D,D,…");
  app.add_option("--int-range", int_range,
                 "Without --data: values of integer inputs (default: 0..1)")
      ->type_name("LO..HI");
}

void DataArgs::add_order(CLI::App& app) {
  app.add_option("--augment", augment, "Random changes of images: flip, crop, or both")
      ->type_name("flip,crop");
  app.add_flag("--shuffle,!--no-shuffle", shuffle, "Another order each epoch (the default)");
  app.add_flag("--drop-last", drop_last, "Leave out a last batch that is not full");
}

std::map<std::string, Shape> DataArgs::parsed_shapes() const {
  std::map<std::string, Shape> out;
  for (const std::string& text : shapes) {
    const auto [name, value] = name_and_value(text, "--shape");
    Shape& shape = out[name];
    for (const double dim : parse_numbers(value, "--shape " + name)) {
      if (dim != std::rint(dim) || dim < 0 || dim > 1e15) {
        throw Error(ErrorCode::kUsage,
                    "--shape " + name + ": dims expected, found '" + value + "'");
      }
      shape.push_back(static_cast<int64_t>(dim));
    }
  }
  return out;
}

void TrainArgs::add_loss(CLI::App& app) {
  app.add_option("--loss", losses,
                 "cross_entropy, nll, mse, l1, huber, bce_with_logits, bce, sum, mean (repeatable: "
                 "summed). Default: cross_entropy for integer targets, else mse")
      ->allow_extra_args(false)
      ->type_name("NAME[:OUTPUT][*WEIGHT]");
  app.add_option("--class-axis", class_axis, "Axis of the classes (default: 1 for rank 4 and 5)");
  app.add_option("--label-smoothing", label_smoothing, "Of cross_entropy")
      ->check(CLI::Range(0.0, 1.0));
}

void TrainArgs::add_optimizer(CLI::App& app) {
  app.add_option("--optimizer", optimizer, "sgd, momentum, nesterov, adam, adamw")
      ->type_name("NAME[:key=value,…]")
      ->capture_default_str();
  app.add_option("--lr", lr, "Learning rate");
  app.add_option("--weight-decay", weight_decay, "As in PyTorch");
  app.add_option("--clip-norm", clip_norm, "Largest L2 norm of all gradients together")
      ->check(CLI::PositiveNumber);
  app.add_option("--clip-value", clip_value, "Largest absolute value of a gradient's element")
      ->check(CLI::PositiveNumber);
}

void TrainArgs::add_training(CLI::App& app) {
  app.add_option("--accumulate", accumulate, "Batches per update; gradients are averaged")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--schedule", schedule,
                 "constant, linear, cosine, step, exponential, onecycle; e.g. cosine:warmup=100")
      ->capture_default_str();
  app.add_option("--ema", ema, "Decay of a moving average of the weights, used for --val and --out")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--nan-check", nan_check, "Stop at the first node that gives NaN or infinity");
}

TrainerOptions TrainArgs::options() const {
  TrainerOptions out;
  out.losses = losses;
  out.class_axis = class_axis;
  out.label_smoothing = label_smoothing;
  out.optimizer = optimizer;
  out.lr = lr;
  out.weight_decay = weight_decay;
  out.schedule = schedule;
  out.accumulate = accumulate;
  out.clip_norm = clip_norm;
  out.clip_value = clip_value;
  out.ema = ema;
  out.nan_check = nan_check;
  return out;
}

}  // namespace trainrt::cli
