// Options that several commands share.
#ifndef TRAINRT_RUNTIME_CLI_ARGUMENTS_H_
#define TRAINRT_RUNTIME_CLI_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trainrt::cli {

/// The model and how it is computed.
struct ModelArgs {
  std::string path;
  std::string dtype = "float32", backend = "auto";
  std::string batch_norm;  // empty: the command's default, train
  std::string precision = "f32", device = "cpu";
  bool no_dropout = false, straight_through = false, json = false, tie_weights = false;
  bool allow_cpu_fallback = false;
  bool plan_only = false;  // of the command, not an option: nothing will run
  uint64_t seed = 0;
  int threads = 0;
  std::vector<std::string> freeze, train_only;
  std::vector<std::string> fixed;  // --set name=value
  std::string weights;             // a checkpoint to start from
  std::string memory_budget;       // "2GiB"; empty: none
  CLI::Option* seed_option = nullptr;

  void add(CLI::App& app);
  ModuleOptions options() const;
  /// Reads the file, then the weights, and freezes parameters; remarks go to stderr.
  Module load() const;
  /// The values of --set in the declared types of the inputs. Throws Error(kUsage).
  TensorMap fixed_inputs(const Module& module) const;
};

/// Where batches come from.
struct DataArgs {
  std::string data;
  std::string batch;  // a number, "all", or empty: the command's default
  std::vector<std::string> shapes;
  std::string int_range;  // empty: 0 or 1, and 1 for a lone integer
  std::string target_column, image_size, mean, std, augment;
  bool shuffle = true, drop_last = false;

  /// `synthetic`: the command makes up data when none is given.
  void add(CLI::App& app, bool synthetic);
  void add_order(CLI::App& app);
  std::map<std::string, Shape> parsed_shapes() const;
};

/// Loss and optimizer.
struct TrainArgs {
  std::vector<std::string> losses;
  std::optional<int64_t> class_axis;
  double label_smoothing = 0;
  std::string optimizer = "sgd", schedule = "constant";
  std::optional<double> lr, weight_decay, clip_norm, clip_value, ema;
  int64_t accumulate = 1;
  bool nan_check = false;

  void add_loss(CLI::App& app);
  void add_optimizer(CLI::App& app);
  void add_training(CLI::App& app);
  TrainerOptions options() const;
};

/// Options of the contract that this version does not have: using one is an error that says so.
void add_unsupported(CLI::App& app, std::initializer_list<const char*> names);

/// "1,2,3" to numbers; throws Error(kUsage) naming `option`.
std::vector<double> parse_numbers(const std::string& text, const std::string& option);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_ARGUMENTS_H_
