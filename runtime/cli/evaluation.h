// Loss and metrics over a whole dataset.
#ifndef TRAINRT_RUNTIME_CLI_EVALUATION_H_
#define TRAINRT_RUNTIME_CLI_EVALUATION_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/cli/batch_source.h"
#include "trainrt/trainer.h"

namespace trainrt::cli {

struct Evaluation {
  double loss = 0;  // mean over samples
  int64_t samples = 0;
  MetricSums metrics;
};

/// In eval mode. `on_batch`, when given, sees each result.
Evaluation evaluate_all(Trainer& trainer, BatchSource& source,
                        const std::function<void(TensorMap*)>& adjust,
                        const std::function<void(const EvalResult&)>& on_batch = {});

/// "accuracy,top5" to names; throws Error(kUsage) for unknown ones.
std::vector<std::string> parse_metrics(const std::string& text);

/// Appends the outputs of one batch after another along the first axis.
class OutputCollector {
 public:
  /// `samples`: length of the batch's first axis.
  void add(const Outputs& outputs, int64_t samples);
  /// Throws Error(kRuntime) when an output of several batches has no first axis of samples.
  std::vector<std::pair<std::string, Tensor>> take();

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<Tensor>> parts_;
  std::vector<bool> by_sample_;
};

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_EVALUATION_H_
