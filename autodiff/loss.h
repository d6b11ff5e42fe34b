// Losses as graphs.
#ifndef TRAINRT_AUTODIFF_LOSS_H_
#define TRAINRT_AUTODIFF_LOSS_H_

#include <optional>
#include <string>

#include "graph/builder.h"

namespace trainrt {

enum class LossKind : uint8_t {
  kCrossEntropy,
  kNll,
  kMse,
  kL1,
  kHuber,
  kBceWithLogits,
  kBce,
  kSum,
  kMean
};

/// One term of the loss: `NAME[:OUTPUT][*WEIGHT]`.
struct LossSpec {
  LossKind kind = LossKind::kCrossEntropy;
  std::string output;  // empty: the first float output (sum and mean: all float outputs)
  double weight = 1.0;
  std::optional<int64_t> class_axis;  // default: 1 for rank 4 and 5, else the last
  double label_smoothing = 0;
};

/// Throws Error(kUsage) naming the text and the known losses.
LossSpec parse_loss(const std::string& text);
std::string_view loss_name(LossKind kind);
/// Whether the loss compares with a target (sum and mean do not).
bool needs_target(LossKind kind);
/// Class ids (int64), or values of the output's dtype.
bool target_is_class_ids(LossKind kind);
/// Type of the target that goes with an output: class ids without the class axis, or the output's
/// own type.
TensorType target_type(const LossSpec& spec, const TensorType& output);

/// Scalar of the output's dtype, the mean over all elements that count, times the weight. A target
/// shape that does not fit throws Error(kInput) naming both shapes ("5 rows of y, 4 targets").
/// bce holds logarithms at -100 or above, as PyTorch does. A mean over nothing (all class ids -100,
/// an empty output) is NaN, as there.
Var build_loss(const LossSpec& spec, Var output, Var target);

}  // namespace trainrt

#endif  // TRAINRT_AUTODIFF_LOSS_H_
