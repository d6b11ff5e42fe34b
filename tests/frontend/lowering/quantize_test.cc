// Numbers by ONNX's reference implementation and ONNX Runtime.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode node(std::string op, int64_t opset = 17) { return OneNode(std::move(op), opset); }

const double kInfinity = std::numeric_limits<double>::infinity();
const double kNothing = std::numeric_limits<double>::quiet_NaN();

// Element types that have no DType.
constexpr int kE4M3FN = 17, kE4M3FNUZ = 18, kE5M2 = 19, kE5M2FNUZ = 20, kUint4 = 21, kInt4 = 22,
              kE2M1 = 23, kE8M0 = 24, kUint2 = 25, kInt2 = 26;

Tensor bytes(std::initializer_list<int64_t> values, Shape shape) {
  return ints(values, std::move(shape)).to(DType::kUInt8);
}
Tensor signed_bytes(std::initializer_list<int64_t> values, Shape shape) {
  return ints(values, std::move(shape)).to(DType::kInt8);
}

TEST_CASE("QuantizeLinear rounds to even and saturates") {
  CHECK_SAME(node("QuantizeLinear").input(reals({1, 3, -9, 999})).input(real(2)).y(),
             ints({0, 2, 0, 255}).to(DType::kUInt8));
  CHECK_SAME(node("QuantizeLinear")
                 .input(reals({1, 3, -999, 999}))
                 .input(real(2))
                 .input(ints({1}, {}).to(DType::kInt8))
                 .y(),
             ints({1, 3, -128, 127}).to(DType::kInt8));
}

TEST_CASE("DequantizeLinear per tensor, per axis and per block") {
  const Tensor x = ints({1, 2, 3, 4}, {2, 2}).to(DType::kInt8);
  CHECK_SAME(node("DequantizeLinear").input(x).input(real(0.5)).y(),
             reals({0.5, 1, 1.5, 2}, {2, 2}));
  CHECK_SAME(node("DequantizeLinear")
                 .attr("axis", 0)
                 .input(x)
                 .input(reals({1, 2}))
                 .input(ints({1, 2}).to(DType::kInt8))
                 .y(),
             reals({0, 1, 2, 4}, {2, 2}));
  CHECK_SAME(
      node("DequantizeLinear", 21).attr("block_size", 2).input(x).input(reals({1, 10}, {2, 1})).y(),
      reals({1, 2, 30, 40}, {2, 2}));
  CHECK(node("DequantizeLinear").input(x).input(reals({1, 2, 3})).refusal() == "invalid");
}

TEST_CASE("DynamicQuantizeLinear includes zero in its range") {
  const auto y = node("DynamicQuantizeLinear").input(reals({51, 255})).outputs(3).run();
  CHECK_SAME(y[0], ints({51, 255}).to(DType::kUInt8));
  CHECK_SAME(y[1], real(1));
  CHECK_SAME(y[2], ints({0}, {}).to(DType::kUInt8));
}

TEST_CASE("QuantizeLinear: the zero point's type, or the one asked for") {
  const auto of = [](OneNode n) {
    return n.input(reals({-40000, -1.5, 2.5, 40000, 1e9})).input(real(1));
  };
  CHECK_SAME(of(node("QuantizeLinear", 21)).input(ints({0}, {}).to(DType::kInt16)).y(),
             ints({-32768, -2, 2, 32767, 32767}).to(DType::kInt16));
  CHECK_SAME(of(node("QuantizeLinear", 21).attr("output_dtype", 4)).y(),
             ints({0, 0, 2, 40000, 65535}).to(DType::kUInt16));
  CHECK_SAME(of(node("QuantizeLinear", 21).attr("output_dtype", kInt4)).y(),
             signed_bytes({-8, -2, 2, 7, 7}, {5}));
  CHECK_SAME(of(node("QuantizeLinear", 25).attr("output_dtype", kInt2)).y(),
             signed_bytes({-2, -2, 1, 1, 1}, {5}));
  CHECK_SAME(of(node("QuantizeLinear", 21)).input(bytes({3}, {})).narrow(kUint4).y(),
             bytes({0, 1, 5, 15, 15}, {5}));
  CHECK_SAME(of(node("QuantizeLinear", 25)).input(bytes({1}, {})).narrow(kUint2).y(),
             bytes({0, 0, 3, 3, 3}, {5}));
  CHECK(of(node("QuantizeLinear", 21).attr("output_dtype", 3)).input(bytes({0}, {})).refusal() ==
        "invalid");
  CHECK(of(node("QuantizeLinear", 21).attr("output_dtype", 7)).refusal() == "no_lowering");
  CHECK(of(node("QuantizeLinear", 21).attr("output_dtype", kE8M0)).refusal() == "no_lowering");
  CHECK(of(node("QuantizeLinear", 21).attr("output_dtype", 8)).refusal() == "no_lowering");
}

