#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode node(std::string op, int64_t opset = 18) { return OneNode(std::move(op), opset); }

const Tensor kMatrix = reals({1, 2, 3, 4, 5, 6}, {2, 3});

TEST_CASE("Gather takes negative indices of any rank") {
  CHECK_SAME(node("Gather").attr("axis", 1).input(kMatrix).input(ints({-1, 0}, {2, 1})).y(),
             reals({3, 1, 6, 4}, {2, 2, 1}));
  CHECK_SAME(node("Gather").input(kMatrix).constant(ints({-1}, {})).y(), reals({4, 5, 6}));
  CHECK_SAME(node("Gather").input(kMatrix).constant(ints({1})).y(), reals({4, 5, 6}, {1, 3}));
}

TEST_CASE("Gather checks known indices when the plan is built") {
  CHECK(node("Gather").input(kMatrix).constant(ints({2})).refusal() == "invalid");
  CHECK(node("Gather").input(kMatrix).constant(ints({-3}, {})).refusal() == "invalid");
  CHECK(node("Gather").attr("axis", 2).input(kMatrix).constant(ints({0})).refusal() == "invalid");
}

TEST_CASE("Gather of one known index has the gradient of a slice") {
  CHECK_SAME(node("Gather")
                 .attr("axis", 1)
                 .input(kMatrix)
                 .constant(ints({1}, {}))
                 .gradient(0, reals({7, 8})),
             reals({0, 7, 0, 0, 8, 0}, {2, 3}));
}

TEST_CASE("GatherElements and GatherND") {
  CHECK_SAME(node("GatherElements").attr("axis", 1).input(kMatrix).input(ints({-1, 0}, {1, 2})).y(),
             reals({3, 1}, {1, 2}));
  CHECK_SAME(node("GatherND").input(kMatrix).input(ints({0, 1, -1, -1}, {2, 2})).y(),
             reals({2, 6}));
  CHECK_SAME(node("GatherND").attr("batch_dims", 1).input(kMatrix).input(ints({2, 0}, {2, 1})).y(),
             reals({3, 4}));
}

TEST_CASE("ScatterElements with every reduction") {
  const Tensor x = reals({1, 2, 3}), i = ints({1, 1}), u = reals({5, 4});
  CHECK_SAME(node("ScatterElements").input(x).input(i).input(u).y(), reals({1, 4, 3}));
  CHECK_SAME(node("Scatter", 9).input(x).input(i).input(u).y(), reals({1, 4, 3}));
  const std::pair<const char*, double> rows[] = {{"add", 11}, {"mul", 40}, {"max", 5}, {"min", 2}};
  for (const auto& [reduction, value] : rows) {
    CHECK_SAME(node("ScatterElements").attr("reduction", reduction).input(x).input(i).input(u).y(),
               reals({1, value, 3}));
  }
  CHECK(node("ScatterElements").attr("reduction", "avg").input(x).input(i).input(u).refusal() ==
        "invalid");
}

TEST_CASE("ScatterND writes slices") {
  CHECK_SAME(
      node("ScatterND").input(kMatrix).input(ints({1}, {1, 1})).input(reals({7, 8, 9}, {1, 3})).y(),
      reals({1, 2, 3, 7, 8, 9}, {2, 3}));
}

TEST_CASE("TensorScatter writes at an index per batch") {
  const Tensor cache = reals({1, 2, 3, 4, 5, 6}, {2, 3, 1}),
               update = reals({7, 8, 9, 10}, {2, 2, 1});
  CHECK_SAME(node("TensorScatter", 24).input(cache).input(update).input(ints({1, 0})).y(),
             reals({1, 7, 8, 9, 10, 6}, {2, 3, 1}));
  CHECK_SAME(node("TensorScatter", 24)
                 .attr("mode", "circular")
                 .input(cache)
                 .input(update)
                 .input(ints({2, 1}))
                 .y(),
             reals({8, 2, 7, 4, 9, 10}, {2, 3, 1}));
  CHECK_SAME(node("TensorScatter", 24).input(cache).input(update).y(),
             reals({7, 8, 3, 9, 10, 6}, {2, 3, 1}));
}

TEST_CASE("OneHot wraps negative indices and leaves others off") {
  CHECK_SAME(
      node("OneHot").input(ints({1, -1, 3})).constant(ints({3})).constant(reals({-1, 2})).y(),
      reals({-1, 2, -1, -1, -1, 2, -1, -1, -1}, {3, 3}));
  CHECK_SAME(node("OneHot")
                 .attr("axis", 0)
                 .input(reals({1, 0}))
                 .constant(real(2))
                 .constant(ints({0, 1}))
                 .y(),
             ints({0, 1, 1, 0}, {2, 2}));
  CHECK(node("OneHot")
            .input(ints({0}))
            .constant(ints({int64_t{1} << 40}))
            .constant(reals({0, 1}))
            .refusal() == "invalid");
}

