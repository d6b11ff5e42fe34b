// Losses that a program builds from formulas.
#ifndef TRAINRT_LOSS_H_
#define TRAINRT_LOSS_H_

#include <functional>
#include <string>

#include "trainrt/expr.h"

namespace trainrt {

/// What a loss function sees while the graph of a step is built.
class LossGraph {
 public:
  virtual ~LossGraph() = default;
  /// An output of the model; throws Error(kUsage) naming those there.
  virtual Expr output(const std::string& name) const = 0;
  virtual Expr output(size_t index) const = 0;
  /// What the batch gives as "target/NAME" (or as "target", for NAME ""), in its shape. Floats come
  /// in the working type, integers as int64. Throws Error(kInput) when the batch does not have it.
  virtual Expr target(const std::string& name = "") const = 0;
  virtual bool has_target(const std::string& name = "") const = 0;
};

/// Returns the loss: one floating number.
using LossFunction = std::function<Expr(const LossGraph&)>;

}  // namespace trainrt

#endif  // TRAINRT_LOSS_H_
