#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"
#include "tests/cuda/test_device.h"
#include "tests/kernels/cases/linear.h"

namespace trainrt {
namespace {

void check_all(const std::vector<RowCase>& cases, Tolerance tolerance) {
  for (const RowCase& c : cases) check_cuda_rows(c, tolerance);
}

/// With both factors kept as bfloat16, and the result as float32 and as bfloat16.
void check_bf16(RowCase c) {
  c.bf16_inputs = 3;
  for (c.bf16_outputs = 0; c.bf16_outputs < 2; ++c.bf16_outputs) check_cuda_rows(c, kClose);
}

/// What the rows say, cuBLASLt's first.
std::vector<std::string> refusals(const RowCase& c) {
  const TestNode node(c);
  std::vector<std::string> reasons;
  for (const KernelRow& row : cuda_kernels()) {
    if (row.op == c.op) reasons.push_back(row.supports(node.view()).reason);
  }
  return reasons;
}

TEST_CASE("MatMul on CUDA: shapes, transposition, batches") { check_all(matmul_cases(), kClose); }

TEST_CASE("MatMul on CUDA: bfloat16") {
  for (const RowCase& c : matmul_cases()) check_bf16(c);
  RowCase mixed{Op::kMatMul, {Shape{8, 8}, Shape{8, 8}, Shape{8}}, MatMulAttrs{}};
  mixed.bf16_inputs = 1;
  CHECK(refusals(mixed) == std::vector<std::string>(2, "multiplies operands of one type"));
  mixed.bf16_inputs = 7;
  CHECK(refusals(mixed) == std::vector<std::string>(2, "adds a float32 bias"));
  mixed.bf16_inputs = 0;
  mixed.bf16_outputs = 1;
  CHECK(refusals(mixed) == std::vector<std::string>(2, "gives bfloat16 for bfloat16 only"));
}

TEST_CASE("MatMul on CUDA: a ReLU keeps NaN and infinity") {
  check_cuda_rows(matmul_of_nan(), kExact);
  check_bf16(matmul_of_nan());
}

TEST_CASE("MatMul on CUDA: empty dims") {
  check_all(empty_matmuls(), kExact);
  check_all(
      {{Op::kMatMul, {Shape{5, 0}, Shape{0, 3}, Shape{3}}, MatMulAttrs{}},
       {Op::kMatMul, {Shape{2, 5, 0}, Shape{0, 3}, Shape{3}}, MatMulAttrs{false, false, true}},
       {Op::kMatMul, {Shape{5, 7}, Shape{7, 0}, Shape{0}}, MatMulAttrs{}},
       {Op::kMatMul, {Shape{0, 5, 7}, Shape{1, 7, 3}}, MatMulAttrs{}},
       {Op::kMatMul, {Shape{0, 2, 5, 7}, Shape{2, 7, 3}, Shape{3}}, MatMulAttrs{}}},
      kExact);
  check_bf16({Op::kMatMul, {Shape{5, 0}, Shape{0, 3}, Shape{3}}, MatMulAttrs{false, false, true}});
}

TEST_CASE("MatMul on CUDA: batches that no single stride describes") {
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{3, 1, 2, 4, 5}, {2, 1, 5, 6}},
                             {{2, 1, 3, 1, 4, 5}, {1, 5, 1, 2, 5, 6}},
                             {{4, 5}, {2, 3, 1, 5, 6}},
                             {{2, 1, 7, 3}, {2, 5, 3, 1}},
                             {{2, 3, 4, 5}, {2, 1, 5, 6}},
                             {{2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 3, 4},
                              {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 4, 2}}}) {
    check_cuda_rows({Op::kMatMul, {a, b}, MatMulAttrs{}}, kClose);
    check_cuda_rows({Op::kMatMul, {a, b, Shape{b.back()}}, MatMulAttrs{false, false, true}},
                    kClose);
    Shape turned = a;
    std::swap(turned[a.size() - 1], turned[a.size() - 2]);
    check_cuda_rows({Op::kMatMul, {turned, b}, MatMulAttrs{true}}, kClose);
    check_bf16({Op::kMatMul, {a, b, Shape{b.back()}}, MatMulAttrs{}});
  }
  const RowCase many{Op::kMatMul, {Shape{9, 1, 9, 1, 2, 3}, Shape{9, 1, 9, 3, 2}}, MatMulAttrs{}};
  CHECK(refusals(many) == std::vector<std::string>{"takes batches of up to 64 calls", ""});
  check_cuda_rows(many, kClose);
}

TEST_CASE("MatMul on CUDA: long inner dims in parts") {
  for (bool trans : {false, true}) {
    const MatMulAttrs attrs{trans, trans, true};
    const Shape a = trans ? Shape{1100, 3} : Shape{3, 1100},
                b = trans ? Shape{70, 1100} : Shape{1100, 70};
    check_cuda_rows({Op::kMatMul, {a, b, Shape{70}}, attrs}, kClose);
    check_cuda_rows({Op::kMatMul, {a, b}, MatMulAttrs{trans, trans}}, kClose);
    check_bf16({Op::kMatMul, {a, b, Shape{70}}, attrs});
  }
  check_cuda_rows({Op::kMatMul, {Shape{3, 1, 2000}, Shape{3, 2000, 1}}, MatMulAttrs{}}, kClose);
}

TEST_CASE("MatMul on CUDA: integers") {
  for (const DType type : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8,
                           DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
    const double lo = type == DType::kUInt8 || type == DType::kUInt16 || type == DType::kUInt32 ||
                              type == DType::kUInt64
                          ? 0
                          : -100;
    const auto of = [&](Shape s) { return Operand(std::move(s), type, lo, 100); };
    check_cuda_rows({Op::kMatMul, {of({2, 5, 33}), of({33, 70}), of({70})}, MatMulAttrs{}}, kExact);
    check_cuda_rows({Op::kMatMul, {of({5, 7}), of({6, 7})}, MatMulAttrs{false, true, true}},
                    kExact);
    check_cuda_rows(
        {Op::kMatMul, {of({600, 2}), of({600, 3}), of({3})}, MatMulAttrs{true, false, true}},
        kExact);
    check_cuda_rows({Op::kMatMul, {of({2, 0}), of({0, 3}), of({3})}, MatMulAttrs{}}, kExact);
  }
}

TEST_CASE("MatMul is planned without a device") {
  const TestNode node({Op::kMatMul, {Shape{5, 7}, Shape{7, 3}}, MatMulAttrs{}});
  for (const KernelRow& row : cuda_kernels()) {
    Scratch scratch;
    if (takes(row, node.view())) CHECK(row.plan(node.view(), scratch) != nullptr);
  }
}

}  // namespace
}  // namespace trainrt
