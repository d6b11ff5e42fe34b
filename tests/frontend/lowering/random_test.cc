#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode node(std::string op, int64_t opset) { return OneNode(std::move(op), opset); }

double mean_of(const Tensor& t) {
  const Tensor wide = t.to(DType::kFloat64);
  double sum = 0;
  for (double v : wide.data<double>()) sum += v;
  return sum / static_cast<double>(t.size());
}

TEST_CASE("Multinomial draws class ids as often as softmax says") {
  // Probabilities 0.1, 0, 0.6, 0.3, not normalised.
  const double never = -std::numeric_limits<double>::infinity();
  const Tensor x = reals({std::log(1), never, std::log(6), std::log(3), 0, -50, -50, -50}, {2, 4});
  const Tensor y = node("Multinomial", 7).attr("sample_size", 20000).attr("dtype", 7).input(x).y();
  REQUIRE(y.shape() == Shape{2, 20000});
  std::array<int, 4> counts{};
  for (int64_t i : y.rows(0, 1).to_ints()) ++counts.at(static_cast<size_t>(i));
  CHECK(std::abs(counts[0] - 2000) < 200);
  CHECK(counts[1] == 0);
  CHECK(std::abs(counts[2] - 12000) < 350);
  CHECK(mean_of(y.rows(1, 2)) == 0);
}

TEST_CASE("Multinomial: types, sizes, refusals") {
  const Tensor x = reals({1, 2}, {1, 2});
  CHECK(node("Multinomial", 22).input(x).y().dtype() == DType::kInt32);
  CHECK(node("Multinomial", 22).input(x).y().shape() == Shape{1, 1});
  CHECK(node("Multinomial", 7).input(Tensor(DType::kFloat64, {0, 2})).y().shape() == Shape{0, 1});
  CHECK(node("Multinomial", 7).input(Tensor(DType::kFloat64, {2, 0})).refusal() == "invalid");
  CHECK(node("Multinomial", 7).input(reals({1})).refusal() == "invalid");
  CHECK(node("Multinomial", 7).attr("dtype", 1).input(x).refusal() == "invalid");
  CHECK(node("Multinomial", 7).attr("sample_size", -1).input(x).refusal() == "invalid");
  CHECK_FALSE(node("Multinomial", 7).input(x).gradients({{0, ints({0}, {1, 1})}}).at(0).defined());
}

TEST_CASE("Bernoulli: certain events, shares, types") {
  CHECK_SAME(node("Bernoulli", 15).input(reals({0, 1, 0, 1})).y(), reals({0, 1, 0, 1}));
  CHECK_SAME(node("Bernoulli", 22).attr("dtype", 9).input(reals({1, 0})).y(),
             bools({true, false}, {2}));
  Tensor p(DType::kFloat64, {20000});
  p.fill(0.25);
  CHECK(std::abs(mean_of(node("Bernoulli", 15).attr("dtype", 7).input(p).y()) - 0.25) < 0.015);
}

TEST_CASE("uniform and normal numbers") {
  const std::vector<int64_t> shape = {100, 200};
  const Tensor u =
      node("RandomUniform", 1).attr("shape", shape).attr("low", 2.0).attr("high", 4.0).y();
  CHECK(u.shape() == shape);
  CHECK(std::abs(mean_of(u) - 3) < 0.02);
  for (double v : u.data<double>()) CHECK_FALSE((v < 2 || v >= 4));
  const Tensor n =
      node("RandomNormal", 22).attr("shape", shape).attr("mean", -1.0).attr("scale", 3.0).y();
  CHECK(std::abs(mean_of(n) + 1) < 0.1);
  CHECK(node("RandomNormal", 1).attr("shape", std::vector<int64_t>{}).y().shape().empty());
  CHECK(node("RandomNormal", 1).attr("shape", std::vector<int64_t>{-1}).refusal() == "invalid");
  CHECK(node("RandomUniform", 1).refusal() == "invalid");
}

TEST_CASE("RandomNormalLike and RandomUniformLike copy the shape") {
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"}) {
    CHECK(node(op, 1).input(reals({1, 2}, {2, 1})).y().shape() == Shape{2, 1});
    CHECK(node(op, 22).attr("dtype", 1).input(ints({1, 2})).y().dtype() == DType::kFloat64);
    CHECK(node(op, 1).input(ints({1})).refusal() == "invalid");
  }
}

}  // namespace
}  // namespace trainrt
