#include <catch2/catch_test_macros.hpp>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode node(std::string op, int64_t opset = 13) { return OneNode(std::move(op), opset); }

const Tensor kA = reals({1, 2, 3, 4, 5, 6}, {2, 3});
const Tensor kB = reals({1, 0, 0, 1, 1, 1}, {3, 2});
const Tensor kAB = reals({4, 5, 10, 11}, {2, 2});

TEST_CASE("MatMul of vectors drops their axis") {
  const Tensor v = reals({1, 1, 1}), w = reals({1, 2});
  CHECK_SAME(node("MatMul").input(v).input(v).y(), real(3));
  CHECK_SAME(node("MatMul").input(kA).input(v).y(), reals({6, 15}));
  CHECK_SAME(node("MatMul").input(w).input(kA).y(), reals({9, 12, 15}));
  CHECK(node("MatMul").input(real(1)).input(v).refusal() == "invalid");
}

TEST_CASE("MatMul broadcasts batch dims") {
  const Tensor a(DType::kFloat64, {5, 1, 2, 3}), b(DType::kFloat64, {4, 3, 2});
  CHECK(node("MatMul").input(a).input(b).y().shape() == Shape{5, 4, 2, 2});
  const Tensor v(DType::kFloat64, {3});
  CHECK(node("MatMul").input(a).input(v).y().shape() == Shape{5, 1, 2});
  CHECK(node("MatMul").input(kA).input(kA).refusal() == "invalid");
}

TEST_CASE("MatMul of integers") {
  CHECK_SAME(node("MatMul").input(kA.to(DType::kInt64)).input(kB.to(DType::kInt64)).y(),
             kAB.to(DType::kInt64));
}

TEST_CASE("Gemm transposes, scales and adds any C that broadcasts") {
  const Tensor at = reals({1, 4, 2, 5, 3, 6}, {3, 2});
  CHECK_SAME(node("Gemm").input(kA).input(kB).y(), kAB);
  CHECK_SAME(node("Gemm").attr("transA", 1).attr("alpha", 2.0).input(at).input(kB).y(),
             reals({8, 10, 20, 22}, {2, 2}));
  CHECK_SAME(node("Gemm").attr("beta", 0.5).input(kA).input(kB).input(real(2)).y(),
             reals({5, 6, 11, 12}, {2, 2}));
  CHECK_SAME(node("Gemm", 7).input(kA).input(kB).input(reals({1, 2})).y(),
             reals({5, 7, 11, 13}, {2, 2}));
  CHECK_SAME(node("Gemm").input(kA).input(kB).input(reals({1, 2}, {2, 1})).y(),
             reals({5, 6, 12, 13}, {2, 2}));
}

TEST_CASE("Gemm refuses a C that would enlarge the result") {
  CHECK(node("Gemm").input(kA).input(kB).input(reals({1, 2, 3, 4}, {1, 2, 2})).refusal() ==
        "invalid");
  CHECK(node("Gemm").input(kA).input(reals({1, 2, 3})).refusal() == "invalid");
}

TEST_CASE("MatMulInteger subtracts zero points") {
  const Tensor a = ints({1, 2, 3, 4}, {2, 2}).to(DType::kUInt8);
  const Tensor b = ints({1, -1, 0, 2}, {2, 2}).to(DType::kInt8);
  CHECK_SAME(node("MatMulInteger").input(a).input(b).input(ints({1}, {}).to(DType::kUInt8)).y(),
             ints({0, 2, 2, 4}, {2, 2}).to(DType::kInt32));
  CHECK_SAME(node("MatMulInteger")
                 .input(a)
                 .input(b)
                 .input(ints({1, 3}).to(DType::kUInt8))
                 .input(ints({0, 1}).to(DType::kInt8))
                 .y(),
             ints({0, 1, 0, 1}, {2, 2}).to(DType::kInt32));
}

TEST_CASE("Det of small matrices and batches") {
  CHECK_SAME(node("Det").input(reals({3}, {1, 1})).y(), real(3));
  CHECK_SAME(node("Det").input(reals({1, 2, 3, 4, 2, 0, 0, 2}, {2, 2, 2})).y(), reals({-2, 4}));
  CHECK_SAME(node("Det").input(reals({2, -3, 1, 2, 0, -1, 1, 4, 5}, {3, 3})).y(), real(49));
}

TEST_CASE("Det has a gradient where the matrix is singular") {
  CHECK_SAME(node("Det").input(reals({1, 2, 2, 4}, {2, 2})).gradient(0, real(1)),
             reals({4, -2, -2, 1}, {2, 2}));
}

TEST_CASE("Det of any size, also of none") {
  Tensor x(DType::kFloat64, {12, 12});  // a permutation with 11 exchanges
  for (size_t i = 0; i < 12; ++i) x.data<double>()[i * 12 + (i + 1) % 12] = 2;
  CHECK_SAME(node("Det").input(x).y(), real(-4096));
  CHECK_SAME(node("Det", 22).input(Tensor(DType::kFloat64, {2, 0, 0})).y(), reals({1, 1}));
  CHECK(node("Det").input(Tensor(DType::kFloat64, {0, 3, 3})).y().shape() == Shape{0});
}

TEST_CASE("Det refuses oblong matrices and vectors") {
  CHECK(node("Det").input(kA).refusal() == "invalid");
  CHECK(node("Det").input(reals({1, 2})).refusal() == "invalid");
}

}  // namespace
}  // namespace trainrt
