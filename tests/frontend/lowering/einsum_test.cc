#include <catch2/catch_test_macros.hpp>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode einsum(const char* equation) { return OneNode("Einsum", 12).attr("equation", equation); }

const Tensor kA = reals({1, 2, 3, 4}, {2, 2});
const Tensor kB = reals({5, 6, 7, 8}, {2, 2});
const Tensor kV = reals({1, 10});

TEST_CASE("products of two operands") {
  CHECK_SAME(einsum("ij,jk->ik").input(kA).input(kB).y(), reals({19, 22, 43, 50}, {2, 2}));
  CHECK_SAME(einsum("ij,kj->ki").input(kA).input(kB).y(), reals({17, 39, 23, 53}, {2, 2}));
  CHECK_SAME(einsum("ij,ij->ij").input(kA).input(kB).y(), reals({5, 12, 21, 32}, {2, 2}));
  CHECK_SAME(einsum("ij,ij->").input(kA).input(kB).y(), real(70));
  CHECK_SAME(einsum("i,j->ji").input(kV).input(kV).y(), reals({1, 10, 10, 100}, {2, 2}));
  CHECK_SAME(einsum("ij,j->i").input(kA).input(kV).y(), reals({21, 43}));
}

TEST_CASE("labels of one operand alone are summed first") {
  CHECK_SAME(einsum("ij,k->i").input(kA).input(kV).y(), reals({33, 77}));
}

TEST_CASE("one operand: sums, transposes, diagonals") {
  CHECK_SAME(einsum("ij->ji").input(kA).y(), reals({1, 3, 2, 4}, {2, 2}));
  CHECK_SAME(einsum("ij->i").input(kA).y(), reals({3, 7}));
  CHECK_SAME(einsum("ii->i").input(kA).y(), reals({1, 4}));
  CHECK_SAME(einsum("ii").input(kA).y(), real(5));
  CHECK_SAME(einsum("iji->j").input(reals({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})).y(),
             reals({7, 11}));
  CHECK_SAME(einsum("iii->i").input(reals({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})).y(), reals({1, 8}));
}

TEST_CASE("a diagonal's gradient goes to the diagonal") {
  CHECK_SAME(einsum("ii->i").input(kA).gradient(0, reals({5, 7})), reals({5, 0, 0, 7}, {2, 2}));
}

TEST_CASE("the implicit output is alphabetical, with the ellipsis in front") {
  CHECK_SAME(einsum("ba").input(kA).y(), reals({1, 3, 2, 4}, {2, 2}));
  CHECK_SAME(einsum("ij, jk").input(kA).input(kB).y(), reals({19, 22, 43, 50}, {2, 2}));
  CHECK(einsum("z...").input(Tensor(DType::kFloat64, {2, 3, 4})).y().shape() == Shape{3, 4, 2});
}

TEST_CASE("an ellipsis broadcasts") {
  const Tensor a(DType::kFloat64, {5, 1, 2, 3}), b(DType::kFloat64, {4, 3, 2});
  CHECK(einsum("...ij,...jk->...ik").input(a).input(b).y().shape() == Shape{5, 4, 2, 2});
  CHECK_SAME(einsum("...j,j->...").input(kA).input(kV).y(), reals({21, 43}));
  CHECK_SAME(einsum("...->...").input(kA).y(), kA);
}

TEST_CASE("three operands are multiplied pairwise") {
  CHECK_SAME(einsum("i,ij,j->").input(kV).input(kA).input(kV).y(), real(1 + 20 + 30 + 400));
  CHECK_SAME(einsum("ij,jk,kl->il").input(kA).input(kA).input(kA).y(),
             reals({37, 54, 81, 118}, {2, 2}));
}

TEST_CASE("dims of size 1 broadcast against larger ones") {
  CHECK_SAME(einsum("ij,ij->ij").input(kA).input(reals({2, 3}, {1, 2})).y(),
             reals({2, 6, 6, 12}, {2, 2}));
}

TEST_CASE("integers and empty dims") {
  CHECK_SAME(einsum("ij,jk->ik").input(ints({1, 2}, {1, 2})).input(ints({3, 4}, {2, 1})).y(),
             ints({11}, {1, 1}));
  CHECK_SAME(einsum("ij,jk->ik")
                 .input(Tensor(DType::kFloat64, {2, 0}))
                 .input(Tensor(DType::kFloat64, {0, 1}))
                 .y(),
             reals({0, 0}, {2, 1}));
}

TEST_CASE("malformed equations are refused") {
  for (const char* equation : {"ij,jk->ik", "i->i", "ijk->i", "ij->k", "ij->ii", "i1->i", "i.j->i",
                               "", "->", "......->", "ij->...->", "ij->ij-"}) {
    INFO(equation);
    CHECK(einsum(equation).input(kA).refusal() == "invalid");
  }
  CHECK(einsum("ij,jk->ik").input(kA).input(reals({1, 2, 3}, {3, 1})).refusal() == "invalid");
}

}  // namespace
}  // namespace trainrt
