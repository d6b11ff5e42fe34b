// Optimizers as graphs.
#ifndef TRAINRT_AUTODIFF_OPTIMIZER_H_
#define TRAINRT_AUTODIFF_OPTIMIZER_H_

#include <string>
#include <vector>

#include "graph/builder.h"

namespace trainrt {

/// `NAME[:key=value,…]` with PyTorch's defaults; throws Error(kUsage) naming what is unknown. The
/// key `lr` sets *lr when given.
OptimizerAttrs parse_optimizer(const std::string& text, double* lr);
std::string_view optimizer_name(OptimizerKind kind);
/// PyTorch's default learning rate (sgd and relatives: 1e-2 here, PyTorch has none; adam: 1e-3).
double default_learning_rate(OptimizerKind kind);
/// PyTorch's default weight decay: 1e-2 for adamw, else 0.
double default_weight_decay(OptimizerKind kind);

/// A key that an optimizer takes: where its value goes, and what it may be.
struct OptimizerKey {
  std::string_view name;
  double* value;
  double below;  // values lie in [0, below)

  bool takes(double v) const { return v >= 0 && v < below; }
  std::string rule() const;  // "a number of 0 or more and below 1"
};

/// The keys of attrs.kind, in a stable order; `lr` comes first.
std::vector<OptimizerKey> optimizer_keys(OptimizerAttrs& attrs, double* lr);

struct UpdateTarget {
  std::string name;  // of the parameter
  Var parameter;     // Input node, role kParameter
  Var gradient;
};

/// Appends one OptimizerUpdate per target in section kUpdate, with Input nodes for the slots (role
/// kOptimizerState, named "SLOT/PARAMETER", e.g. "exp_avg/fc.weight") and kState outputs. `hyper`
/// is float64[2] (see optimizer_slots), `scale` multiplies every gradient (clipping): absent
/// means 1.
void add_updates(Builder& builder, const OptimizerAttrs& attrs, std::vector<UpdateTarget> targets,
                 Var hyper, Var scale);

/// The global L2 norm of the gradients, as a scalar of their dtype. Absent when there are none.
Var global_norm(Builder& builder, std::span<const Var> gradients);

/// min(1, max_norm / (norm + 1e-6)) with the global L2 norm of the gradients, as a scalar of the
/// gradients' dtype (torch.nn.utils.clip_grad_norm_). Absent when there are no gradients.
Var clip_scale(Builder& builder, std::span<const Var> gradients, double max_norm);

}  // namespace trainrt

#endif  // TRAINRT_AUTODIFF_OPTIMIZER_H_
