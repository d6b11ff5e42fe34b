#include <catch2/catch_test_macros.hpp>

#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

struct Sizes {
  int64_t steps, batch, hidden;
};

/// As float32, and with weights kept as bfloat16: the state is rounded to that before each product.
void check(RowCase c) {
  check_rows(c, kClose);
  if (!cpu_runs_bf16()) return;
  c.bf16_inputs = 0b10;
  check_rows(c, {1e-2, false});
}

constexpr Sizes kSizes[] = {{5, 3, 37}, {1, 2, 64}, {4, 1, 7}, {3, 33, 16}, {2, 4, 1}};

TEST_CASE("Lstm and its gradient on CPU") {
  for (const auto& [t, b, h] : kSizes) {
    for (const bool reverse : {false, true}) {
      const RecurrentAttrs attrs{.reverse = reverse};
      const Operand state({b, h}), weights({4 * h, h}, -0.3, 0.3);
      const RowCase layer{Op::kLstm, {Shape{t, b, 4 * h}, weights, state, state}, attrs};
      check(layer);
      const std::vector<Tensor> y = run_first_row(layer);
      RowCase grad{
          Op::kLstmGrad,
          {Shape{t, b, h}, weights, state, state, Operand(y[0]), Operand(y[1]), Operand(y[2])},
          attrs};
      check(grad);
      grad.inputs.emplace_back(Shape{t, b, h});
      check(grad);
    }
  }
}

TEST_CASE("Gru and its gradient on CPU, reset before and after the product") {
  for (const auto& [t, b, h] : kSizes) {
    if (h == 1) continue;  // refused
    for (const bool reverse : {false, true}) {
      for (const bool linear : {false, true}) {
        const RecurrentAttrs attrs{reverse, linear};
        const Operand state({b, h}), weights({3 * h, h}, -0.3, 0.3);
        const RowCase layer{Op::kGru, {Shape{t, b, 3 * h}, weights, Shape{3 * h}, state}, attrs};
        check(layer);
        const std::vector<Tensor> y = run_first_row(layer);
        check(
            {Op::kGruGrad, {Shape{t, b, h}, weights, state, Operand(y[0]), Operand(y[1])}, attrs});
      }
    }
  }
}

TEST_CASE("Gru on CPU leaves a single hidden unit to the reference", "[cpu]") {
  const RowCase one{
      Op::kGru, {Shape{2, 4, 3}, Shape{3, 1}, Shape{3}, Shape{4, 1}}, RecurrentAttrs{}};
  CHECK(refusals(one) == std::vector<std::string>{"takes two hidden units or more"});
}

}  // namespace
}  // namespace trainrt
