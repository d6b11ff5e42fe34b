#include "autodiff/rule.h"

namespace trainrt {
namespace {

// y = x mask / (1 - ratio)  =>  dx = dy with the same mask, drawn again from the same counters
Grads dropout_grad(const GradArgs& a) {
  return {a.builder().add(Op::kDropout, {a.dy(), a.x(1)}, a.attr<DropoutAttrs>())};
}

constexpr GradRow kRows[] = {
    {Op::kInput, nullptr, GradKind::kNone},
    {Op::kConstant, nullptr, GradKind::kNone},
    {Op::kFill, nullptr, GradKind::kNone},
    {Op::kDropout, dropout_grad, GradKind::kRule, 0b10},
    {Op::kRandom, nullptr, GradKind::kNone},
    {Op::kAssign, nullptr, GradKind::kUnsupported},
    {Op::kAssignAdd, nullptr, GradKind::kUnsupported},
    {Op::kOptimizerUpdate, nullptr, GradKind::kUnsupported},
};

}  // namespace

std::span<const GradRow> other_rules() { return kRows; }

}  // namespace trainrt
