// Gradients on ties, bounds and zeros, where finite differences do not apply: the conventions.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

Tensor vec(Values v) {
  return Tensor::from<double>(std::span<const double>(v), {static_cast<int64_t>(v.size())});
}

Tensor mat(int64_t rows, Values v) {
  return Tensor::from<double>(std::span<const double>(v),
                              {rows, static_cast<int64_t>(v.size()) / rows});
}

Build op(Op o, Attrs attrs = {}) {
  return [o, attrs](Builder& b, std::span<const Var> x) { return b.add_all(o, x, attrs); };
}

Values gradient(Op o, Values x, Attrs attrs = {}) {
  return doubles(gradients_of({vec(std::move(x))}, op(o, std::move(attrs)))[0]);
}

TEST_CASE("Relu has gradient 0 at 0") {
  CHECK(gradient(Op::kRelu, {-1, 0, -0.0, 2}) == Values{0, 0, 0, 1});
}

TEST_CASE("Abs has gradient 0 at 0") { CHECK(gradient(Op::kAbs, {-1, 0, 2}) == Values{-1, 0, 1}); }

TEST_CASE("Clip has gradient 1 on its bounds") {
  CHECK(gradient(Op::kClip, {-2, -1, 0, 1, 2}, ClipAttrs{-1, 1}) == Values{0, 1, 1, 1, 0});
}

TEST_CASE("Softplus and Sigmoid saturate without NaN") {
  CHECK(gradient(Op::kSoftplus, {-1e4, 1e4}) == Values{0, 1});
  CHECK(gradient(Op::kSigmoid, {-1e4, 1e4}) == Values{0, 0});
  CHECK(gradient(Op::kTanh, {-1e4, 1e4}) == Values{0, 0});
  CHECK(gradient(Op::kErf, {-1e4, 1e4}) == Values{0, 0});
}

TEST_CASE("Sqrt has an infinite gradient at 0, as in PyTorch") {
  CHECK(gradient(Op::kSqrt, {0, 4}) == Values{kInf, 0.25});
}

TEST_CASE("Max and Min share ties evenly") {
  for (Op o : {Op::kMax, Op::kMin}) {
    const auto g = gradients_of({vec({1, 2, 3}), vec({2, 2, 1})}, op(o));
    const bool max = o == Op::kMax;
    CHECK(doubles(g[0]) == (max ? Values{0, 0.5, 1} : Values{1, 0.5, 0}));
    CHECK(doubles(g[1]) == (max ? Values{1, 0.5, 0} : Values{0, 0.5, 1}));
  }
}

TEST_CASE("what Where cuts off stays without a gradient, in and out of a function's domain") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Op o : {Op::kSqrt, Op::kLog, Op::kReciprocal, Op::kExp, Op::kAsin, Op::kAcos, Op::kAcosh,
               Op::kAtanh, Op::kTan, Op::kTanh, Op::kSigmoid, Op::kSinh, Op::kCosh, Op::kErf,
               Op::kSin, Op::kSoftplus}) {
    for (double x : {0.0, -2.0, 1.0, inf, -inf, nan, 1e300}) {
      INFO(op_info(o).name << " at " << x);
      const auto g = gradients_of({vec({x})}, [o](Builder&, std::span<const Var> v) {
        return std::vector<Var>{where(unary(Op::kIsNaN, full_like(v[0], 0)), unary(o, v[0]), v[0])};
      });
      CHECK(doubles(g[0]) == Values{1});
    }
  }
}

TEST_CASE("missing values that are masked behind a product leave the weight's gradient finite") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto g = gradients_of({vec({2, nan, 3}), vec({5})}, [](Builder&, std::span<const Var> v) {
    const Var missing = unary(Op::kIsNaN, v[0]);
    return std::vector<Var>{where(missing, 0.0, v[0] * v[1]), where(missing, 0.0, v[0] / v[1])};
  });
  CHECK(doubles(g[1]) == Values{5 - 5.0 / 25});
}

TEST_CASE("Max of a value with itself has gradient 1, not 2") {
  const auto g = gradients_of({vec({1, -2})}, [](Builder&, std::span<const Var> x) {
    return std::vector<Var>{maximum(x[0], x[0])};
  });
  CHECK(doubles(g[0]) == Values{1, 1});
}

TEST_CASE("Max shares ties through broadcasting") {
  const auto g = gradients_of({mat(2, {1, 2, 3, 2}), vec({2, 2})}, op(Op::kMax));
  CHECK(doubles(g[0]) == Values{0, 0.5, 1, 0.5});
  CHECK(doubles(g[1]) == Values{1, 1});
}

TEST_CASE("ReduceMax and ReduceMin share ties evenly") {
  for (Op o : {Op::kReduceMax, Op::kReduceMin}) {
    const double s = o == Op::kReduceMax ? 1 : -1;
    const auto g = gradients_of({mat(2, {s * 3, s * 3, s * 1, s * 2, s * 2, s * 2})},
                                op(o, ReduceAttrs{{1}, false}));
    CHECK(doubles(g[0]) == Values{0.5, 0.5, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0});
  }
}

TEST_CASE("Pow: base 0 and negative bases give finite gradients where there are any") {
  const auto g = gradients_of({vec({0, 0, 0, 0, -2, -2}), vec({0, 1, 2, 3, 2, 3})}, op(Op::kPow));
  CHECK(doubles(g[0]) == Values{0, 1, 0, 0, -4, 12});
  CHECK(doubles(g[1]) == Values{0, 0, 0, 0, 0, 0});
}

TEST_CASE("Pow: a negative base with a broken exponent keeps the exponent's gradient finite") {
  const auto g = gradients_of({vec({-2}), vec({0.5})}, op(Op::kPow));
  CHECK(doubles(g[1]) == Values{0});
}

