#include "kernels/kernel.h"
#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();

TEST_CASE("every op but Input has a reference row named so") {
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    int rows = 0;
    for (const KernelRow& row : reference_kernels()) {
      if (row.op != op) continue;
      ++rows;
      CHECK(row.name == "reference");
      CHECK(row.plan != nullptr);
    }
    INFO(op_info(op).name);
    CHECK(rows == (op == Op::kInput ? 0 : 1));
  }
}

TEST_CASE("float formulas agree with the C library in both precisions") {
  struct Case {
    Op op;
    double (*f)(double);
    double low, high;
  };
  const Case cases[] = {
      {Op::kExp, [](double x) { return std::exp(x); }, -3, 3},
      {Op::kLog, [](double x) { return std::log(x); }, 0.1, 5},
      {Op::kSqrt, [](double x) { return std::sqrt(x); }, 0, 5},
      {Op::kReciprocal, [](double x) { return 1 / x; }, 0.5, 5},
      {Op::kSin, [](double x) { return std::sin(x); }, -5, 5},
      {Op::kCos, [](double x) { return std::cos(x); }, -5, 5},
      {Op::kTan, [](double x) { return std::tan(x); }, -1, 1},
      {Op::kAsin, [](double x) { return std::asin(x); }, -1, 1},
      {Op::kAcos, [](double x) { return std::acos(x); }, -1, 1},
      {Op::kAtan, [](double x) { return std::atan(x); }, -5, 5},
      {Op::kSinh, [](double x) { return std::sinh(x); }, -3, 3},
      {Op::kCosh, [](double x) { return std::cosh(x); }, -3, 3},
      {Op::kAsinh, [](double x) { return std::asinh(x); }, -3, 3},
      {Op::kAcosh, [](double x) { return std::acosh(x); }, 1.1, 5},
      {Op::kAtanh, [](double x) { return std::atanh(x); }, -0.9, 0.9},
      {Op::kTanh, [](double x) { return std::tanh(x); }, -3, 3},
      {Op::kErf, [](double x) { return std::erf(x); }, -3, 3},
      {Op::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -9, 9},
      {Op::kSoftplus, [](double x) { return std::log(1 + std::exp(x)); }, -9, 9},
      {Op::kFloor, [](double x) { return std::floor(x); }, -3, 3},
      {Op::kCeil, [](double x) { return std::ceil(x); }, -3, 3},
      {Op::kNeg, [](double x) { return -x; }, -3, 3},
      {Op::kAbs, [](double x) { return x < 0 ? -x : x; }, -3, 3},
      {Op::kSign, [](double x) { return x < 0 ? -1.0 : 1.0; }, -3, 3},
      {Op::kRelu, [](double x) { return x < 0 ? 0 : x; }, -3, 3},
  };
  for (const Case& c : cases) {
    INFO(op_info(c.op).name);
    const Tensor x = noise({3, 7}, 1, c.low, c.high);
    const Tensor x32 = x.to(DType::kFloat32);
    std::vector<double> want, want32;
    for (double v : x.data<double>()) want.push_back(c.f(v));
    for (float v : x32.data<float>()) want32.push_back(c.f(v));
    check_close(eval(c.op, {x}), want, 1e-13);
    check_close(eval(c.op, {x32}), want32, 2e-6);
  }
}

TEST_CASE("Sigmoid and Softplus do not overflow") {
  const Tensor x = vec<double>({-1000, 0, 1000, -kInf, kInf, kNaN});
  check_close(eval(Op::kSigmoid, {x}), {0, 0.5, 1, 0, 1, kNaN});
  check_close(eval(Op::kSoftplus, {x}), {0, std::log(2.0), 1000, 0, kInf, kNaN});
}

TEST_CASE("Round takes halves to even") {
  check_close(eval(Op::kRound, {vec<double>({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.6})}),
              {-2, -2, 0, 0, 2, 2, 3});
}

TEST_CASE("Relu, Abs, Sign, Max and Min carry NaN") {
  const Tensor x = vec<float>({std::nanf(""), -1, 0});
  check_close(eval(Op::kRelu, {x}), {kNaN, 0, 0});
  check_close(eval(Op::kAbs, {x}), {kNaN, 1, 0});
  check_close(eval(Op::kSign, {x}), {kNaN, -1, 0});
  const Tensor a = vec<double>({kNaN, 1, 2}), b = vec<double>({0, kNaN, 3});
  check_close(eval(Op::kMax, {a, b}), {kNaN, kNaN, 3});
  check_close(eval(Op::kMin, {a, b}), {kNaN, kNaN, 2});
}

