// Reverse-mode differentiation: appends the backward section to a graph.
#ifndef TRAINRT_AUTODIFF_AUTODIFF_H_
#define TRAINRT_AUTODIFF_AUTODIFF_H_

#include <span>
#include <vector>

#include "graph/builder.h"
#include "trainrt/error.h"

namespace trainrt {

/// A value with the gradient that flows into it (same shape and dtype).
struct Seed {
  Var value;
  Var gradient;
};

/// Gradients of sum over seeds of <value, gradient> with respect to each value of `wrt`, built with
/// `builder` in section kBackward (restored afterwards). An absent Var means that no differentiable
/// path leads from that value to a seed. Only what `wrt` needs is built. A node on a needed path
/// whose op has no rule is added to `problems` (kind "no_gradient"); the result is then incomplete.
std::vector<Var> differentiate(Builder& builder, std::span<const Seed> seeds,
                               std::span<const Var> wrt, Diagnostics& problems);

/// For each value of `wrt`: does a differentiable path lead from it to one of `outputs`?
std::vector<bool> depends_differentiably(const Graph& graph, std::span<const ValueId> outputs,
                                         std::span<const ValueId> wrt);

}  // namespace trainrt

#endif  // TRAINRT_AUTODIFF_AUTODIFF_H_
