// Learning rate over the steps of a run.
#ifndef TRAINRT_RUNTIME_TRAIN_LR_SCHEDULE_H_
#define TRAINRT_RUNTIME_TRAIN_LR_SCHEDULE_H_

#include <cstdint>
#include <string>

namespace trainrt {

enum class ScheduleKind : uint8_t { kConstant, kLinear, kCosine, kStep, kExponential, kOneCycle };

/// Factor of the base rate at update s (from 0), after `warmup` updates that rise linearly,
/// (s + 1) / warmup. With t = (s - warmup) / (total - warmup), held to [0, 1]:
///   constant     1
///   linear       1 - t (1 - end)
///   cosine       end + (1 - end) (1 + cos(pi t)) / 2
///   step         gamma ^ floor((s - warmup) / size)
///   exponential  gamma ^ ((s - warmup) / size)
///   onecycle     PyTorch's OneCycleLR (cosine): from 1/div up to 1 in the first `pct` of the run,
///   then
///                down to 1/(div final_div)
struct LrSchedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup = 0;
  int64_t total = 0;
  double end = 0;      // linear, cosine
  double gamma = 0.1;  // step; exponential: 0.999
  int64_t size = 0;    // step: a third of the run; exponential: 1
  double pct = 0.3, div = 25, final_div = 1e4;

  double factor(int64_t update) const;
};

/// `constant|linear|cosine|step|exponential|onecycle[:key=value,…]` with keys warmup (updates, or a
/// share of the run when it has a decimal point), total, end, gamma, size, pct, div, final_div.
/// Throws Error(kUsage) naming what is unknown or missing.
LrSchedule parse_schedule(const std::string& text, int64_t total_steps);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_LR_SCHEDULE_H_
