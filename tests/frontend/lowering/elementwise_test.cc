#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

OneNode node(std::string op, int64_t opset = 17) { return OneNode(std::move(op), opset); }

Tensor int32s(std::initializer_list<int32_t> values) {
  return Tensor::from<int32_t>(values, {static_cast<int64_t>(values.size())});
}

TEST_CASE("integer Div truncates towards zero") {
  CHECK_SAME(node("Div").input(ints({7, -7, 7})).input(ints({2, 2, -2})).y(), ints({3, -3, -3}));
}

TEST_CASE("Mod takes the divisor's sign, fmod the dividend's") {
  CHECK_SAME(node("Mod").input(ints({7, -7, 7})).input(ints({3, 3, -3})).y(), ints({1, 2, -2}));
  CHECK_SAME(node("Mod").attr("fmod", 1).input(ints({7, -7, 7})).input(ints({3, 3, -3})).y(),
             ints({1, -1, 1}));
  CHECK_SAME(node("Mod").attr("fmod", 1).input(reals({5.5, -5.5})).input(reals({2, 2})).y(),
             reals({1.5, -1.5}));
}

TEST_CASE("Pow keeps the base's type") {
  CHECK_SAME(node("Pow").input(ints({2, -3})).input(reals({3, 2})).y(), ints({8, 9}));
  CHECK_SAME(node("Pow").input(reals({4, 9})).input(int32s({2, 1})).y(), reals({16, 9}));
  CHECK_SAME(node("Pow").input(ints({5, -2})).constant(ints({3}, {})).y(), ints({125, -8}));
}

TEST_CASE("Pow with a known exponent broadcasts its rank") {
  CHECK_SAME(node("Pow").input(reals({3})).constant(reals({2}, {1, 1})).y(), reals({9}, {1, 1}));
}

TEST_CASE("Pow has a finite gradient at base zero where the true one is") {
  const Tensor zero = reals({0}), one = reals({1});
  CHECK_SAME(node("Pow").input(zero).constant(real(2)).gradient(0, one), reals({0}));
  CHECK_SAME(node("Pow").input(zero).constant(real(1)).gradient(0, one), reals({1}));
  CHECK_SAME(node("Pow").input(zero).constant(real(3)).gradient(0, one), reals({0}));
}

TEST_CASE("Sum, Mean, Max and Min take any number of operands and broadcast") {
  const Tensor a = reals({1, 2}), b = real(3), c = reals({0, 5}, {1, 2});
  CHECK_SAME(node("Sum").input(a).input(b).input(c).y(), reals({4, 10}, {1, 2}));
  CHECK_SAME(node("Mean").input(a).input(b).input(c).y(), reals({4.0 / 3, 10.0 / 3}, {1, 2}));
  CHECK_SAME(node("Max").input(a).input(b).input(c).y(), reals({3, 5}, {1, 2}));
  CHECK_SAME(node("Min").input(a).input(b).input(c).y(), reals({0, 2}, {1, 2}));
  CHECK_SAME(node("Max").input(a).y(), a);
}

TEST_CASE("ties of three operands share the gradient evenly") {
  OneNode n = node("Max").input(reals({2})).input(reals({2})).input(reals({2}));
  for (int i = 0; i < 3; ++i) CHECK_SAME(n.gradient(i, reals({3})), reals({1}));
}

TEST_CASE("IsInf tells the signs apart") {
  const Tensor x = reals({kInf, -kInf, 1});
  CHECK_SAME(node("IsInf").input(x).y(), bools({true, true, false}, {3}));
  CHECK_SAME(node("IsInf").attr("detect_negative", 0).input(x).y(),
             bools({true, false, false}, {3}));
  CHECK_SAME(node("IsInf").attr("detect_positive", 0).input(x).y(),
             bools({false, true, false}, {3}));
  CHECK_SAME(node("IsInf").attr("detect_positive", 0).attr("detect_negative", 0).input(x).y(),
             bools({false, false, false}, {3}));
}

