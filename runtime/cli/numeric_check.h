// Gradients against central differences.
#ifndef TRAINRT_RUNTIME_CLI_NUMERIC_CHECK_H_
#define TRAINRT_RUNTIME_CLI_NUMERIC_CHECK_H_

#include <string>
#include <vector>

#include "trainrt/trainer.h"

namespace trainrt::cli {

struct NumericOptions {
  double tolerance = 1e-5;
  int directions = 2;
  uint64_t seed = 0;
};

/// For one direction u: <gradient, u> and (f(x + hu) - f(x - hu)) / 2h.
struct DirectionCheck {
  std::string name;
  double analytic = 0, numeric = 0;
  double error = 0;  // relative to the larger of both, or to a thousandth of the largest seen
  bool ok = true;
};

/// The result's loss, or sum(dy * output) for a result of output gradients.
double loss_value(const GradResult& result, const TensorMap& batch);

/// Every parameter and (with input_grads) every float input of a float64 module. Of several step
/// widths the best counts: near a kink only a short step stays on one side. Parameters are
/// restored.
std::vector<DirectionCheck> check_numerically(const Module& module, Trainer& trainer,
                                              const TensorMap& batch, const GradOptions& options,
                                              const NumericOptions& check);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_NUMERIC_CHECK_H_