TEST_CASE("QuantizeLinear to narrow floats rounds on their grid") {
  const auto of = [](int type) {
    OneNode n = node("QuantizeLinear", 23);
    n.attr("output_dtype", type).input(reals({0.6, -200, 1e5, 4.2})).input(real(2));
    return n;
  };
  CHECK_SAME(of(kE4M3FN).y(), reals({0.3125, -96, 448, 2}));
  CHECK_SAME(of(kE4M3FNUZ).y(), reals({0.3125, -96, 240, 2}));
  CHECK_SAME(of(kE5M2).y(), reals({0.3125, -96, 49152, 2}));
  CHECK_SAME(of(kE2M1).y(), reals({0.5, -6, 6, 2}));
  CHECK_SAME(of(kE4M3FN).attr("saturate", 0).y(), reals({0.3125, -96, kNothing, 2}));
  CHECK_SAME(node("QuantizeLinear", 19)
                 .input(reals({-1e9, 3}))
                 .input(reals({0.5}))
                 .input(reals({0}))
                 .narrow(kE5M2FNUZ)
                 .y(),
             reals({-57344, 6}));
  OneNode n = of(kE2M1);
  n.y();
  CHECK(n.narrow_output == kE2M1);
}

TEST_CASE("QuantizeLinear along an axis, in blocks, of integers") {
  const Tensor x = reals({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK_SAME(node("QuantizeLinear").attr("axis", -2).input(x).input(reals({1, 2})).y(),
             bytes({1, 2, 3, 2, 2, 3}, {2, 3}));
  // The last block is cut off.
  CHECK_SAME(node("QuantizeLinear", 21)
                 .attr("block_size", 2)
                 .input(x)
                 .input(reals({1, 2, 1, 3}, {2, 2}))
                 .input(bytes({0, 1, 0, 2}, {2, 2}))
                 .y(),
             bytes({1, 2, 3, 4, 5, 4}, {2, 3}));
  CHECK_SAME(node("QuantizeLinear", 21)
                 .attr("block_size", AttrValue(int64_t{1} << 60))
                 .attr("axis", 0)
                 .input(x)
                 .input(reals({1, 2, 4}, {1, 3}))
                 .y(),
             bytes({1, 1, 1, 4, 2, 2}, {2, 3}));
  CHECK_SAME(node("QuantizeLinear").input(ints({7, 9}).to(DType::kInt32)).input(real(2)).y(),
             bytes({4, 4}, {2}));
  CHECK_SAME(node("QuantizeLinear", 21)
                 .attr("block_size", 2)
                 .input(Tensor(DType::kFloat64, {2, 0}))
                 .input(Tensor(DType::kFloat64, {2, 0}))
                 .y(),
             bytes({}, {2, 0}));
  for (int64_t block : {int64_t{-1}, int64_t{1}, int64_t{3}}) {
    CHECK(node("QuantizeLinear", 21)
              .attr("block_size", AttrValue(block))
              .input(x)
              .input(reals({1, 2, 1, 3}, {2, 2}))
              .refusal() == "invalid");
  }
  CHECK(node("QuantizeLinear", 21)
            .attr("block_size", 2)
            .input(x)
            .input(reals({1, 2}, {1, 2}))
            .refusal() == "invalid");
  CHECK(node("QuantizeLinear").attr("axis", 2).input(x).input(reals({1, 2})).refusal() ==
        "invalid");
}

TEST_CASE("DequantizeLinear of wide integers and of narrow floats") {
  CHECK_SAME(
      node("DequantizeLinear").input(ints({-70000, 3}).to(DType::kInt32)).input(real(0.5)).y(),
      reals({-35000, 1.5}));
  CHECK_SAME(node("DequantizeLinear", 23)
                 .attr("output_dtype", 1)
                 .input(reals({-6, 0.5}))
                 .narrow(kE2M1)
                 .input(reals({2, 4}))
                 .attr("axis", 0)
                 .y(),
             reals({-12, 2}));
}

TEST_CASE("QuantizeLinear has a gradient only straight through") {
  const Tensor x = reals({-2, -1.26, -1, 0.3, 63.6, 63.8, 70, kInfinity}),
               dy = reals({1, 2, 3, 4, 5, 6, 7, 8});
  const auto of = [&](int type) {
    OneNode n = node("QuantizeLinear", 23);
    n.attr("output_dtype", type).input(x).input(real(0.5));
    return n;
  };
  CHECK_FALSE(of(kE4M3FN).gradient(0, dy).defined());
  OneNode n = of(kE2M1);
  n.options.straight_through = true;
  CHECK_SAME(n.y(), reals({-4, -3, -2, 0.5, 6, 6, 6, 6}));
  // Values of 2 x: up to 7 are rounded to 6, or to 8, which is clamped.
  CHECK_SAME(n.gradient(0, dy), reals({2, 4, 6, 8, 0, 0, 0, 0}));
}

TEST_CASE("straight through, what is rounded to a bound is inside") {
  OneNode n = node("QuantizeLinear", 21);
  n.options.straight_through = true;
  n.attr("output_dtype", kE4M3FN).input(reals({448, 463, 465, -464, -481})).input(real(1));
  CHECK_SAME(n.y(), reals({448, 448, 448, -448, -448}));
  CHECK_SAME(n.gradient(0, reals({1, 1, 1, 1, 1})), reals({1, 1, 0, 1, 0}));
}

TEST_CASE("straight through changes no value") {
  const Tensor x = reals({0.5, 1.5, -0.5, 2.5, 126.5, 127.5, 1e30, -kInfinity, kInfinity, -1e6});
  for (bool pass : {false, true}) {
    OneNode n = node("QuantizeLinear");
    n.options.straight_through = pass;
    CHECK_SAME(n.input(x).input(real(1)).input(signed_bytes({1}, {})).y(),
               signed_bytes({1, 3, 1, 3, 127, 127, 127, -128, 127, -128}, {10}));
  }
}

TEST_CASE("QLinearMatMul") {
  const Tensor a = bytes({208, 236, 0, 238, 3, 214, 255, 29}, {2, 4});
  const Tensor b = bytes({152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247}, {4, 3});
  const auto of = [&](Tensor a_scale, Tensor a_zero, Tensor b_scale) {
    return node("QLinearMatMul")
        .input(a)
        .input(std::move(a_scale))
        .input(std::move(a_zero))
        .input(b)
        .input(std::move(b_scale))
        .input(bytes({114}, {1}))
        .input(real(0.0107))
        .input(bytes({118}, {}));
  };
  const Tensor y = bytes({168, 115, 255, 1, 66, 151}, {2, 3});
  CHECK_SAME(of(real(0.0066), bytes({113}, {}), real(0.00705)).y(), y);
  CHECK_SAME(
      of(reals({0.0066, 0.0066}), bytes({113, 113}, {2}), reals({0.00705, 0.00705, 0.00705})).y(),
      y);
  CHECK_SAME(of(reals({0.0066, 0.0066}, {2, 1}), bytes({113, 113}, {2, 1}), real(0.00705)).y(), y);
  CHECK(of(real(1), bytes({1, 2, 3}, {3}), real(1)).refusal() == "invalid");
  CHECK(of(real(1), bytes({1}, {}), reals({1, 2, 3, 4})).refusal() == "invalid");
}

TEST_CASE("QLinearMatMul rounds before the zero point is added") {
  const auto of = [](double scale) {
    return node("QLinearMatMul")
        .input(bytes({1}, {1, 1}))
        .input(real(scale))
        .input(bytes({0}, {}))
        .input(bytes({1}, {1, 1}))
        .input(real(1))
        .input(bytes({0}, {}))
        .input(real(1))
        .input(bytes({1}, {}))
        .y();
  };
  CHECK_SAME(of(0.5), bytes({1}, {1, 1}));
  CHECK_SAME(of(1.5), bytes({3}, {1, 1}));
}

TEST_CASE("QLinearMatMul of float8") {
  CHECK_SAME(node("QLinearMatMul", 21)
                 .input(reals({2, 3}, {1, 2}))
                 .narrow(kE4M3FN)
                 .input(real(1))
                 .input(real(0))
                 .narrow(kE4M3FN)
                 .input(reals({5, 7}, {2, 1}))
                 .narrow(kE4M3FN)
                 .input(real(1))
                 .input(real(0))
                 .narrow(kE4M3FN)
                 .input(real(1))
                 .input(real(0))
                 .narrow(kE4M3FN)
                 .y(),
             reals({32}, {1, 1}));  // 31 is no value of the type
}

// 37 i mod 251, and 53 i mod 256 - 128
Tensor pattern(Shape shape, bool weight) {
  Tensor t(DType::kInt64, std::move(shape));
  for (size_t i = 0; i < t.data<int64_t>().size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    t.data<int64_t>()[i] = weight ? n * 53 % 256 - 128 : n * 37 % 251;
  }
  return t.to(weight ? DType::kInt8 : DType::kUInt8);
}

OneNode windowed(const char* op) {
  return node(op)
      .attr("group", 3)
      .attr("pads", std::vector<int64_t>{1, 0, 0, 1})
      .attr("strides", std::vector<int64_t>{2, 1});
}

TEST_CASE("QLinearConv with scales per channel and a bias") {
  CHECK_SAME(windowed("QLinearConv")
                 .input(pattern({2, 3, 3, 3}, false))
                 .input(real(0.02))
                 .input(bytes({100}, {}))
                 .input(pattern({3, 1, 2, 2}, true))
                 .input(reals({0.01, 0.02, 0.03}))
                 .input(signed_bytes({0, 0, 0}, {3}))
                 .input(real(0.05))
                 .input(bytes({128}, {1}))
                 .input(ints({100, -2000, 3000}).to(DType::kInt32))
                 .y(),
             bytes({129, 131, 131, 86, 80, 90, 120, 96, 82, 77, 255, 41, 10, 0, 0, 0, 0, 19,
                    107, 131, 131, 90, 83, 93, 123, 99, 85, 81, 255, 41, 20, 0, 0, 0, 0, 23},
                   {2, 3, 2, 3}));
}

TEST_CASE("ConvInteger") {
  CHECK_SAME(windowed("ConvInteger")
                 .input(pattern({2, 3, 3, 3}, false))
                 .input(pattern({3, 1, 2, 2}, true))
                 .input(bytes({100}, {}))
                 .y(),
             ints({247,   580,   572,   -10544, -12200, -9670,  941,    -1982,  -3696,
                   -4426, 21225, -8838, -12797, -18976, -15180, -14621, -15879, -12070,
                   -5320, 535,   682,   -9574,  -11230, -8920,  1336,   -1587,  -3366,
                   -3856, 21795, -8928, -11962, -18141, -14630, -14451, -15709, -11720},
                  {2, 3, 2, 3})
                 .to(DType::kInt32));
  const auto of = [](Tensor zero) {
    return node("ConvInteger")
        .input(bytes({1, 2, 3}, {1, 1, 3}))
        .input(bytes({4, 5}, {2, 1, 1}))
        .absent()
        .input(std::move(zero));
  };
  CHECK_SAME(of(bytes({1, 5}, {2})).y(), ints({3, 6, 9, 0, 0, 0}, {1, 2, 3}).to(DType::kInt32));
  CHECK(of(bytes({1, 2, 3}, {3})).refusal() == "invalid");
}

TEST_CASE("quantized products and convolutions of what does not fit are refused") {
  CHECK(node("ConvInteger").input(bytes({1}, {})).input(bytes({1}, {})).refusal() == "invalid");
  CHECK(node("QLinearConv").input(bytes({1}, {1, 1, 1})).refusal() == "invalid");
  CHECK(node("MatMulInteger").input(bytes({1}, {})).input(bytes({1}, {1})).refusal() == "invalid");
}

const double kSmall = std::ldexp(1.0, -127);

TEST_CASE("Cast to float8 and float4 rounds to even and saturates") {
  const Tensor x =
      reals({0.3, 1.75, 5.5, -100, 248, 464, 465, 61440, 1e9, kInfinity, kNothing, 1e-10});
  const auto of = [&](int type, int saturate) {
    OneNode n = node("Cast", 24).attr("to", type).attr("saturate", saturate).input(x);
    const Tensor y = n.y();
    CHECK(n.narrow_output == type);
    return y;
  };
  CHECK_SAME(of(kE4M3FN, 1),
             reals({0.3125, 1.75, 5.5, -96, 256, 448, 448, 448, 448, 448, kNothing, 0}));
  CHECK_SAME(of(kE4M3FN, 0), reals({0.3125, 1.75, 5.5, -96, 256, 448, kNothing, kNothing, kNothing,
                                    kNothing, kNothing, 0}));
  CHECK_SAME(of(kE4M3FNUZ, 1),
             reals({0.3125, 1.75, 5.5, -96, 240, 240, 240, 240, 240, 240, kNothing, 0}));
  CHECK_SAME(of(kE4M3FNUZ, 0), reals({0.3125, 1.75, 5.5, -96, kNothing, kNothing, kNothing,
                                      kNothing, kNothing, kNothing, kNothing, 0}));
  CHECK_SAME(of(kE5M2, 1),
             reals({0.3125, 1.75, 6, -96, 256, 448, 448, 57344, 57344, 57344, kNothing, 0}));
  CHECK_SAME(of(kE5M2, 0), reals({0.3125, 1.75, 6, -96, 256, 448, 448, kInfinity, kInfinity,
                                  kInfinity, kNothing, 0}));
  CHECK_SAME(of(kE5M2FNUZ, 0), reals({0.3125, 1.75, 6, -96, 256, 448, 448, kNothing, kNothing,
                                      kNothing, kNothing, 0}));
  CHECK_SAME(of(kE2M1, 1), reals({0.5, 2, 6, -6, 6, 6, 6, 6, 6, 6, kNothing, 0}));
}

TEST_CASE("the smallest values of float8 are evenly spaced") {
  const double unit = std::ldexp(1.0, -9);  // of float8e4m3fn
  CHECK_SAME(node("Cast", 19)
                 .attr("to", kE4M3FN)
                 .input(reals({unit / 2, unit * 0.51, unit * 1.5, unit * 2.5, -unit * 7.4}))
                 .y(),
             reals({0, unit, unit * 2, unit * 2, -unit * 7}));
}

TEST_CASE("Cast to float8e8m0 gives powers of two") {
  const Tensor x = reals({0.3, 0.75, 1, 1.5, 2.5, 1e-60, 1e60});
  const auto of = [&](const char* mode, int saturate) {
    return node("Cast", 24)
        .attr("to", kE8M0)
        .attr("round_mode", mode)
        .attr("saturate", saturate)
        .input(x)
        .y();
  };
  const double most = std::ldexp(1.0, 127);
  CHECK_SAME(of("up", 1), reals({0.5, 1, 1, 2, 4, kSmall, most}));
  CHECK_SAME(of("down", 1), reals({0.25, 0.5, 1, 1, 2, kSmall, most}));
  CHECK_SAME(of("nearest", 1), reals({0.25, 1, 1, 2, 2, kSmall, most}));
  CHECK_SAME(of("nearest", 0), reals({0.25, 1, 1, 2, 2, kNothing, kNothing}));
  CHECK_SAME(node("Cast", 24).attr("to", kE8M0).input(reals({0})).y(), reals({kSmall}));
  CHECK(node("Cast", 24).attr("to", kE8M0).attr("round_mode", "odd").input(x).refusal() ==
        "invalid");
}

TEST_CASE("Cast to narrow integers keeps the low bits") {
  const Tensor x = ints({-200, -9, -8, -1, 0, 7, 8, 15, 16, 200});
  const auto of = [&](int type) { return node("Cast", 25).attr("to", type).input(x).y(); };
  CHECK_SAME(of(kInt4), signed_bytes({-8, 7, -8, -1, 0, 7, -8, -1, 0, -8}, {10}));
  CHECK_SAME(of(kUint4), bytes({8, 7, 8, 15, 0, 7, 8, 15, 0, 8}, {10}));
  CHECK_SAME(of(kInt2), signed_bytes({0, -1, 0, -1, 0, -1, 0, -1, 0, 0}, {10}));
  CHECK_SAME(of(kUint2), bytes({0, 3, 0, 3, 0, 3, 0, 3, 0, 0}, {10}));
  CHECK_SAME(node("Cast", 21).attr("to", kInt4).input(reals({-3.9, 6.9})).y(),
             signed_bytes({-3, 6}, {2}));
  CHECK_SAME(node("Cast", 21).attr("to", kUint4).input(bools({true, false}, {2})).y(),
             bytes({1, 0}, {2}));
}

TEST_CASE("Cast between narrow types, and gradients through them") {
  CHECK_SAME(
      node("Cast", 21).attr("to", kE4M3FN).input(signed_bytes({-8, 7}, {2})).narrow(kInt4).y(),
      reals({-8, 7}));
  CHECK_SAME(node("Cast", 21).attr("to", 1).input(reals({-8, 7})).narrow(kE4M3FN).y(),
             reals({-8, 7}));
  CHECK_SAME(node("CastLike", 21).input(reals({5.5})).input(reals({0})).narrow(kE5M2).y(),
             reals({6}));
  CHECK_SAME(node("CastLike", 21).input(reals({5.5})).input(bytes({0}, {1})).narrow(kUint4).y(),
             bytes({5}, {1}));
  CHECK_SAME(node("CastLike", 21).input(reals({5.5})).input(reals({0})).y(), reals({5.5}));
  CHECK_SAME(
      node("Cast", 21).attr("to", kE4M3FN).input(reals({5.4, 900})).gradient(0, reals({2, 3})),
      reals({2, 3}));
  // Half precision is computed in the working type.
  CHECK_SAME(node("Cast", 21).attr("to", 10).input(reals({1.0001})).y(), reals({1.0001}));
}

}  // namespace
}  // namespace trainrt
