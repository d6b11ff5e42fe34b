// Forms that end with opset 6.
#include <catch2/catch_test_macros.hpp>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

const Tensor kA = reals({1, 2, 3, 4, 5, 6}, {2, 3});

TEST_CASE("a second operand of the first one's shape needs no attribute") {
  CHECK_SAME(OneNode("Sub", 6).input(kA).input(kA).y(), reals({0, 0, 0, 0, 0, 0}, {2, 3}));
}

TEST_CASE("a second operand broadcasts from the last dim, or from an axis on") {
  CHECK_SAME(OneNode("Add", 6).input(kA).input(reals({10, 20, 30})).attr("broadcast", 1).y(),
             reals({11, 22, 33, 14, 25, 36}, {2, 3}));
  const Tensor rows = reals({10, 20});
  CHECK_SAME(OneNode("Mul", 6).input(kA).input(rows).attr("broadcast", 1).attr("axis", 0).y(),
             reals({10, 20, 30, 80, 100, 120}, {2, 3}));
  CHECK_SAME(OneNode("Sub", 1).input(kA).input(real(1)).attr("broadcast", 1).y(),
             reals({0, 1, 2, 3, 4, 5}, {2, 3}));
  const Tensor column = reals({2, 4}, {2, 1});
  CHECK_SAME(OneNode("Div", 6).input(kA).input(column).attr("broadcast", 1).attr("axis", 0).y(),
             reals({0.5, 1, 1.5, 1, 1.25, 1.5}, {2, 3}));
  CHECK_SAME(OneNode("Pow", 6).input(kA).input(real(2)).attr("broadcast", 1).y(),
             reals({1, 4, 9, 16, 25, 36}, {2, 3}));
  CHECK_SAME(OneNode("Less", 6).input(kA).input(reals({2, 2, 9})).attr("broadcast", 1).y(),
             bools({true, false, true, false, false, true}, {2, 3}));
}

TEST_CASE("the gradient of a broadcast operand is summed") {
  OneNode n = OneNode("Mul", 6).input(kA).input(reals({10, 20}));
  n.attr("broadcast", 1).attr("axis", 0);
  const auto dx = n.gradients({{0, reals({1, 1, 1, 1, 1, 1}, {2, 3})}});
  CHECK_SAME(dx.at(0), reals({10, 10, 10, 20, 20, 20}, {2, 3}));
  CHECK_SAME(dx.at(1), reals({6, 15}));
}

TEST_CASE("operands that do not fit are refused") {
  CHECK(OneNode("Add", 6).input(kA).input(reals({1, 2, 3})).refusal() == "invalid");
  auto add = [](Tensor b) { return OneNode("Add", 6).input(kA).input(b).attr("broadcast", 1); };
  CHECK(add(reals({1, 2})).refusal() == "invalid");
  CHECK(add(reals({1, 2, 3})).attr("axis", 0).refusal() == "invalid");
  CHECK(add(reals({1, 2})).attr("axis", 5).refusal() == "invalid");
  CHECK(add(reals({1, 2, 3}, {1, 1, 3})).refusal() == "invalid");
  CHECK(OneNode("Add", 6).input(reals({1})).input(kA).attr("broadcast", 1).refusal() == "invalid");
}

TEST_CASE("PRelu has one slope or one for each channel") {
  const Tensor x = reals({-1, 2, -3, -4, 5, -6, 7, -8}, {1, 2, 2, 2});
  CHECK_SAME(OneNode("PRelu", 6).input(x).input(reals({0.5})).y(),
             reals({-0.5, 2, -1.5, -2, 5, -3, 7, -4}, {1, 2, 2, 2}));
  OneNode n = OneNode("PRelu", 6).input(x).input(reals({0.5, 2}));
  CHECK_SAME(n.y(), reals({-0.5, 2, -1.5, -2, 5, -12, 7, -16}, {1, 2, 2, 2}));
  CHECK_SAME(n.gradient(1, reals({1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 2, 2})), reals({-8, -14}));
  CHECK(OneNode("PRelu", 6).input(x).input(reals({1, 2, 3})).refusal() == "invalid");
}

TEST_CASE("Gemm adds a broadcast C") {
  OneNode n = OneNode("Gemm", 6).input(kA).input(reals({1, 0, 1}, {3, 1})).input(reals({10}));
  CHECK_SAME(n.attr("broadcast", 1).y(), reals({14, 20}, {2, 1}));
}

TEST_CASE("BatchNormalization follows is_test") {
  auto norm = [](int is_test) {
    OneNode n("BatchNormalization", 6);
    n.input(reals({1, 3}, {2, 1})).input(reals({1})).input(reals({0}));
    n.constant(reals({1})).constant(reals({4})).attr("epsilon", 0.0).attr("is_test", is_test);
    n.options.batch_norm = BatchNormMode::kGraph;
    return n.y();
  };
  CHECK_SAME(norm(1), reals({0, 1}, {2, 1}));
  CHECK_SAME(norm(0), reals({-1, 1}, {2, 1}));
}

}  // namespace
}  // namespace trainrt
