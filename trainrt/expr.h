// Formulas of a graph: what losses, lowerings and gradient rules of programs are written in.
#ifndef TRAINRT_EXPR_H_
#define TRAINRT_EXPR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "trainrt/dtype.h"
#include "trainrt/tensor.h"

namespace trainrt {

class Builder;  // of trainrt's graphs; not part of the public interface

/// A value of a graph that is being built. Types are known. Cheap to copy; valid until the function
/// that was given the first one returns. A default Expr means "absent". Elementwise functions
/// broadcast as NumPy does; operands of one dtype. Shapes or types that do not fit throw
/// Error(kInvalidModel). Every function here has a gradient where its formula has one.
class Expr {
 public:
  Expr() = default;
  Expr(Builder* builder, int32_t id) : builder_(builder), id_(id) {}

  explicit operator bool() const { return builder_ != nullptr; }
  const Shape& shape() const;
  DType dtype() const;
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t dim(int64_t axis) const;  // negative axes count from the end
  int64_t size() const { return element_count(shape()); }
  /// A constant of the same graph.
  Expr constant(const Tensor& value) const;
  /// One number, of this value's dtype.
  Expr constant(double value) const;

  Builder* builder() const { return builder_; }
  int32_t id() const { return id_; }

 private:
  Builder* builder_ = nullptr;
  int32_t id_ = -1;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
// A number takes the other operand's dtype.
Expr operator+(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(Expr a, double b);
Expr operator-(double a, Expr b);
Expr operator*(Expr a, double b);
Expr operator*(double a, Expr b);
Expr operator/(Expr a, double b);
Expr operator/(double a, Expr b);

Expr exp(Expr x);
Expr log(Expr x);
Expr sqrt(Expr x);
Expr square(Expr x);
Expr abs(Expr x);
Expr sign(Expr x);
Expr tanh(Expr x);
Expr sigmoid(Expr x);
Expr erf(Expr x);
Expr relu(Expr x);
Expr softplus(Expr x);
Expr sin(Expr x);
Expr cos(Expr x);
Expr pow(Expr a, double b);
Expr maximum(Expr a, Expr b);
Expr minimum(Expr a, Expr b);
Expr clip(Expr x, double lo, double hi);
// Comparisons give bool.
Expr equal(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr greater(Expr a, Expr b);
Expr where(Expr condition, Expr then, Expr otherwise);
Expr cast(Expr x, DType to);
Expr stop_gradient(Expr x);

Expr reshape(Expr x, Shape shape);  // one dim may be -1
Expr transpose(Expr x, std::vector<int64_t> perm);
Expr expand(Expr x, Shape shape);
Expr slice(Expr x, int64_t axis, int64_t start, int64_t size, int64_t step = 1);
Expr concat(std::span<const Expr> parts, int64_t axis);
Expr gather(Expr data, Expr indices, int64_t axis);

// Over `axes`; empty: all of them.
Expr sum(Expr x, std::vector<int64_t> axes = {}, bool keepdims = false);
Expr mean(Expr x, std::vector<int64_t> axes = {}, bool keepdims = false);
Expr max(Expr x, std::vector<int64_t> axes = {}, bool keepdims = false);
Expr min(Expr x, std::vector<int64_t> axes = {}, bool keepdims = false);

/// Ranks of at least two; leading dims broadcast.
Expr matmul(Expr a, Expr b);
Expr softmax(Expr x, int64_t axis = -1);
Expr log_softmax(Expr x, int64_t axis = -1);
/// A loss per position: logits with the classes on `axis`, class ids of the other axes.
Expr cross_entropy(Expr logits, Expr ids, int64_t axis = 1);

}  // namespace trainrt

#endif  // TRAINRT_EXPR_H_
