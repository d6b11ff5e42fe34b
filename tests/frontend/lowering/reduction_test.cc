#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

using List = std::vector<int64_t>;

OneNode node(std::string op, int64_t opset = 18) { return OneNode(std::move(op), opset); }

const Tensor kMatrix = reals({1, 2, 3, 4}, {2, 2});

TEST_CASE("axes come as attribute or input") {
  CHECK_SAME(node("ReduceSum", 11).attr("axes", List{-1}).input(kMatrix).y(),
             reals({3, 7}, {2, 1}));
  CHECK_SAME(node("ReduceSum", 13).attr("keepdims", 0).input(kMatrix).constant(ints({0})).y(),
             reals({4, 6}));
  CHECK_SAME(node("ReduceMax", 17).attr("axes", List{1, 0}).attr("keepdims", 0).input(kMatrix).y(),
             real(4));
}

TEST_CASE("no axes reduce all of them") {
  CHECK_SAME(node("ReduceSum").input(kMatrix).y(), reals({10}, {1, 1}));
  CHECK_SAME(node("ReduceSum").input(kMatrix).constant(ints({}, {0})).y(), reals({10}, {1, 1}));
}

TEST_CASE("noop_with_empty_axes reduces nothing but still squares") {
  CHECK_SAME(node("ReduceSum").attr("noop_with_empty_axes", 1).input(kMatrix).y(), kMatrix);
  CHECK_SAME(node("ReduceSumSquare").attr("noop_with_empty_axes", 1).input(kMatrix).y(),
             reals({1, 4, 9, 16}, {2, 2}));
}

TEST_CASE("axes outside the rank, or twice, are refused") {
  CHECK(node("ReduceSum").input(kMatrix).constant(ints({2})).refusal() == "invalid");
  CHECK(node("ReduceSum").input(kMatrix).constant(ints({0, -2})).refusal() == "invalid");
  CHECK(node("ReduceSum").input(kMatrix).input(ints({0})).refusal() == "dynamic");
}

TEST_CASE("integer reductions") {
  const Tensor x = ints({3, -4}, {2});
  CHECK_SAME(node("ReduceMean").input(x).y(), ints({0}, {1}));
  CHECK_SAME(node("ReduceL1").input(x).y(), ints({7}, {1}));
  CHECK_SAME(node("ReduceL2").input(x).y(), ints({5}, {1}));
  CHECK_SAME(node("ReduceProd").input(x).y(), ints({-12}, {1}));
  CHECK_SAME(node("ReduceMin").input(x).y(), ints({-4}, {1}));
}

TEST_CASE("ReduceMax of bools") {
  CHECK_SAME(node("ReduceMax", 20).input(bools({false, true}, {2})).y(), bools({true}, {1}));
}

TEST_CASE("ReduceL2 of the zero vector has gradient 0") {
  CHECK_SAME(node("ReduceL2").input(reals({0, 0})).gradient(0, reals({1}, {1})), reals({0, 0}));
  CHECK_SAME(node("ReduceL2").input(reals({3, 4})).gradient(0, reals({5}, {1})), reals({3, 4}));
}

TEST_CASE("ReduceLogSumExp neither overflows nor makes NaN of -inf") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_SAME(node("ReduceLogSumExp").attr("keepdims", 0).input(reals({1000, 1000})).y(),
             real(1000 + std::log(2.0)));
  CHECK_SAME(node("ReduceLogSumExp").input(reals({-inf, -inf})).y(), reals({-inf}, {1}));
  CHECK_SAME(node("ReduceLogSumExp").input(reals({inf, 0})).y(), reals({inf}, {1}));
  CHECK_SAME(node("ReduceLogSumExp").input(reals({1000, 1000})).gradient(0, reals({1}, {1})),
             reals({0.5, 0.5}));
}

TEST_CASE("empty reductions give the neutral element") {
  const Tensor x(DType::kFloat64, {0, 2});
  CHECK_SAME(node("ReduceSum").input(x).constant(ints({0})).y(), reals({0, 0}, {1, 2}));
  CHECK_SAME(node("ReduceProd").input(x).constant(ints({0})).y(), reals({1, 1}, {1, 2}));
}

TEST_CASE("ties in ReduceMax share the gradient evenly") {
  CHECK_SAME(node("ReduceMax").input(reals({2, 2, 1})).gradient(0, reals({1}, {1})),
             reals({0.5, 0.5, 0}));
}

TEST_CASE("ArgMax takes the first or the last of equals") {
  const Tensor x = reals({1, 3, 3}, {1, 3});
  CHECK_SAME(node("ArgMax").attr("axis", 1).input(x).y(), ints({1}, {1, 1}));
  CHECK_SAME(
      node("ArgMax").attr("axis", -1).attr("keepdims", 0).attr("select_last_index", 1).input(x).y(),
      ints({2}));
  CHECK_SAME(node("ArgMin").attr("axis", 1).input(x).y(), ints({0}, {1, 1}));
}

TEST_CASE("CumSum and CumProd, exclusive and reverse") {
  const Tensor x = reals({1, 2, 3}), axis = ints({0}, {});
  CHECK_SAME(node("CumSum").input(x).constant(axis).y(), reals({1, 3, 6}));
  CHECK_SAME(node("CumSum").attr("exclusive", 1).input(x).constant(axis).y(), reals({0, 1, 3}));
  CHECK_SAME(node("CumSum").attr("reverse", 1).input(x).constant(ints({-1})).y(), reals({6, 5, 3}));
  CHECK_SAME(node("CumSum").attr("reverse", 1).attr("exclusive", 1).input(x).constant(axis).y(),
             reals({5, 3, 0}));
  CHECK_SAME(node("CumProd", 26).attr("exclusive", 1).input(x).constant(axis).y(),
             reals({1, 1, 2}));
}

}  // namespace
}  // namespace trainrt