TEST_CASE("BitShift shifts unsigned and signed numbers") {
  const Tensor x = ints({16, 4}).to(DType::kUInt8), by = ints({1, 8}).to(DType::kUInt8);
  CHECK_SAME(node("BitShift").attr("direction", "RIGHT").input(x).input(by).y(),
             ints({8, 0}).to(DType::kUInt8));
  CHECK_SAME(node("BitShift", 28)
                 .attr("direction", "RIGHT")
                 .input(ints({-8, -8, 8, 8}))
                 .input(ints({1, 64, 1, -1}))
                 .y(),
             ints({-4, -1, 4, 0}));
  CHECK_SAME(
      node("BitShift", 28).attr("direction", "LEFT").input(ints({-8, 3})).input(ints({1, 70})).y(),
      ints({-16, 0}));
  CHECK(node("BitShift").attr("direction", "UP").input(x).input(by).refusal() == "invalid");
}

TEST_CASE("Cast to an integer truncates and has no gradient") {
  CHECK_SAME(node("Cast").attr("to", 7).input(reals({1.9, -1.9})).y(), ints({1, -1}));
  CHECK_SAME(node("Cast").attr("to", 9).input(reals({0.5, 0})).y(), bools({true, false}, {2}));
}

TEST_CASE("Cast between floats stays in the working type") {
  CHECK_SAME(node("Cast").attr("to", 10).input(reals({1.0 / 3})).y(), reals({1.0 / 3}));
  CHECK_SAME(node("CastLike", 15).input(ints({2})).input(reals({0})).y(), reals({2}));
}

TEST_CASE("Cast to strings is refused") {
  CHECK(node("Cast").attr("to", 8).input(reals({1})).refusal() == "no_lowering");
}

TEST_CASE("Clip with attributes, known and unknown bounds agree") {
  const Tensor x = reals({-2, -1, 0, 1, 2}), y = reals({-1, -1, 0, 1, 1});
  CHECK_SAME(node("Clip", 6).attr("min", -1.0).attr("max", 1.0).input(x).y(), y);
  CHECK_SAME(node("Clip").input(x).constant(real(-1)).constant(real(1)).y(), y);
  CHECK_SAME(node("Clip").input(x).input(real(-1)).input(real(1)).y(), y);
  CHECK_SAME(node("Clip").input(x).absent().input(real(1)).y(), reals({-2, -1, 0, 1, 1}));
  CHECK_SAME(node("Clip").input(x).y(), x);
}

TEST_CASE("Clip has gradient 1 on its bounds") {
  const Tensor x = reals({-2, -1, 0, 1, 2}), dy = reals({1, 2, 3, 4, 5}),
               dx = reals({0, 2, 3, 4, 0});
  CHECK_SAME(node("Clip").input(x).constant(real(-1)).constant(real(1)).gradient(0, dy), dx);
  CHECK_SAME(node("Clip").input(x).input(real(-1)).input(real(1)).gradient(0, dy), dx);
}

TEST_CASE("Clip whose lower bound is above the upper one gives the upper one") {
  CHECK_SAME(node("Clip").input(reals({0, 9})).constant(real(3)).constant(real(1)).y(),
             reals({1, 1}));
  CHECK_SAME(node("Clip").input(reals({0, 9})).input(real(3)).input(real(1)).y(), reals({1, 1}));
}

TEST_CASE("Clip of integers") {
  CHECK_SAME(node("Clip").input(ints({-5, 0, 5})).constant(ints({-1}, {})).input(ints({2}, {})).y(),
             ints({-1, 0, 2}));
}

TEST_CASE("Clip refuses a bound with several elements") {
  CHECK(node("Clip").input(reals({0, 1})).input(reals({0, 0})).refusal() == "invalid");
}

