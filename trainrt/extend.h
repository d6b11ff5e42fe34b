// Operators, gradients and kernels of a program's own.
//
// What is registered holds for the whole process: operators and kernels for models that are loaded
// afterwards, gradients for plans that are made afterwards. A weight that reaches an output only
// through a registered gradient (a straight-through Round) is a parameter when the gradient is
// there before the model is loaded. Domain "" is ai.onnx.
#ifndef TRAINRT_EXTEND_H_
#define TRAINRT_EXTEND_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainrt/expr.h"
#include "trainrt/tensor.h"

namespace trainrt {

class LowerContext;  // not part of the public interface

/// An ONNX node of a registered operator, while its graph is being built.
class OpNode {
 public:
  explicit OpNode(LowerContext& context) : context_(context) {}

  size_t input_count() const;  // trailing absent ones not counted
  /// Absent when the node leaves it out.
  Expr input(size_t i) const;
  size_t output_count() const;
  /// Type in which floating values are computed.
  DType working_type() const;

  bool has_attr(std::string_view name) const;
  int64_t attr_int(std::string_view name, int64_t otherwise) const;
  double attr_float(std::string_view name, double otherwise) const;
  std::string attr_string(std::string_view name, std::string otherwise) const;
  std::vector<int64_t> attr_ints(std::string_view name, std::vector<int64_t> otherwise) const;
  std::vector<double> attr_floats(std::string_view name, std::vector<double> otherwise) const;
  /// Contents of an input that must be known when a plan is made (axes, sizes); what it depends on
  /// becomes part of the plan's key.
  Tensor constant_input(size_t i) const;

  /// Puts the node on the list of obstacles.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  LowerContext& context_;
};

/// The outputs of a node by formulas. Gradients follow from the formulas.
using Lowering = std::function<std::vector<Expr>(OpNode&)>;
/// A later registration takes the place of an earlier one, and of trainrt's own operator. `since`:
/// the lowest opset of the domain that it understands.
void register_op(const std::string& domain, const std::string& op, Lowering lowering,
                 int64_t since = 1);

/// A node whose gradient is asked for.
struct GradientNode {
  std::vector<Expr> inputs, outputs;
  std::vector<Expr> output_gradients;  // absent: none flows into that output
  std::vector<bool> needed;            // by input; the others' gradients may stay absent
};

/// Gradients by input, of the inputs' types; trailing ones may be left out. Integer inputs have
/// none.
using GradientRule = std::function<std::vector<Expr>(const GradientNode&)>;
/// The gradient of an operator, in the place of the one that its formulas have: of one of the
/// program's own or of ONNX (a straight-through Round, say).
void register_gradient(const std::string& domain, const std::string& op, GradientRule rule);

/// Type of a tensor.
struct ValueType {
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// A node that a kernel of the program computes. One thread at a time runs it; it must not keep the
/// tensors, and fills the outputs.
struct KernelNode {
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;
};
using OpKernel = std::function<void(const KernelNode&)>;
/// Makes the kernel of one node, once for each plan, and gives the types of its outputs. Floating
/// inputs have the working type, which is float32 unless the module was loaded or changed to
/// float64: outputs must have it as well.
struct PlannedKernel {
  std::vector<ValueType> outputs;
  OpKernel run;
};
using KernelPlan = std::function<PlannedKernel(OpNode&)>;
/// An operator that the program computes itself, on the CPU. It is a barrier to fusion. Its
/// gradient is what register_gradient() says; without one, training through it is refused by name.
void register_kernel(const std::string& domain, const std::string& op, KernelPlan plan,
                     int64_t since = 1);

/// In lowerings and gradient rules: a value that `run` computes from `inputs`.
std::vector<Expr> call_kernel(const std::string& name, const std::vector<Expr>& inputs,
                              const std::vector<ValueType>& outputs, OpKernel run);

}  // namespace trainrt

#endif  // TRAINRT_EXTEND_H_
