// Loops written with the facade and fused steps with param groups against Trainer: the same bits.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

constexpr int kUpdates = 6;

struct Model {
  std::string name;
  std::vector<std::string> losses = {"cross_entropy"};
};

const std::vector<Model> kModels = {
    {"mlp"},
    {"resnet_op17"},
    {"gpt_script"},
    {"lstm"},
    {"two_outputs", {"cross_entropy:classes*0.75", "mse:value*0.25"}},
    {"gpt_dynamo"},
    {"bert_script"},
    {"mobilenet_eval"},
    {"gru"},
};

struct Recipe {
  std::string optimizer;
  std::optional<double> clip_norm, clip_value, ema;
  std::string schedule = "constant";
  int64_t accumulate = 1;
};

const std::vector<Recipe> kRecipes = {
    {"sgd:lr=0.05", {}, {}, {}},
    {"sgd:lr=0.05,weight_decay=0.01", 0.1, {}, {}, "linear"},
    {"momentum:lr=0.02,momentum=0.8,weight_decay=0.01", {}, 0.003, {}, "onecycle", 3},
    {"nesterov:lr=0.02", 0.2, {}, 0.9},
    {"adam:lr=2e-3,weight_decay=0.01", 0.05, 0.01, {}, "cosine:warmup=2", 2},
    {"adamw:lr=2e-3,weight_decay=0.1", 0.1, {}, 0.75, "cosine", 3},
};

/// The batch of the model's file, other numbers at each call.
TensorMap batch_of(const TensorMap& arrays, int call) {
  TensorMap batch;
  for (const auto& [name, array] : arrays) {
    if (name.starts_with("target")) batch[name] = array;
    if (!name.starts_with("in/")) continue;
    Tensor value = array.clone();
    with_float_type(value.dtype(), [&](auto sample) {
      using T = decltype(sample);
      for (T& v : value.data<T>()) v *= static_cast<T>(1 + 0.1 * call);
    });
    batch[name.substr(3)] = value;
  }
  return batch;
}

struct Result {
  std::vector<double> losses, rates;
  StateDict state;
};

void add_state(const Module& module, const std::string& prefix, Result& result) {
  for (const auto& [name, tensor] : module.state_dict()) {
    result.state.emplace_back(prefix + name, tensor.clone());
  }
}

void check_same(const Result& got, const Result& want) {
  CHECK(got.losses == want.losses);
  CHECK(got.rates == want.rates);
  REQUIRE(got.state.size() == want.state.size());
  for (size_t i = 0; i < want.state.size(); ++i) {
    INFO(want.state[i].first);
    const Tensor &a = got.state[i].second, &b = want.state[i].second;
    CHECK(std::memcmp(a.raw(), b.raw(), b.bytes()) == 0);
  }
}

Module load(const Model& model, const ModuleOptions& options) {
  return Module("tests/models/" + model.name + ".onnx", options);
}

Result with_trainer(const Model& model, const Recipe& recipe, const ModuleOptions& options,
                    const TensorMap& arrays) {
  const Module module = load(model, options);
  TrainerOptions trained;
  trained.losses = model.losses;
  trained.optimizer = recipe.optimizer;
  trained.clip_norm = recipe.clip_norm;
  trained.clip_value = recipe.clip_value;
  trained.ema = recipe.ema;
  trained.schedule = recipe.schedule;
  trained.total_steps = kUpdates;
  trained.accumulate = recipe.accumulate;
  Trainer trainer(module, trained);
  Result result;
  for (int call = 0; call < kUpdates * recipe.accumulate; ++call) {
    const StepResult step = trainer.step(batch_of(arrays, call));
    result.losses.push_back(step.loss);
    if (step.updated) result.rates.push_back(step.lr);
  }
  add_state(module, "", result);
  if (recipe.ema) {
    trainer.swap_ema();
    add_state(module, "average of ", result);
  }
  return result;
}

/// Weights with decay and those without, as everybody groups them; here with the same settings.
std::vector<ParamGroup> groups_of(const Module& module) {
  std::vector<ParamGroup> groups(2);
  for (const Parameter& p : module.parameters()) groups[p.shape().size() > 1].params.push_back(p);
  return groups;
}

