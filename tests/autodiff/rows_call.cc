// Functions from outside with gradients of their own.
#include "graph/call.h"
#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

// z = x y, computed outside; its gradient is a formula.
int64_t product() {
  CallFunction f;
  f.name = "product";
  f.run = [](const CallRun& r) {
    for (size_t i = 0; i < r.outputs[0].data<double>().size(); ++i) {
      r.outputs[0].data<double>()[i] =
          r.inputs[0].data<double>()[i] * r.inputs[1].data<double>()[i];
    }
  };
  f.gradient = [](const CallGradient& g) {
    const Var dz = g.output_gradients[0];
    return std::vector<Var>{dz * g.inputs[1], dz * g.inputs[0]};
  };
  return add_call(std::move(f));
}

// Passes its first operand through; sees the second.
int64_t look() {
  CallFunction f;
  f.name = "look";
  f.run = [](const CallRun&) {};
  f.gradient = [](const CallGradient& g) { return std::vector<Var>{g.output_gradients[0]}; };
  return add_call(std::move(f));
}

Row call(Op op, const std::string& name, int64_t function) {
  return {op, name, {normal({2, 3}), normal({2, 3})}, [=](Builder& b, std::span<const Var> x) {
            const TensorType type = x[0].type();
            return b.add_all(op, x, call_attrs(function, {&type, 1}));
          }};
}

}  // namespace

std::vector<Row> call_rows() {
  static const int64_t kProduct = product(), kLook = look();
  return {call(Op::kCall, "product", kProduct), call(Op::kHook, "look", kLook)};
}

}  // namespace trainrt::test
