#include <catch2/catch_test_macros.hpp>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

const Tensor kImage = reals({1, 2, 3, 4}, {1, 1, 2, 2});

OneNode sample(Tensor grid) { return OneNode("GridSample", 20).input(kImage).input(grid); }

// One place (x, y).
Tensor place(double x, double y) { return reals({x, y}, {1, 1, 1, 2}); }

Tensor value(double v) { return reals({v}, {1, 1, 1, 1}); }

TEST_CASE("GridSample: the first coordinate runs along the last axis") {
  CHECK_SAME(sample(place(0.5, -0.5)).y(), value(2));
  CHECK_SAME(sample(place(1, -1)).attr("align_corners", 1).y(), value(2));
  CHECK_SAME(sample(place(0, 0)).y(), value(2.5));
}

TEST_CASE("GridSample beyond the border: zeros, the border, its reflection") {
  CHECK_SAME(sample(place(1, -0.5)).y(), value(1));
  CHECK_SAME(sample(place(3, -0.5)).y(), value(0));
  CHECK_SAME(sample(place(3, -0.5)).attr("padding_mode", "border").y(), value(2));
  CHECK_SAME(sample(place(2.5, -0.5)).attr("padding_mode", "reflection").y(), value(1));
  CHECK_SAME(sample(place(3, -1)).attr("padding_mode", "reflection").attr("align_corners", 1).y(),
             value(1));
}

TEST_CASE("GridSample nearest has no gradient in the grid") {
  OneNode n = sample(place(0.2, 0.9)).attr("mode", "nearest");
  CHECK_SAME(n.y(), value(4));
  const auto dx = n.gradients({{0, value(5)}});
  CHECK_SAME(dx.at(0), reals({0, 0, 0, 5}, {1, 1, 2, 2}));
  CHECK_FALSE(dx.at(1).defined());
}

TEST_CASE("GridSample's gradient in the grid is the slope of the image") {
  CHECK_SAME(sample(place(0, 0)).gradient(1, value(1)), place(1, 2));
}

TEST_CASE("GridSample in one and three dims") {
  CHECK_SAME(
      OneNode("GridSample", 20).input(reals({1, 3}, {1, 1, 2})).input(reals({0}, {1, 1, 1})).y(),
      reals({2}, {1, 1, 1}));
  CHECK_SAME(OneNode("GridSample", 20)
                 .input(reals({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 2, 2}))
                 .input(reals({0, 0, 0}, {1, 1, 1, 1, 3}))
                 .y(),
             reals({4.5}, {1, 1, 1, 1, 1}));
}

TEST_CASE("GridSample of integers computes with floats and cuts off") {
  const Tensor x = ints({1, 2, 3, 9}, {1, 1, 2, 2}).to(DType::kInt32);
  const auto at = [&](double u, double v) {
    return OneNode("GridSample", 22).input(x).input(place(u, v)).y();
  };
  CHECK_SAME(at(0, 0), ints({3}, {1, 1, 1, 1}).to(DType::kInt32));  // of 3.75
  CHECK_SAME(at(0.5, 0.5), ints({9}, {1, 1, 1, 1}).to(DType::kInt32));
}

TEST_CASE("GridSample in four dims") {
  const Tensor x = reals({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 1, 2, 2});
  CHECK_SAME(OneNode("GridSample", 20).input(x).input(reals({0, 0, 0, 0}, {1, 1, 1, 1, 1, 4})).y(),
             reals({4.5}, {1, 1, 1, 1, 1, 1}));
}

TEST_CASE("Col2Im adds blocks up, of integers too") {
  const auto sum = [](Tensor x) {
    return OneNode("Col2Im", 18).input(x).constant(ints({4})).constant(ints({2})).y();
  };
  const Tensor blocks = ints({1, 2, 3, 10, 20, 30}, {1, 2, 3}),
               y = ints({1, 12, 23, 30}, {1, 1, 4});
  CHECK_SAME(sum(blocks.to(DType::kFloat64)), y.to(DType::kFloat64));
  CHECK_SAME(sum(blocks.to(DType::kInt32)), y.to(DType::kInt32));
  CHECK_SAME(sum(ints({0, 200, 0, 100, 0, 0}, {1, 2, 3}).to(DType::kUInt8)),
             ints({0, 44, 0, 0}, {1, 1, 4}).to(DType::kUInt8));
  CHECK(OneNode("Col2Im", 18).input(blocks).constant(ints({4})).constant(ints({2})).refusal() ==
        "no_lowering");
}

TEST_CASE("GridSample refuses a grid of another rank and unknown modes") {
  CHECK(sample(reals({0, 0, 0}, {1, 1, 1, 3})).refusal() == "invalid");
  CHECK(sample(place(0, 0)).attr("mode", "area").refusal() == "invalid");
  CHECK(sample(place(0, 0)).attr("padding_mode", "wrap").refusal() == "invalid");
}

TEST_CASE("AffineGrid spans [-1, 1] by cells or by corners") {
  const Tensor theta = reals({1, 0, 0, 0, 2, 1}, {1, 2, 3});
  const auto grid = [&](int align) {
    return OneNode("AffineGrid", 20)
        .attr("align_corners", align)
        .input(theta)
        .constant(ints({1, 1, 1, 2}))
        .y();
  };
  CHECK_SAME(grid(0), reals({-0.5, 1, 0.5, 1}, {1, 1, 2, 2}));
  CHECK_SAME(grid(1), reals({-1, 1, 1, 1}, {1, 1, 2, 2}));
  CHECK(OneNode("AffineGrid", 20).input(theta).constant(ints({2, 1, 1, 2})).refusal() == "invalid");
}

}  // namespace
}  // namespace trainrt