Result with_loop(const Model& model, const Recipe& recipe, const ModuleOptions& options,
                 const TensorMap& arrays, bool grouped) {
  Module module = load(model, options);
  module.attach_loss(model.losses);
  Optimizer optimizer = grouped ? Optimizer(module, recipe.optimizer, groups_of(module))
                                : Optimizer(module, recipe.optimizer);
  LRScheduler scheduler(optimizer, recipe.schedule, kUpdates);
  std::optional<ExponentialMovingAverage> averages;
  if (recipe.ema) averages.emplace(module, *recipe.ema);
  const std::vector<Parameter> params = module.parameters();
  Result result;
  for (int call = 0; call < kUpdates * recipe.accumulate; ++call) {
    result.losses.push_back(module.forward(batch_of(arrays, call))["loss"].item());
    module.backward();
    if ((call + 1) % recipe.accumulate != 0) continue;
    if (recipe.accumulate > 1) scale_grad_(params, 1.0 / static_cast<double>(recipe.accumulate));
    if (recipe.clip_value) clip_grad_value_(params, *recipe.clip_value);
    if (recipe.clip_norm) clip_grad_norm_(params, *recipe.clip_norm);
    optimizer.step();
    optimizer.zero_grad();
    if (averages) averages->update();
    result.rates.push_back(scheduler.get_last_lr()[0]);
    scheduler.step();
  }
  add_state(module, "", result);
  if (averages) {
    averages->swap();
    add_state(module, "average of ", result);
  }
  return result;
}

Result with_train_step(const Model& model, const Recipe& recipe, const ModuleOptions& options,
                       const TensorMap& arrays) {
  Module module = load(model, options);
  module.attach_loss(model.losses);
  Optimizer optimizer(module, recipe.optimizer, groups_of(module));
  LRScheduler scheduler(optimizer, recipe.schedule, kUpdates);
  std::optional<ExponentialMovingAverage> averages;
  if (recipe.ema) averages.emplace(module, *recipe.ema);
  Result result;
  for (int call = 0; call < kUpdates; ++call) {
    const StepResult step = train_step(module, optimizer, batch_of(arrays, call),
                                       {recipe.clip_norm, recipe.clip_value});
    CHECK(step.step == call + 1);
    result.losses.push_back(step.loss);
    result.rates.push_back(step.lr);
    if (averages) averages->update();
    scheduler.step();
  }
  add_state(module, "", result);
  if (averages) {
    averages->swap();
    add_state(module, "average of ", result);
  }
  return result;
}

void check_recipe(const Model& model, Recipe recipe, const ModuleOptions& options) {
  INFO(model.name << ", " << recipe.optimizer);
  const TensorMap arrays = load_npz("tests/models/" + model.name + ".npz");
  const Result want = with_trainer(model, recipe, options, arrays);
  {
    INFO("a loop with one group");
    check_same(with_loop(model, recipe, options, arrays, false), want);
  }
  {
    INFO("a loop with two groups");
    check_same(with_loop(model, recipe, options, arrays, true), want);
  }
  recipe.accumulate = 1;
  INFO("train_step");
  check_same(with_train_step(model, recipe, options, arrays),
             with_trainer(model, recipe, options, arrays));
}

TEST_CASE("float32: a loop, train_step and Trainer give the same bits") {
  const Model model = GENERATE(from_range(kModels));
  const Recipe recipe = GENERATE(from_range(kRecipes));
  check_recipe(model, recipe, {});
}

TEST_CASE("bfloat16 products: a loop, train_step and Trainer give the same bits") {
  if (!cpu_runs_bf16()) SKIP("this processor has no bfloat16 products");
  const Model model = GENERATE(from_range(kModels));
  ModuleOptions options;
  options.precision = Precision::kBFloat16;
  check_recipe(model, kRecipes.back(), options);
}

TEST_CASE("reference kernels: a loop, train_step and Trainer give the same bits") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  const Recipe recipe = GENERATE(from_range(kRecipes));
  ModuleOptions options;
  options.dtype = dtype;
  options.backend = Backend::kReference;
  check_recipe(kModels[0], recipe, options);
}

}  // namespace
}  // namespace trainrt
