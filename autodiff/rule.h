// How a gradient rule looks: one op, one function, one row.
#ifndef TRAINRT_AUTODIFF_RULE_H_
#define TRAINRT_AUTODIFF_RULE_H_

#include <span>
#include <vector>

#include "graph/builder.h"

namespace trainrt {

/// A node under differentiation.
class GradArgs {
 public:
  GradArgs(Builder& builder, const Node& node, std::span<const Var> inputs,
           std::span<const Var> outputs, std::span<const Var> output_gradients,
           std::vector<bool> needed)
      : builder_(builder),
        node_(node),
        inputs_(inputs),
        outputs_(outputs),
        gradients_(output_gradients),
        needed_(std::move(needed)) {}

  Builder& builder() const { return builder_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  Var x(size_t i = 0) const { return inputs_[i]; }
  Var y(size_t i = 0) const { return outputs_[i]; }
  /// Gradient of output i; absent when nothing flows into it (dy(0) of a one-output op is present).
  Var dy(size_t i = 0) const { return gradients_[i]; }
  /// Whether anyone asks for the gradient of input i; a rule may skip the others (return absent).
  bool needs(size_t i) const { return needed_[i]; }
  /// formula() when somebody asks for the gradient of input i, else absent.
  template <typename F>
  Var want(size_t i, F formula) const {
    return needs(i) ? formula() : Var();
  }
  template <typename T>
  const T& attr() const {
    return std::get<T>(node_.attrs);
  }

 private:
  Builder& builder_;
  const Node& node_;
  std::span<const Var> inputs_, outputs_, gradients_;
  std::vector<bool> needed_;
};

/// Gradient per input. Trailing ones may be left out. A gradient may have the broadcast shape of an
/// elementwise node: the engine reduces it to the input's shape and sums over fan-out.
using Grads = std::vector<Var>;
using GradRule = Grads (*)(const GradArgs&);

enum class GradKind : uint8_t {
  kRule,
  kNone,         // piecewise constant or integer: the gradient is zero, and that is stated
  kUnsupported,  // differentiable, but no rule (second derivatives): refused by name
};

struct GradRow {
  Op op;
  GradRule rule = nullptr;
  GradKind kind = GradKind::kRule;
  uint32_t no_gradient_inputs = 0;  // bit i: input i never gets a gradient (indices, conditions)
  /// Where only some nodes of the op have a gradient: whether this one has. Null: all have.
  bool (*has_gradient)(const Node&) = nullptr;
};

/// The row of an op; every op has one (a test holds this).
const GradRow& grad_row(Op op);

// One list per family, in autodiff/rules/.
std::span<const GradRow> elementwise_rules();
std::span<const GradRow> shape_rules();
std::span<const GradRow> reduction_rules();
std::span<const GradRow> linear_rules();  // MatMul, convolutions, pools, Interpolate
std::span<const GradRow> norm_rules();    // normalisations, softmax, losses
std::span<const GradRow> recurrent_rules();
std::span<const GradRow> other_rules();  // sources, random, state

}  // namespace trainrt

#endif  // TRAINRT_AUTODIFF_RULE_H_
