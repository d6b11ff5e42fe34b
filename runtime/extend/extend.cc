#include "trainrt/extend.h"

#include "frontend/registered_ops.h"
#include "runtime/extend/expr_var.h"

namespace trainrt {
namespace {

RegisteredGradient gradient_of(GradientRule rule) {
  return [rule = std::move(rule)](const CallGradient& g) {
    return vars_of(
        rule({exprs_of(g.inputs), exprs_of(g.outputs), exprs_of(g.output_gradients), g.needed}));
  };
}

std::vector<Var> add_call_node(Builder& b, const std::string& name, const std::vector<Var>& inputs,
                               const std::vector<ValueType>& outputs, OpKernel run) {
  if (outputs.empty()) {
    throw Error(ErrorCode::kUsage, "the kernel of " + name + " has no outputs");
  }
  std::vector<TensorType> types;
  for (const ValueType& t : outputs) types.push_back({t.dtype, t.shape});
  CallFunction function;
  function.name = name;
  function.run = [run = std::move(run)](const CallRun& r) { run({r.inputs, r.outputs}); };
  return b.add_all(Op::kCall, inputs, call_attrs(add_call(std::move(function)), types));
}

void set_outputs(LowerContext& c, const std::vector<Var>& outputs) {
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (i < outputs.size() && outputs[i]) c.set(i, outputs[i]);
  }
}

}  // namespace

size_t OpNode::input_count() const { return context_.input_count(); }
Expr OpNode::input(size_t i) const { return expr_of(context_.in(i)); }
size_t OpNode::output_count() const { return context_.output_count(); }
DType OpNode::working_type() const { return context_.working; }
bool OpNode::has_attr(std::string_view name) const { return context_.has_attr(name); }
int64_t OpNode::attr_int(std::string_view name, int64_t otherwise) const {
  return context_.attr_int(name, otherwise);
}
double OpNode::attr_float(std::string_view name, double otherwise) const {
  return context_.attr_float(name, otherwise);
}
std::string OpNode::attr_string(std::string_view name, std::string otherwise) const {
  return context_.attr_string(name, std::move(otherwise));
}
std::vector<int64_t> OpNode::attr_ints(std::string_view name,
                                       std::vector<int64_t> otherwise) const {
  return context_.attr_ints(name, std::move(otherwise));
}
std::vector<double> OpNode::attr_floats(std::string_view name,
                                        std::vector<double> otherwise) const {
  return context_.attr_floats(name, std::move(otherwise));
}
Tensor OpNode::constant_input(size_t i) const { return context_.constant(i); }
void OpNode::refuse(const std::string& reason) const { context_.refuse("no_lowering", reason); }

void register_op(const std::string& domain, const std::string& op, Lowering lowering,
                 int64_t since) {
  if (op.empty() || !lowering) {
    throw Error(ErrorCode::kUsage, "register_op() needs a name and a lowering");
  }
  register_lowering(domain, op, since, [lowering = std::move(lowering)](LowerContext& c) {
    OpNode node(c);
    set_outputs(c, vars_of(lowering(node)));
  });
}

void register_gradient(const std::string& domain, const std::string& op, GradientRule rule) {
  if (op.empty() || !rule) {
    throw Error(ErrorCode::kUsage, "register_gradient() needs a name and a rule");
  }
  register_gradient_rule(domain, op, gradient_of(std::move(rule)));
}

void register_kernel(const std::string& domain, const std::string& op, KernelPlan plan,
                     int64_t since) {
  if (op.empty() || !plan) {
    throw Error(ErrorCode::kUsage, "register_kernel() needs a name and a plan");
  }
  const std::string name = domain.empty() ? op : domain + "::" + op;
  register_lowering(domain, op, since, [plan = std::move(plan), name](LowerContext& c) {
    OpNode node(c);
    PlannedKernel kernel = plan(node);
    std::vector<Var> inputs;
    for (size_t i = 0; i < c.input_count(); ++i) {
      if (const Var v = c.in(i)) inputs.push_back(v);
    }
    set_outputs(c, add_call_node(c.b, name, inputs, kernel.outputs, std::move(kernel.run)));
  });
}

std::vector<Expr> call_kernel(const std::string& name, const std::vector<Expr>& inputs,
                              const std::vector<ValueType>& outputs, OpKernel run) {
  if (inputs.empty()) throw Error(ErrorCode::kUsage, "call_kernel() needs an input");
  std::vector<Var> vars;
  for (Expr e : inputs) vars.push_back(need_var(e));
  return exprs_of(add_call_node(vars[0].builder(), name, vars, outputs, std::move(run)));
}

}  // namespace trainrt