TEST_CASE("integers wrap around instead of overflowing") {
  const Tensor x = vec<int64_t>({kMin64, -3, 4});
  CHECK(values<int64_t>(eval(Op::kNeg, {x})) == std::vector<int64_t>{kMin64, 3, -4});
  CHECK(values<int64_t>(eval(Op::kAbs, {x})) == std::vector<int64_t>{kMin64, 3, 4});
  CHECK(values<int64_t>(eval(Op::kSign, {x})) == std::vector<int64_t>{-1, -1, 1});
  CHECK(values<int64_t>(eval(Op::kSub, {x, vec<int64_t>({1, 1, 1})})) ==
        std::vector<int64_t>{std::numeric_limits<int64_t>::max(), -4, 3});
  const Tensor s = vec<int16_t>({32767, -32768, 300}), t = vec<int16_t>({32767, -32768, 300});
  CHECK(values<int16_t>(eval(Op::kMul, {s, t})) == std::vector<int16_t>{1, 0, 24464});
  const Tensor u = vec<uint16_t>({65535, 2}), v = vec<uint16_t>({65535, 3});
  CHECK(values<uint16_t>(eval(Op::kMul, {u, v})) == std::vector<uint16_t>{1, 6});
  CHECK(values<uint8_t>(eval(Op::kAdd, {vec<uint8_t>({250}), vec<uint8_t>({10})})) ==
        std::vector<uint8_t>{4});
}

TEST_CASE("integer division is towards zero, and 0 by zero") {
  const Tensor a = vec<int64_t>({7, -7, 7, -7, 5, kMin64}), b = vec<int64_t>({2, 2, -2, -2, 0, -1});
  CHECK(values<int64_t>(eval(Op::kDiv, {a, b})) == std::vector<int64_t>{3, -3, -3, 3, 0, kMin64});
  CHECK(values<int64_t>(eval(Op::kFmod, {a, b})) == std::vector<int64_t>{1, -1, 1, -1, 0, 0});
  CHECK(values<int64_t>(eval(Op::kMod, {a, b})) == std::vector<int64_t>{1, 1, -1, -1, 0, 0});
  CHECK(values<int8_t>(eval(Op::kDiv, {vec<int8_t>({-128, 9}), vec<int8_t>({-1, 0})})) ==
        std::vector<int8_t>{-128, 0});
  CHECK(values<uint32_t>(eval(Op::kMod, {vec<uint32_t>({7, 7}), vec<uint32_t>({4, 0})})) ==
        std::vector<uint32_t>{3, 0});
}

TEST_CASE("Mod has the divisor's sign, Fmod the dividend's") {
  const Tensor a = vec<double>({5.5, -5.5, 5.5, -5.5, 6}), b = vec<double>({2, 2, -2, -2, 2});
  check_close(eval(Op::kMod, {a, b}), {1.5, 0.5, -0.5, -1.5, 0});
  check_close(eval(Op::kFmod, {a, b}), {1.5, -1.5, 1.5, -1.5, 0});
}

TEST_CASE("Pow on floats and integers") {
  check_close(eval(Op::kPow, {vec<double>({2, 4, -2, 0}), vec<double>({3, 0.5, 3, 0})}),
              {8, 2, -8, 1});
  CHECK(values<int64_t>(eval(Op::kPow, {vec<int64_t>({3, -2, 2, 1, -1, -1, 5, 0}),
                                        vec<int64_t>({4, 3, -1, -5, -2, -3, 0, -1})})) ==
        std::vector<int64_t>{81, -8, 0, 1, 1, -1, 1, 0});
}

TEST_CASE("shifts beyond the width give 0") {
  const Tensor a = vec<uint8_t>({255, 255, 255, 255}), n = vec<uint8_t>({0, 3, 8, 200});
  CHECK(values<uint8_t>(eval(Op::kShiftLeft, {a, n})) == std::vector<uint8_t>{255, 248, 0, 0});
  CHECK(values<uint8_t>(eval(Op::kShiftRight, {a, n})) == std::vector<uint8_t>{255, 31, 0, 0});
  const Tensor b = vec<uint64_t>({1, 1}), m = vec<uint64_t>({63, 64});
  CHECK(values<uint64_t>(eval(Op::kShiftLeft, {b, m})) ==
        std::vector<uint64_t>{uint64_t{1} << 63, 0});
}

