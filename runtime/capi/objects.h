// What the handles of the C API stand for.
#ifndef TRAINRT_RUNTIME_CAPI_OBJECTS_H_
#define TRAINRT_RUNTIME_CAPI_OBJECTS_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capi/handles.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt::capi {

struct OptionsObject : Object {
  using Handle = trainrt_options;
  static constexpr char kType[] = "trainrt_options";
  OptionsObject() : Object(kType) {}
  ModuleOptions options;
};

struct TrainerOptionsObject : Object {
  using Handle = trainrt_trainer_options;
  static constexpr char kType[] = "trainrt_trainer_options";
  TrainerOptionsObject() : Object(kType) {}
  TrainerOptions options;
  bool has_losses = false;  // the default was replaced
};

struct ArraysObject : Object {
  using Handle = trainrt_arrays;
  static constexpr char kType[] = "trainrt_arrays";
  explicit ArraysObject(std::vector<std::pair<std::string, Tensor>> arrays)
      : Object(kType), arrays(std::move(arrays)) {}
  const std::vector<std::pair<std::string, Tensor>> arrays;
};

struct ProblemsObject : Object {
  using Handle = trainrt_problems;
  static constexpr char kType[] = "trainrt_problems";
  explicit ProblemsObject(std::vector<Problem> problems)
      : Object(kType), problems(std::move(problems)) {}
  const ProblemList problems;
};

struct EvaluationObject : Object {
  using Handle = trainrt_evaluation;
  static constexpr char kType[] = "trainrt_evaluation";
  EvaluationObject() : Object(kType) {}
  double loss_sum = 0;  // over samples
  int64_t samples = 0;
  MetricSums metrics;
};

struct ModuleObject : Object {
  using Handle = trainrt_module;
  static constexpr char kType[] = "trainrt_module";
  explicit ModuleObject(Module given)
      : Object(kType),
        module(std::move(given)),
        parameters(module.parameters()),
        state(module.state_dict()) {}
  Module module;
  // What pointers given to the caller point into.
  const std::vector<Parameter> parameters;
  const StateDict state;
};

struct TrainerObject : Object {
  using Handle = trainrt_trainer;
  static constexpr char kType[] = "trainrt_trainer";
  TrainerObject(const ModuleObject& module, const TrainerOptions& options)
      : Object(kType, module.mutex), trainer(module.module, options) {}
  Trainer trainer;
};

}  // namespace trainrt::capi

#endif  // TRAINRT_RUNTIME_CAPI_OBJECTS_H_