TEST_CASE("activations at their kink take the documented slope") {
  struct Row {
    const char* op;
    double x, slope;
  };
  for (const Row& r : {Row{"Relu", 0, 0}, Row{"LeakyRelu", 0, 0.25}, Row{"Abs", 0, 0},
                       Row{"Elu", 0, 0.25}, Row{"HardSigmoid", -2, 0}, Row{"HardSigmoid", 2, 0}}) {
    INFO(r.op << " at " << r.x);
    OneNode n = node(r.op);
    n.attr("alpha", 0.25).input(reals({r.x}));
    CHECK_SAME(n.gradient(0, reals({1})), reals({r.slope}));
  }
  CHECK_SAME(node("PRelu").input(reals({0})).input(reals({0.125})).gradient(0, reals({1})),
             reals({0.125}));
}

TEST_CASE("activations have finite gradients far out") {
  for (const char* op : {"Elu", "Selu", "Celu", "Softplus", "Mish", "Gelu", "Sigmoid", "Tanh",
                         "Softsign", "HardSwish", "Swish"}) {
    INFO(op);
    const Tensor dx = OneNode(op, 24).input(reals({-800, 800})).gradient(0, reals({1, 1}));
    for (double v : dx.data<double>()) CHECK(std::isfinite(v));
  }
}

TEST_CASE("activations pass NaN on") {
  for (const char* op :
       {"LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish", "Shrink"}) {
    INFO(op);
    const Tensor y = node(op).input(reals({kNan})).y();
    if (std::string_view(op) == "Shrink") {
      CHECK_SAME(y, reals({0}));
    } else {
      CHECK(std::isnan(y.item()));
    }
  }
}

TEST_CASE("activations' values") {
  const double e = std::exp(-1.0);
  CHECK_SAME(node("Elu").attr("alpha", 2.0).input(reals({-1, 1})).y(), reals({2 * (e - 1), 1}));
  CHECK_SAME(node("Celu").attr("alpha", 0.5).input(reals({-0.5, 2})).y(),
             reals({0.5 * (e - 1), 2}));
  CHECK_SAME(node("ThresholdedRelu").attr("alpha", 1.0).input(reals({1, 1.5})).y(),
             reals({0, 1.5}));
  CHECK_SAME(node("Shrink").attr("lambd", 1.0).attr("bias", 0.5).input(reals({-2, 0, 2})).y(),
             reals({-1.5, 0, 1.5}));
  CHECK_SAME(node("Softsign").input(reals({-1, 3})).y(), reals({-0.5, 0.75}));
  CHECK_SAME(node("HardSwish").input(reals({-4, 0, 3, 6})).y(), reals({0, 0, 3, 6}));
  CHECK_SAME(OneNode("SwiGLU", 28).input(reals({0, 1})).input(reals({5, 2})).y(),
             reals({0, 2 / (1 + e)}));
}

TEST_CASE("integer activations") {
  CHECK_SAME(node("Relu").input(ints({-3, 4})).y(), ints({0, 4}));
  CHECK_SAME(node("Shrink").attr("lambd", 1.5).attr("bias", 1.0).input(ints({-3, 1, 3})).y(),
             ints({-2, 0, 2}));
}

TEST_CASE("PRelu refuses a slope that is larger than its input") {
  CHECK(node("PRelu").input(reals({1})).input(reals({1, 2})).refusal() == "invalid");
}

TEST_CASE("Gelu refuses an unknown approximation") {
  CHECK(node("Gelu", 20).attr("approximate", "fast").input(reals({1})).refusal() == "invalid");
}

TEST_CASE("Where broadcasts all three operands") {
  CHECK_SAME(
      node("Where").input(bools({true, false}, {2, 1})).input(reals({1, 2})).input(real(9)).y(),
      reals({1, 2, 9, 9}, {2, 2}));
}

TEST_CASE("operands of different types are refused") {
  CHECK(node("Add").input(reals({1})).input(ints({1})).refusal() == "invalid");
  CHECK(node("Add").input(reals({1, 2})).input(reals({1, 2, 3})).refusal() == "invalid");
  CHECK(node("Add").input(reals({1})).refusal() == "invalid");
}

}  // namespace
}  // namespace trainrt