TEST_CASE("logic and bits") {
  const Tensor a = vec<bool>({false, false, true, true}), b = vec<bool>({false, true, false, true});
  CHECK(values<bool>(eval(Op::kAnd, {a, b})) == std::vector<bool>{false, false, false, true});
  CHECK(values<bool>(eval(Op::kOr, {a, b})) == std::vector<bool>{false, true, true, true});
  CHECK(values<bool>(eval(Op::kXor, {a, b})) == std::vector<bool>{false, true, true, false});
  CHECK(values<bool>(eval(Op::kNot, {a})) == std::vector<bool>{true, true, false, false});
  CHECK(values<bool>(eval(Op::kEqual, {a, b})) == std::vector<bool>{true, false, false, true});
  const Tensor x = vec<int32_t>({12, -1}), y = vec<int32_t>({10, 3});
  CHECK(values<int32_t>(eval(Op::kBitwiseAnd, {x, y})) == std::vector<int32_t>{8, 3});
  CHECK(values<int32_t>(eval(Op::kBitwiseOr, {x, y})) == std::vector<int32_t>{14, -1});
  CHECK(values<int32_t>(eval(Op::kBitwiseXor, {x, y})) == std::vector<int32_t>{6, -4});
  CHECK(values<int32_t>(eval(Op::kBitwiseNot, {x})) == std::vector<int32_t>{-13, 0});
}

TEST_CASE("comparisons, NaN included") {
  const Tensor a = vec<double>({1, 2, 3, kNaN}), b = vec<double>({2, 2, 2, kNaN});
  CHECK(values<bool>(eval(Op::kEqual, {a, b})) == std::vector<bool>{false, true, false, false});
  CHECK(values<bool>(eval(Op::kLess, {a, b})) == std::vector<bool>{true, false, false, false});
  CHECK(values<bool>(eval(Op::kLessEqual, {a, b})) == std::vector<bool>{true, true, false, false});
  CHECK(values<bool>(eval(Op::kGreater, {a, b})) == std::vector<bool>{false, false, true, false});
  CHECK(values<bool>(eval(Op::kGreaterEqual, {a, b})) ==
        std::vector<bool>{false, true, true, false});
  CHECK(values<bool>(eval(Op::kIsNaN, {a})) == std::vector<bool>{false, false, false, true});
}

TEST_CASE("operands broadcast") {
  const Tensor column = tensor<double>({10, 20}, {2, 1}), row = tensor<double>({1, 2, 3}, {1, 3});
  check_close(eval(Op::kAdd, {column, row}), {11, 12, 13, 21, 22, 23});
  check_close(eval(Op::kSub, {Tensor::scalar(1.0), row}), {0, -1, -2});
  check_close(eval(Op::kMul, {vec<double>({2, 3}), tensor<double>({1, 10, 100}, {3, 1, 1})}),
              {2, 3, 20, 30, 200, 300});
  CHECK(eval(Op::kAdd, {Tensor::scalar(2.0), Tensor::scalar(3.0)}).item() == 5);
  CHECK(eval(Op::kAdd, {Tensor(DType::kFloat64, {0, 3}), row}).shape() == Shape{0, 3});
}

TEST_CASE("operands of rank 16 broadcast against each other") {
  Shape even(16, 1), odd(16, 1), all(16, 2);
  for (size_t d = 0; d < 16; ++d) (d % 2 == 0 ? even : odd)[d] = 2;
  const Tensor a = counting(even), b = counting(odd);
  const Tensor y = eval(Op::kAdd, {a, b});
  REQUIRE(y.shape() == all);
  for (size_t i = 0; i < 65536; ++i) {
    size_t ia = 0, ib = 0;
    for (size_t d = 0; d < 16; ++d) {
      size_t& index = d % 2 == 0 ? ia : ib;
      index = index * 2 + (i >> (15 - d) & 1);
    }
    if (y.data<double>()[i] != double(ia + ib)) FAIL("element " << i);
  }
}

TEST_CASE("large operands take the parallel path") {
  const Tensor a = noise({100, 1, 500}, 1), b = noise({3, 500}, 2);
  const Tensor y = eval(Op::kMul, {a, b});
  for (size_t i = 0; i < 150000; ++i) {
    const double want = a.data<double>()[i / 1500 * 500 + i % 500] * b.data<double>()[i % 1500];
    if (y.data<double>()[i] != want) FAIL("element " << i);
  }
}

TEST_CASE("Where picks by condition on any type") {
  const Tensor c = tensor<bool>({true, false}, {2, 1});
  check_close(eval(Op::kWhere, {c, vec<double>({1, 2}), Tensor::scalar(9.0)}), {1, 2, 9, 9});
  CHECK(values<int16_t>(eval(Op::kWhere, {c, Tensor::scalar(int16_t{5}), vec<int16_t>({7, 8})})) ==
        std::vector<int16_t>{5, 5, 7, 8});
  CHECK(values<bool>(eval(Op::kWhere, {c, c, eval(Op::kNot, {c})})) ==
        std::vector<bool>{true, true});
}

