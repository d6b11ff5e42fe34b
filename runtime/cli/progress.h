// How `run` tells where it is: a bar on a terminal, a line an epoch when piped, JSON lines.
#ifndef TRAINRT_RUNTIME_CLI_PROGRESS_H_
#define TRAINRT_RUNTIME_CLI_PROGRESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace trainrt::cli {

struct StartInfo {
  int64_t parameters = 0, trainable = 0, arena_bytes = 0;
  int64_t recomputed_values = 0, recomputed_bytes = 0, recomputed_flops = 0;
  double plan_ms = 0;
  int64_t first_step = 0;   // steps done before (resumed runs)
  int64_t total_steps = 0;  // of the whole run
  int64_t epochs = 0;       // 0: the run is counted in steps
  int64_t batches = 0;      // in an epoch
};

struct StepInfo {
  int64_t step = 0, epoch = 0, batch = 0;  // from 1
  double loss = 0, lr = 0, samples_per_s = 0;
};

struct EpochInfo {
  int64_t epoch = 0, step = 0;
  double loss = 0, samples_per_s = 0, seconds = 0;
  std::optional<double> val_loss, val_accuracy;
  std::map<std::string, double> metrics;  // others, of the validation data
};

struct DoneInfo {
  int64_t steps = 0;
  double loss = 0, seconds = 0;
  bool interrupted = false;
};

class Progress {
 public:
  virtual ~Progress() = default;
  virtual void start(const StartInfo& info) = 0;
  /// Every step; what is printed is the implementation's choice.
  virtual void step(const StepInfo& info) = 0;
  virtual void epoch(const EpochInfo& info) = 0;
  virtual void done(const DoneInfo& info) = 0;
};

/// `log_every`: JSON prints step 1 and every so many.
std::unique_ptr<Progress> make_progress(bool json, int64_t log_every);

/// "[=====>    ]" of the given width.
std::string bar(double share, int width);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_PROGRESS_H_
