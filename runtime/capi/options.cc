#include <charconv>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/byte_size.h"
#include "runtime/capi/arguments.h"
#include "runtime/capi/objects.h"
#include "runtime/module/names.h"

namespace trainrt::capi {
namespace {

[[noreturn]] void bad_value(const std::string& key, const std::string& value,
                            const std::string& expected) {
  throw Error(ErrorCode::kUsage,
              "option " + key + ": expected " + expected + ", given '" + value + "'");
}

template <typename T>
T number(const std::string& key, const std::string& value) {
  T parsed{};
  const char* const end = value.data() + value.size();
  const auto [next, error] = std::from_chars(value.data(), end, parsed);
  if (error != std::errc() || next != end) {
    bad_value(key, value, std::integral<T> ? "a whole number" : "a number");
  }
  return parsed;
}

template <typename T>
T one_of(const std::string& key, const std::string& value, const std::map<std::string, T>& known) {
  if (const auto it = known.find(value); it != known.end()) return it->second;
  std::string names;
  for (const auto& [name, unused] : known) names += (names.empty() ? "" : " | ") + name;
  bad_value(key, value, names);
}

bool flag(const std::string& key, const std::string& value) {
  return one_of<bool>(key, value, {{"true", true}, {"false", false}, {"1", true}, {"0", false}});
}

using Text = const std::string&;
template <typename Options>
using Setters = std::map<std::string, std::function<void(Options&, Text key, Text value)>>;

template <typename Options>
void set_option(const Setters<Options>& setters, Options& options, Text key, Text value) {
  if (const auto it = setters.find(key); it != setters.end())
    return it->second(options, key, value);
  std::vector<std::string> names;
  for (const auto& [name, unused] : setters) names.push_back(name);
  throw Error(ErrorCode::kUsage, "there is no option '" + key + "'; the nearest is '" +
                                     nearest_name(key, names) + "'");
}

const Setters<ModuleOptions>& module_setters() {
  using O = ModuleOptions;
  static const Setters<O> kSetters = {
      {"dtype",
       [](O& o, Text k, Text v) {
         o.dtype =
             one_of<DType>(k, v, {{"float32", DType::kFloat32}, {"float64", DType::kFloat64}});
       }},
      {"precision",
       [](O& o, Text k, Text v) {
         o.precision = one_of<Precision>(
             k, v, {{"f32", Precision::kFloat32}, {"bf16", Precision::kBFloat16}});
       }},
      {"batch_norm",
       [](O& o, Text k, Text v) {
         o.batch_norm = one_of<BatchNormPolicy>(k, v,
                                                {{"train", BatchNormPolicy::kTrain},
                                                 {"graph", BatchNormPolicy::kGraph},
                                                 {"frozen", BatchNormPolicy::kFrozen}});
       }},
      {"backend",
       [](O& o, Text k, Text v) {
         o.backend =
             one_of<Backend>(k, v, {{"auto", Backend::kAuto}, {"reference", Backend::kReference}});
       }},
      {"dropout", [](O& o, Text k, Text v) { o.dropout = flag(k, v); }},
      {"straight_through", [](O& o, Text k, Text v) { o.straight_through = flag(k, v); }},
      {"tie_weights", [](O& o, Text k, Text v) { o.tie_weights = flag(k, v); }},
      {"seed", [](O& o, Text k, Text v) { o.seed = number<uint64_t>(k, v); }},
      {"threads", [](O& o, Text k, Text v) { o.threads = number<int>(k, v); }},
      {"memory_budget",
       [](O& o, Text k, Text v) {
         o.memory_budget = v == "0" ? 0 : parse_bytes(v, "option " + k);
       }},
      {"plan_cache", [](O& o, Text k, Text v) { o.plan_cache = number<size_t>(k, v); }},
      {"freeze", [](O& o, Text, Text v) { o.freeze.push_back(v); }},
      {"train_only", [](O& o, Text, Text v) { o.train_only.push_back(v); }},
  };
  return kSetters;
}

const Setters<TrainerOptionsObject>& trainer_setters() {
  using O = TrainerOptionsObject;
  static const Setters<O> kSetters = {
      {"loss",
       [](O& o, Text, Text v) {
         if (!o.has_losses) o.options.losses.clear();
         o.has_losses = true;
         o.options.losses.push_back(v);
       }},
      {"class_axis", [](O& o, Text k, Text v) { o.options.class_axis = number<int64_t>(k, v); }},
      {"label_smoothing",
       [](O& o, Text k, Text v) { o.options.label_smoothing = number<double>(k, v); }},
      {"optimizer", [](O& o, Text, Text v) { o.options.optimizer = v; }},
      {"lr", [](O& o, Text k, Text v) { o.options.lr = number<double>(k, v); }},
      {"weight_decay", [](O& o, Text k, Text v) { o.options.weight_decay = number<double>(k, v); }},
      {"schedule", [](O& o, Text, Text v) { o.options.schedule = v; }},
      {"total_steps", [](O& o, Text k, Text v) { o.options.total_steps = number<int64_t>(k, v); }},
      {"accumulate", [](O& o, Text k, Text v) { o.options.accumulate = number<int64_t>(k, v); }},
      {"clip_norm", [](O& o, Text k, Text v) { o.options.clip_norm = number<double>(k, v); }},
      {"clip_value", [](O& o, Text k, Text v) { o.options.clip_value = number<double>(k, v); }},
      {"ema", [](O& o, Text k, Text v) { o.options.ema = number<double>(k, v); }},
      {"nan_check", [](O& o, Text k, Text v) { o.options.nan_check = flag(k, v); }},
  };
  return kSetters;
}

}  // namespace
}  // namespace trainrt::capi

using namespace trainrt::capi;  // NOLINT: the functions below are its face

trainrt_status trainrt_options_create(trainrt_options** options) {
  return guarded([&] {
    clear_result(options, "options");
    give(options, std::make_shared<OptionsObject>());
  });
}

trainrt_status trainrt_options_set(trainrt_options* options, const char* key, const char* value) {
  return guarded([&] {
    const auto o = use<OptionsObject>(options);
    set_option(module_setters(), o->options, text_argument(key, "key"),
               text_argument(value, "value"));
  });
}

trainrt_status trainrt_options_free(trainrt_options* options) {
  return free_handle<OptionsObject>(options);
}

trainrt_status trainrt_trainer_options_create(trainrt_trainer_options** options) {
  return guarded([&] {
    clear_result(options, "options");
    give(options, std::make_shared<TrainerOptionsObject>());
  });
}

trainrt_status trainrt_trainer_options_set(trainrt_trainer_options* options, const char* key,
                                           const char* value) {
  return guarded([&] {
    const auto o = use<TrainerOptionsObject>(options);
    set_option(trainer_setters(), *o, text_argument(key, "key"), text_argument(value, "value"));
  });
}

trainrt_status trainrt_trainer_options_set_input(trainrt_trainer_options* options,
                                                 const trainrt_array* input) {
  return guarded([&] {
    const auto o = use<TrainerOptionsObject>(options);
    check_pointer(input, "input");
    const auto [name, tensor] = array_argument(*input);
    o->options.static_inputs[name] = tensor.clone();
  });
}

trainrt_status trainrt_trainer_options_free(trainrt_trainer_options* options) {
  return free_handle<TrainerOptionsObject>(options);
}