TEST_CASE("Clip and its gradient hold closed bounds") {
  const Tensor x = vec<double>({-2, -1, 0, 1, 2, kNaN});
  check_close(eval(Op::kClip, {x}, ClipAttrs{-1, 1}), {-1, -1, 0, 1, 1, kNaN});
  check_close(eval(Op::kClip, {x}, ClipAttrs{}), {-2, -1, 0, 1, 2, kNaN});
  check_close(eval(Op::kClip, {x}, ClipAttrs{2, 1}), {1, 1, 1, 1, 1, kNaN});
  const Tensor dy = vec<double>({1, 2, 3, 4, 5, 6});
  check_close(eval(Op::kClipGrad, {dy, x}, ClipAttrs{-1, 1}), {0, 2, 3, 4, 0, 0});
  CHECK(values<int8_t>(eval(Op::kClip, {vec<int8_t>({-100, 3, 100})}, ClipAttrs{0, kInf})) ==
        std::vector<int8_t>{0, 3, 100});
}

TEST_CASE("ReluGrad passes where y is positive") {
  check_close(eval(Op::kReluGrad, {vec<double>({1, 2, 3}), vec<double>({0, 5, -1})}), {0, 2, 0});
}

TEST_CASE("Cast from float saturates, NaN becomes 0") {
  const Tensor x = vec<double>({1.9, -1.9, 1e30, -1e30, kInf, -kInf, kNaN, 0.5});
  const auto cast = [&](DType to) { return eval(Op::kCast, {x}, CastAttrs{to}); };
  CHECK(values<int8_t>(cast(DType::kInt8)) ==
        std::vector<int8_t>{1, -1, 127, -128, 127, -128, 0, 0});
  CHECK(values<uint8_t>(cast(DType::kUInt8)) == std::vector<uint8_t>{1, 0, 255, 0, 255, 0, 0, 0});
  CHECK(values<int64_t>(cast(DType::kInt64)) ==
        std::vector<int64_t>{1, -1, std::numeric_limits<int64_t>::max(), kMin64,
                             std::numeric_limits<int64_t>::max(), kMin64, 0, 0});
  CHECK(values<uint64_t>(cast(DType::kUInt64)) ==
        std::vector<uint64_t>{1, 0, ~uint64_t{0}, 0, ~uint64_t{0}, 0, 0, 0});
  CHECK(values<int32_t>(eval(Op::kCast, {vec<float>({2147483648.0f, 2147483520.0f})},
                             CastAttrs{DType::kInt32})) ==
        std::vector<int32_t>{2147483647, 2147483520});
  CHECK(values<bool>(cast(DType::kBool)) == std::vector<bool>(8, true));
}

TEST_CASE("Cast between integers wraps, bool counts as 0 or 1") {
  CHECK(values<uint8_t>(eval(Op::kCast, {vec<int64_t>({257, -1})}, CastAttrs{DType::kUInt8})) ==
        std::vector<uint8_t>{1, 255});
  CHECK(values<bool>(eval(Op::kCast, {vec<int64_t>({0, 256, -1})}, CastAttrs{DType::kBool})) ==
        std::vector<bool>{false, true, true});
  check_close(eval(Op::kCast, {vec<bool>({true, false})}, CastAttrs{DType::kFloat32}), {1, 0});
  CHECK(eval(Op::kCast, {vec<bool>({true})}, CastAttrs{DType::kBool}).data<bool>()[0]);
  check_close(eval(Op::kCast, {vec<double>({0.1})}, CastAttrs{DType::kFloat32}), {double(0.1f)});
}

TEST_CASE("16-bit floats are refused by name") {
  const Tensor x(DType::kFloat16, {2});
  const std::vector<TensorType> out = {{DType::kFloat16, {2}}};
  const std::string text = message_of([&] {
    evaluate_node(Op::kAdd, NoAttrs{}, std::vector<Tensor>{x, x}, out);
  });
  CHECK(text.find("Add") != std::string::npos);
  CHECK(text.find("float16") != std::string::npos);
}

TEST_CASE("elementwise rows may overwrite their operand") {
  for (const KernelRow& row : reference_kernels()) {
    if (!row.in_place || (row.op != Op::kAdd && row.op != Op::kExp && row.op != Op::kTrilu)) {
      continue;
    }
    Tensor x = noise({4, 5}, 3);
    const Attrs attrs = row.op == Op::kTrilu ? Attrs(TriluAttrs{}) : Attrs(NoAttrs{});
    std::vector<Tensor> in = {x};
    if (row.op == Op::kAdd) in.push_back(noise({5}, 4));
    const Tensor want = eval(row.op, in, attrs);
    std::vector<TensorType> types;
    std::vector<const void*> pointers;
    for (const Tensor& t : in) {
      types.push_back({t.dtype(), t.shape()});
      pointers.push_back(t.raw());
    }
    const std::vector<TensorType> out = {types[0]};
    Scratch scratch;
    void* target = x.raw();
    row.plan({row.op, attrs, types, out}, scratch)->run({pointers.data(), &target, nullptr});
    check_close(x, want);
  }
}

}  // namespace
}  // namespace trainrt::testing
