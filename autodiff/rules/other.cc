#include "autodiff/rule.h"
#include "graph/call.h"

namespace trainrt {
namespace {

// y = x mask / (1 - ratio)  =>  dx = dy with the same mask, drawn again from the same counters
Grads dropout_grad(const GradArgs& a) {
  return {a.builder().add(Op::kDropout, {a.dy(), a.x(1)}, a.attr<DropoutAttrs>())};
}

// The function's own gradient; see graph/call.h.
Grads call_grad(const GradArgs& a) {
  const auto function = find_call(a.attr<CallAttrs>().function);
  std::vector<Var> x, y, dy;
  std::vector<bool> needed;
  for (size_t i = 0; i < a.input_count(); ++i) {
    x.push_back(a.x(i));
    needed.push_back(a.needs(i));
  }
  for (size_t i = 0; i < a.output_count(); ++i) {
    y.push_back(a.y(i));
    dy.push_back(a.dy(i));
  }
  return function->gradient({a.builder(), x, y, dy, std::move(needed)});
}

bool call_has_gradient(const Node& node) {
  return static_cast<bool>(find_call(std::get<CallAttrs>(node.attrs).function)->gradient);
}

constexpr GradRow kRows[] = {
    {Op::kInput, nullptr, GradKind::kNone},
    {Op::kConstant, nullptr, GradKind::kNone},
    {Op::kFill, nullptr, GradKind::kNone},
    {Op::kDropout, dropout_grad, GradKind::kRule, 0b10},
    {Op::kRandom, nullptr, GradKind::kNone},
    {Op::kCall, call_grad, GradKind::kRule, 0, call_has_gradient},
    {Op::kHook, call_grad, GradKind::kRule, 0, call_has_gradient},
    {Op::kAssign, nullptr, GradKind::kUnsupported},
    {Op::kAssignAdd, nullptr, GradKind::kUnsupported},
    {Op::kOptimizerUpdate, nullptr, GradKind::kUnsupported},
};

}  // namespace

std::span<const GradRow> other_rules() { return kRows; }

}  // namespace trainrt
