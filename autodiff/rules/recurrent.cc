#include "autodiff/rule.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

Var dy_or_zero(const GradArgs& a) { return a.dy(0) ? a.dy(0) : full_like(a.y(0), 0); }

void refuse_gates(const GradArgs& a, size_t output) {
  if (a.dy(output)) {
    throw Error(ErrorCode::kUnsupported, "the gates of a recurrent layer have no gradient");
  }
}

// [i o f g] = gates(x + h' r^T), c = f c' + i g, y = o tanh c, backwards through all steps
Grads lstm_grad(const GradArgs& a) {
  refuse_gates(a, 2);
  std::vector<Var> operands = {dy_or_zero(a), a.x(1), a.x(2), a.x(3), a.y(0), a.y(1), a.y(2)};
  if (a.dy(1)) operands.push_back(a.dy(1));
  return a.builder().add_all(Op::kLstmGrad, operands, a.attr<RecurrentAttrs>());
}

// [z r n] = gates(x, h'), y = (1 - z) n + z h', backwards through all steps
Grads gru_grad(const GradArgs& a) {
  refuse_gates(a, 1);
  const std::vector<Var> operands = {dy_or_zero(a), a.x(1), a.x(3), a.y(0), a.y(1)};
  return a.builder().add_all(Op::kGruGrad, operands, a.attr<RecurrentAttrs>());
}

constexpr GradRow kRows[] = {
    {Op::kLstm, lstm_grad},
    {Op::kLstmGrad, nullptr, GradKind::kUnsupported},
    {Op::kGru, gru_grad},
    {Op::kGruGrad, nullptr, GradKind::kUnsupported},
};

}  // namespace

std::span<const GradRow> recurrent_rules() { return kRows; }

}  // namespace trainrt
