#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

Tensor ids(std::initializer_list<int64_t> v, Shape shape) { return tensor<int64_t>(v, shape); }

TEST_CASE("Gather takes entries along an axis, counted from the end when negative") {
  const Tensor x = counting({3, 2});
  check_close(eval(Op::kGather, {x, ids({2, -3, 2}, {3})}, AxisAttrs{0}), {4, 5, 0, 1, 4, 5});
  check_close(eval(Op::kGather, {x, ids({1}, {})}, AxisAttrs{1}), {1, 3, 5});
  CHECK(eval(Op::kGather, {x, ids({0, 0, 1, 1}, {2, 2})}, AxisAttrs{1}).shape() == Shape{3, 2, 2});
  check_close(eval(Op::kGather, {vec<double>({7, 8}), vec<int32_t>({1})}, AxisAttrs{0}), {8});
  CHECK(eval(Op::kGather, {x, ids({}, {0})}, AxisAttrs{0}).shape() == Shape{0, 2});
  CHECK(values<bool>(eval(Op::kGather, {vec<bool>({false, true}), ids({1, 0}, {2})},
                          AxisAttrs{0})) == std::vector<bool>{true, false});
}

TEST_CASE("an index outside its axis is named with the range") {
  const Tensor x = counting({3, 2});
  const std::string text = message_of([&] {
    eval(Op::kGather, {x, ids({0, 7}, {2})}, AxisAttrs{0});
  });
  CHECK(text.find("Gather: index 7 is outside [-3, 2]") != std::string::npos);
  CHECK(message_of([&] {
          eval(Op::kGather, {x, ids({-3}, {1})}, AxisAttrs{1});
        }).find("index -3 is outside [-2, 1]") != std::string::npos);
  CHECK_THROWS_AS(eval(Op::kGather, {Tensor(DType::kFloat64, {0}), ids({0}, {1})}, AxisAttrs{0}),
                  Error);
  CHECK_THROWS_AS(
      eval(Op::kGatherGrad, {counting({1, 2}), ids({3}, {1})}, GatherGradAttrs{0, {3, 2}}), Error);
  CHECK_THROWS_AS(eval(Op::kGatherElements, {x, ids({5}, {1, 1})}, AxisAttrs{0}), Error);
  CHECK_THROWS_AS(eval(Op::kGatherND, {x, ids({0, 2}, {1, 2})}, GatherNDAttrs{}), Error);
  CHECK_THROWS_AS(eval(Op::kScatterND, {x, ids({-4}, {1, 1}), counting({1, 2})}, ScatterAttrs{}),
                  Error);
  CHECK_THROWS_AS(
      eval(Op::kScatterElements, {x, ids({3}, {1, 1}), counting({1, 1})}, ScatterAttrs{}), Error);
}

TEST_CASE("GatherGrad adds repeated rows") {
  const Tensor dy = tensor<double>({1, 2, 3, 4, 5, 6}, {3, 2});
  check_close(eval(Op::kGatherGrad, {dy, ids({2, 0, -1}, {3})}, GatherGradAttrs{0, {3, 2}}),
              {3, 4, 0, 0, 6, 8});
  const Tensor x = noise({2, 5, 3}, 1), index = ids({4, 0, 4, -1, 2, 2}, {2, 3});
  const Tensor y = eval(Op::kGather, {x, index}, AxisAttrs{1}), g = noise(y.shape(), 2);
  const Tensor dx = eval(Op::kGatherGrad, {g, index}, GatherGradAttrs{1, {2, 5, 3}});
  CHECK(std::abs(dot(g, y) - dot(dx, x)) < 1e-12);
}

TEST_CASE("GatherElements") {
  const Tensor x = counting({2, 3});
  check_close(eval(Op::kGatherElements, {x, ids({2, -3, 1, 0}, {2, 2})}, AxisAttrs{1}),
              {2, 0, 4, 3});
  check_close(eval(Op::kGatherElements, {x, ids({1, 0, 1}, {1, 3})}, AxisAttrs{0}), {3, 1, 5});
}

TEST_CASE("GatherND with and without batch dims") {
  const Tensor x = counting({2, 2, 2});
  check_close(eval(Op::kGatherND, {x, ids({0, 1, 1, -2}, {2, 2})}, GatherNDAttrs{}), {2, 3, 4, 5});
  check_close(eval(Op::kGatherND, {x, ids({1, 0}, {2, 1})}, GatherNDAttrs{1}), {2, 3, 4, 5});
  check_close(eval(Op::kGatherND, {x, ids({1, 1, 1}, {3})}, GatherNDAttrs{}), {7});
}

TEST_CASE("ScatterElements: the last write wins, reductions see all") {
  const Tensor x = vec<double>({1, 2, 3}), index = ids({1, 1, -1}, {3}), u = vec<double>({5, 4, 0});
  const auto scatter = [&](Reduction r) {
    return eval(Op::kScatterElements, {x, index, u}, ScatterAttrs{0, r});
  };
  check_close(scatter(Reduction::kNone), {1, 4, 0});
  check_close(scatter(Reduction::kAdd), {1, 11, 3});
  check_close(scatter(Reduction::kMul), {1, 40, 0});
  check_close(scatter(Reduction::kMax), {1, 5, 3});
  check_close(scatter(Reduction::kMin), {1, 2, 0});
  check_close(
      eval(Op::kScatterElements,
           {counting({2, 3}), ids({0, 2, 1, 0}, {2, 2}), tensor<double>({9, 8, 7, 6}, {2, 2})},
           ScatterAttrs{1, Reduction::kNone}),
      {9, 1, 8, 6, 7, 5});
}

TEST_CASE("ScatterND writes blocks in order") {
  const Tensor x = counting({3, 2}), index = ids({1, -2}, {2, 1});
  const Tensor u = tensor<double>({10, 20, 30, 40}, {2, 2});
  check_close(eval(Op::kScatterND, {x, index, u}, ScatterAttrs{}), {0, 1, 30, 40, 4, 5});
  check_close(eval(Op::kScatterND, {x, index, u}, ScatterAttrs{0, Reduction::kAdd}),
              {0, 1, 42, 63, 4, 5});
  CHECK(values<int32_t>(eval(Op::kScatterND,
                             {vec<int32_t>({1, 2}), ids({1, 0}, {2, 1}), vec<int32_t>({7, 8})},
                             ScatterAttrs{})) == std::vector<int32_t>{8, 7});
  check_close(x, counting({3, 2}));
}

}  // namespace
}  // namespace trainrt::testing