TEST_CASE("OneHot of opset 9 leaves negative indices off") {
  CHECK_SAME(node("OneHot", 9).input(ints({1, -1})).constant(ints({2})).constant(reals({0, 1})).y(),
             reals({0, 1, 0, 0}, {2, 2}));
}

TEST_CASE("TopK in all forms, ties to the lowest index") {
  const Tensor x = reals({3, 1, 3, 2});
  auto y = node("TopK", 9).attr("k", 2).input(x).outputs(2).run();
  CHECK_SAME(y[0], reals({3, 3}));
  CHECK_SAME(y[1], ints({0, 2}));
  y = node("TopK", 11).attr("largest", 0).input(x).constant(ints({3})).outputs(2).run();
  CHECK_SAME(y[0], reals({1, 2, 3}));
  CHECK_SAME(y[1], ints({1, 3, 0}));
  CHECK(node("TopK", 11).input(x).constant(ints({5})).outputs(2).refusal() == "invalid");
}

TEST_CASE("Compress takes a known condition, shorter than the axis or not") {
  CHECK_SAME(
      node("Compress").attr("axis", 1).input(kMatrix).constant(bools({false, true}, {2})).y(),
      reals({2, 5}, {2, 1}));
  CHECK_SAME(node("Compress").input(kMatrix).constant(bools({true, false, false, true}, {4})).y(),
             reals({1, 4}));
  CHECK(node("Compress").input(kMatrix).input(bools({true}, {1})).refusal() == "dynamic");
}

TEST_CASE("NonZero lists coordinates by axis") {
  CHECK_SAME(node("NonZero").constant(reals({0, 0.5, 3, 0}, {2, 2})).y(),
             ints({0, 1, 1, 0}, {2, 2}));
  CHECK(node("NonZero").constant(reals({0, 0})).y().shape() == Shape{1, 0});
}

TEST_CASE("Unique sorts, or keeps the order of first occurrence") {
  const Tensor x = reals({2, 1, 1, 3, 4, 3});
  auto y = node("Unique").constant(x).outputs(4).run();
  CHECK_SAME(y[0], reals({1, 2, 3, 4}));
  CHECK_SAME(y[1], ints({1, 0, 3, 4}));
  CHECK_SAME(y[2], ints({1, 0, 0, 2, 3, 2}));
  CHECK_SAME(y[3], ints({2, 1, 2, 1}));
  y = node("Unique").attr("sorted", 0).constant(x).outputs(4).run();
  CHECK_SAME(y[0], reals({2, 1, 3, 4}));
  CHECK_SAME(y[1], ints({0, 1, 3, 4}));
  CHECK_SAME(y[2], ints({0, 1, 1, 2, 3, 2}));
  CHECK_SAME(y[3], ints({1, 2, 2, 1}));
}

TEST_CASE("Unique puts NaN last, once") {
  const double nan = std::nan("");
  const auto y = node("Unique").constant(reals({nan, 1, nan, 0})).outputs(4).run();
  CHECK_SAME(y[0], reals({0, 1, nan}));
  CHECK_SAME(y[1], ints({3, 1, 0}));
  CHECK_SAME(y[2], ints({2, 1, 2, 0}));
  CHECK_SAME(y[3], ints({1, 1, 2}));
}

TEST_CASE("Unique of nothing and of empty rows") {
  auto y = node("Unique").constant(reals({})).outputs(4).run();
  for (const Tensor& t : y) CHECK(t.shape() == Shape{0});
  y = node("Unique").attr("axis", 0).constant(Tensor(DType::kFloat64, {3, 0})).outputs(4).run();
  CHECK(y[0].shape() == Shape{1, 0});
  CHECK_SAME(y[2], ints({0, 0, 0}));
}

TEST_CASE("Unique along an axis") {
  const Tensor x = reals({1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1}, {2, 4, 2});
  const auto y = node("Unique").attr("axis", 1).constant(x).outputs(4).run();
  CHECK_SAME(y[0], reals({0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1}, {2, 3, 2}));
  CHECK_SAME(y[1], ints({1, 0, 2}));
  CHECK_SAME(y[2], ints({1, 0, 2, 0}));
  CHECK_SAME(y[3], ints({2, 1, 1}));
}

}  // namespace
}  // namespace trainrt
