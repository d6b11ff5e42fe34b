// Appends typed nodes to a graph: used by the frontend's lowerings, the gradient rules and passes.
#ifndef TRAINRT_GRAPH_BUILDER_H_
#define TRAINRT_GRAPH_BUILDER_H_

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace trainrt {

class Builder;

/// Computes a node from constant inputs; the reference kernels provide one
/// (kernels/reference/evaluate.h). Output types are those that infer_types gave.
using Evaluator =
    std::function<std::vector<Tensor>(Op op, const Attrs& attrs, std::span<const Tensor> inputs,
                                      std::span<const TensorType> outputs)>;

/// A value together with the builder that made it, so that formulas read as formulas. Cheap to
/// copy; valid as long as the builder lives. A default Var means "absent".
class Var {
 public:
  Var() = default;
  Var(Builder* builder, ValueId id) : builder_(builder), id_(id) {}

  explicit operator bool() const { return builder_ != nullptr; }
  ValueId id() const { return id_; }
  Builder& builder() const { return *builder_; }
  const Builder* builder_ptr() const { return builder_; }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  int64_t dim(int64_t axis) const { return shape()[static_cast<size_t>(axis)]; }
  int64_t rank() const { return type().rank(); }
  DType dtype() const { return type().dtype; }

 private:
  Builder* builder_ = nullptr;
  ValueId id_;
};

/// Infers types, folds nodes whose inputs are all constant (when an evaluator is given and the
/// result is not larger than kFoldLimit bytes) and reuses equal nodes that were added before.
/// Random and state ops are never folded or reused. Throws what infer_types throws.
class Builder {
 public:
  static constexpr size_t kFoldLimit = size_t{64} << 20;

  explicit Builder(Graph& graph, Evaluator evaluator = {});

  Graph& graph() { return graph_; }
  /// Section and origin of the nodes added from now on.
  void set_section(Section section) { section_ = section; }
  Section section() const { return section_; }
  void set_source(int32_t source) { source_ = source; }
  int32_t source() const { return source_; }

  Var wrap(ValueId id) { return Var(this, id); }
  /// Adds a node; all of its outputs.
  std::vector<Var> add_all(Op op, std::span<const Var> inputs, Attrs attrs = {});
  /// Adds a node; its first output.
  Var add(Op op, std::initializer_list<Var> inputs, Attrs attrs = {});

  Var input(InputAttrs attrs);
  Var constant(Tensor value);
  /// Rank 0 unless a shape is given.
  Var fill(DType dtype, double value, Shape shape = {});

  /// The value when it is known: a Constant, or a Fill not larger than kFoldLimit.
  std::optional<Tensor> constant_value(Var v) const;
  bool is_constant(Var v) const;

 private:
  Var add_constant(Tensor value);

  Graph& graph_;
  Evaluator evaluator_;
  Section section_ = Section::kForward;
  int32_t source_ = -1;
  std::unordered_multimap<size_t, NodeId> seen_;
};

// Formulas. A double operand takes the other operand's dtype. Axes may be negative here.
Var operator+(Var a, Var b);
Var operator-(Var a, Var b);
Var operator*(Var a, Var b);
Var operator/(Var a, Var b);
Var operator-(Var a);
Var operator+(Var a, double b);
Var operator+(double a, Var b);
Var operator-(Var a, double b);
Var operator-(double a, Var b);
Var operator*(Var a, double b);
Var operator*(double a, Var b);
Var operator/(Var a, double b);
Var operator/(double a, Var b);

Var unary(Op op, Var x);
Var binary(Op op, Var a, Var b);
Var exp(Var x);
Var log(Var x);
Var sqrt(Var x);
Var square(Var x);
Var tanh(Var x);
Var sigmoid(Var x);
Var erf(Var x);
Var abs(Var x);
Var sign(Var x);
Var relu(Var x);
Var reciprocal(Var x);
Var pow(Var a, Var b);
Var pow(Var a, double b);
Var maximum(Var a, Var b);
Var minimum(Var a, Var b);
Var clip(Var x, double lo, double hi);
Var equal(Var a, Var b);
Var less(Var a, Var b);
Var less_equal(Var a, Var b);
Var greater(Var a, Var b);
Var greater_equal(Var a, Var b);
Var less(Var a, double b);
Var greater(Var a, double b);
Var logical_not(Var x);
Var logical_and(Var a, Var b);
Var where(Var condition, Var then, Var otherwise);
Var where(Var condition, Var then, double otherwise);
Var where(Var condition, double then, Var otherwise);
Var cast(Var x, DType to);  // x itself when the type is right already
Var stop_gradient(Var x);

/// Filled with `value`, of x's dtype and shape.
Var full_like(Var x, double value);
Var reshape(Var x, Shape shape);  // one dim may be -1; x itself when nothing changes
Var transpose(Var x, std::vector<int64_t> perm);
Var swap_last(Var x);  // transposes the last two axes
Var expand(Var x, Shape shape);
Var squeeze(Var x, std::vector<int64_t> axes);
Var unsqueeze(Var x, std::vector<int64_t> axes);  // positions in the result
Var flatten(Var x, int64_t axis);                 // rank 2
Var slice(Var x, int64_t axis, int64_t start, int64_t size, int64_t step = 1);
Var concat(std::span<const Var> parts, int64_t axis);
std::vector<Var> split(Var x, int64_t axis, std::vector<int64_t> sizes);
Var gather(Var data, Var indices, int64_t axis);

Var reduce_sum(Var x, std::vector<int64_t> axes, bool keepdims = false);
Var reduce_mean(Var x, std::vector<int64_t> axes, bool keepdims = false);
Var reduce_max(Var x, std::vector<int64_t> axes, bool keepdims = false);
Var reduce_min(Var x, std::vector<int64_t> axes, bool keepdims = false);
Var reduce_prod(Var x, std::vector<int64_t> axes, bool keepdims = false);
std::vector<int64_t> all_axes(Var x);
/// Sums x over the axes that broadcasting from `shape` added or stretched.
Var sum_to_shape(Var x, Shape shape);

Var matmul(Var a, Var b, MatMulAttrs attrs = {});
Var softmax(Var x, int64_t axis);
Var log_softmax(Var x, int64_t axis);
/// y only; scale and bias may both be absent. Normalises axes [axis, rank).
Var layer_norm(Var x, Var scale, Var bias, int64_t axis, double epsilon);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_BUILDER_H_
