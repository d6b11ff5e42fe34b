#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

void check(const std::vector<Operand>& operands, const AttentionAttrs& attrs, const Shape& y,
           const Operand* mask = nullptr) {
  std::vector<Operand> in = operands;
  if (mask != nullptr) in.push_back(*mask);
  check_cuda_rows({Op::kAttention, in, attrs}, kClose);
  const std::vector<Buffer> out = run_cuda_row({Op::kAttention, in, attrs});
  const auto tensor = [](const Buffer& b, const Shape& shape) {
    Tensor t(DType::kFloat32, shape);
    std::copy_n(reinterpret_cast<const float*>(b.data()), t.size(), t.data<float>().data());
    return t;
  };
  const TestNode node({Op::kAttention, in, attrs});
  std::vector<Operand> grad = {Operand(y)};
  grad.insert(grad.end(), operands.begin(), operands.end());
  grad.emplace_back(tensor(out[0], node.out[0].shape));
  grad.emplace_back(tensor(out[1], node.out[1].shape));
  if (mask != nullptr) grad.push_back(*mask);
  check_cuda_rows({Op::kAttentionGrad, grad, attrs}, {3e-5, false});
}

TEST_CASE("attention and its gradient on CUDA: forms, heads that share keys, widths") {
  const AttentionAttrs plain{0.2, false, false, false}, causal{0.2, true, false, false};
  for (const AttentionAttrs& attrs : {plain, causal}) {
    check({Shape{2, 2, 5, 8}, Shape{2, 2, 5, 8}, Shape{2, 2, 5, 8}}, attrs, {2, 2, 5, 8});
    check({Shape{1, 4, 3, 6}, Shape{1, 2, 20, 6}, Shape{1, 2, 20, 9}}, attrs, {1, 4, 3, 9});
    check({Shape{1, 1, 35, 4}, Shape{1, 1, 2, 4}, Shape{1, 1, 2, 4}}, attrs, {1, 1, 35, 4});
    check({Shape{1, 1, 2, 70}, Shape{1, 1, 3, 70}, Shape{1, 1, 3, 130}}, attrs, {1, 1, 2, 130});
  }
  check({Shape{2, 5, 2, 8}, Shape{2, 5, 2, 8}, Shape{2, 5, 2, 8}}, {0.3, true, true, false},
        {2, 5, 2, 8});
  check({Shape{2, 4, 3, 2, 7}}, {0.3, true, true, true}, {2, 4, 2, 7});
  check({Shape{4, 2, 3, 2, 7}}, {0.3, false, true, true, true}, {4, 2, 2, 7});
}

TEST_CASE("attention with masks on CUDA, one of which hides every key of a query") {
  Tensor hiding(DType::kFloat32, {3, 4});
  hiding.data<float>()[1] = -INFINITY;
  for (size_t i = 8; i < 12; ++i) hiding.data<float>()[i] = -INFINITY;
  const Operand masks[] = {Operand(hiding), Operand(Shape{2, 1, 1, 4}), Operand(Shape{2, 2, 3, 4})};
  for (const Operand& mask : masks) {
    check({Shape{2, 2, 3, 5}, Shape{2, 2, 4, 5}, Shape{2, 2, 4, 5}}, {0.5, false, false, false},
          {2, 2, 3, 5}, &mask);
  }
}

/// Forward and backward with everything kept as bfloat16, which the library takes, and with a part.
void check_bf16(const std::vector<Shape>& operands, const AttentionAttrs& attrs, const Shape& y) {
  RowCase c{Op::kAttention, {operands.begin(), operands.end()}, attrs};
  const uint32_t all = (1u << operands.size()) - 1;
  for (const uint32_t inputs : {all, 1u}) {
    c.bf16_inputs = inputs;
    c.bf16_outputs = 1;
    check_cuda_rows(c, kClose);
  }
  c.bf16_inputs = c.bf16_outputs = 0;
  const TestNode node(c);
  const std::vector<Buffer> out = run_cuda_row(c);
  RowCase grad{Op::kAttentionGrad, {Operand(y)}, attrs};
  grad.inputs.insert(grad.inputs.end(), c.inputs.begin(), c.inputs.end());
  for (size_t i = 0; i < 2; ++i) {
    Tensor t(DType::kFloat32, node.out[i].shape);
    std::copy_n(reinterpret_cast<const float*>(out[i].data()), t.size(), t.data<float>().data());
    grad.inputs.emplace_back(t);
  }
  grad.bf16_inputs = (1u << (operands.size() + 2)) - 1;  // not the log-sums
  grad.bf16_outputs = all;
  check_cuda_rows(grad, {3e-5, false});
}

TEST_CASE("attention of values that are kept as bfloat16 on CUDA") {
  const Shape s{2, 2, 6, 16};
  for (const bool causal : {false, true}) {
    check_bf16({s, s, s}, AttentionAttrs{0.25, causal, false, false}, s);
    check_bf16({{1, 4, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 16}}, AttentionAttrs{0.3, causal},
               {1, 4, 3, 16});
    check_bf16({{2, 4, 3, 2, 8}}, AttentionAttrs{0.3, causal, true, true}, {2, 4, 2, 8});
  }
}

}  // namespace
}  // namespace trainrt