TEST_CASE("Pow: constant exponents are finite at base 0") {
  for (double b : {0.0, 1.0, 2.0, 3.0}) {
    const auto g = gradients_of({vec({0})}, [b](Builder&, std::span<const Var> x) {
      return std::vector<Var>{pow(x[0], b)};
    });
    CHECK(doubles(g[0]) == Values{b == 1 ? 1.0 : 0.0});
  }
}

TEST_CASE("ReduceProd with zeros: only a lone zero has a gradient") {
  const auto g = gradients_of({mat(3, {2, 3, 4, 0, 3, 4, 0, 0, 4})},
                              op(Op::kReduceProd, ReduceAttrs{{1}, true}));
  CHECK(doubles(g[0]) == Values{12, 8, 6, 12, 0, 0, 0, 0, 0});
}

TEST_CASE("Where keeps the branch not taken at 0") {
  Tensor c(DType::kBool, {3});
  static_cast<uint8_t*>(c.raw())[1] = 1;
  const auto g = gradients_of({c, vec({1, 2, 3}), vec({4, 5, 6})}, op(Op::kWhere));
  CHECK(doubles(g[1]) == Values{0, 1, 0});
  CHECK(doubles(g[2]) == Values{1, 0, 1});
}

TEST_CASE("MaxPool: the first maximum takes it all") {
  const Tensor x = Tensor::from<double>({1, 1, 1, 1, 0, 2, 2, 0}, {1, 1, 8});
  const auto g = gradients_of(
      {x}, op(Op::kMaxPool, PoolAttrs{{2}, {2}, {1}, {0}, {0}, {4}, false, false, {}}));
  CHECK(doubles(g[0]) == Values{1, 0, 1, 0, 0, 1, 1, 0});
}

TEST_CASE("TopK: ties go to the lowest index") {
  const auto g = gradients_of({vec({1, 3, 3, 3})}, [](Builder& b, std::span<const Var> x) {
    return std::vector<Var>{b.add(Op::kTopK, {x[0]}, TopKAttrs{0, 2, true})};
  });
  CHECK(doubles(g[0]) == Values{0, 1, 1, 0});
}

TEST_CASE("Softmax with masked entries: gradient 0 there, never NaN") {
  const Tensor dy = vec({1, 2, 3});
  const auto g = gradients_of({vec({0, -kInf, 0})}, op(Op::kSoftmax, AxisAttrs{0}), {dy});
  CHECK(doubles(g[0]) == Values{-0.5, 0, 0.5});
}

TEST_CASE("Scatter: an overwritten update gets 0, the last write wins") {
  const auto elements =
      gradients_of({vec({1, 2, 3}), Tensor::from<int64_t>({1, 1, 0}, {3}), vec({5, 6, 7})},
                   op(Op::kScatterElements, ScatterAttrs{}), {vec({10, 20, 30})});
  CHECK(doubles(elements[0]) == Values{0, 0, 30});
  CHECK(doubles(elements[2]) == Values{0, 20, 10});
  const auto nd =
      gradients_of({vec({1, 2, 3}), Tensor::from<int64_t>({2, -1, 0}, {3, 1}), vec({5, 6, 7})},
                   op(Op::kScatterND, ScatterAttrs{}), {vec({10, 20, 30})});
  CHECK(doubles(nd[0]) == Values{0, 20, 0});
  CHECK(doubles(nd[2]) == Values{0, 30, 10});
}

TEST_CASE("Scatter: an update that equals the one that overwrites it gets 0 too") {
  const auto g = gradients_of({vec({1, 2}), Tensor::from<int64_t>({0, 0}, {2}), vec({5, 5})},
                              op(Op::kScatterElements, ScatterAttrs{}));
  CHECK(doubles(g[2]) == Values{0, 1});
}

TEST_CASE("Scatter with max and min shares ties evenly") {
  for (Reduction r : {Reduction::kMax, Reduction::kMin}) {
    const auto g =
        gradients_of({vec({5, 2}), Tensor::from<int64_t>({0, 0, 1}, {3}), vec({5, 5, 2})},
                     op(Op::kScatterElements, ScatterAttrs{0, r}), {vec({3, 4})});
    CHECK(doubles(g[0]) == Values{1, 2});
    CHECK(doubles(g[2]) == Values{1, 1, 2});
  }
}

TEST_CASE("Gather adds up repeated indices") {
  const auto g = gradients_of({vec({1, 2, 3}), Tensor::from<int64_t>({2, 2, -1, 0}, {4})},
                              op(Op::kGather, AxisAttrs{0}), {vec({1, 2, 4, 8})});
  CHECK(doubles(g[0]) == Values{8, 0, 7});
}

TEST_CASE("LayerNorm of constant rows stays finite") {
  const auto g =
      gradients_of({mat(1, {2, 2, 2}), vec({1, 1, 1}), vec({0, 0, 0})},
                   [](Builder& b, std::span<const Var> x) {
                     return std::vector<Var>{b.add_all(Op::kLayerNorm, x, NormAttrs{1, 1e-5})[0]};
                   },
                   {mat(1, {1, 2, 3})});
  for (double v : doubles(g[0])) CHECK(std::isfinite(v));
}

TEST_CASE("CrossEntropy: ignored positions get no gradient") {
  const auto g = gradients_of({mat(2, {1, 1, 1, 1}), Tensor::from<int64_t>({-100, 0}, {2})},
                              op(Op::kCrossEntropy, LossAttrs{}));
  CHECK(doubles(g[0]) == Values{0, 0, -0.5, 0.5});
}

}  // namespace
}  // namespace trainrt::test
