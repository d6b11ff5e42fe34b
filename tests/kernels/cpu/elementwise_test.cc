#include "tests/kernels/cases/elementwise.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

const Shape kShapes[] = {{}, {1}, {0}, {3}, {37}, {4, 0, 2}, {5, 7, 11}, {40000}};

void check_unary(Op op, double lo, double hi, Tolerance tolerance, const Attrs& attrs = NoAttrs{}) {
  for (const Shape& shape : kShapes) check_rows({op, {Operand(shape, lo, hi)}, attrs}, tolerance);
}

void check_special(Op op, const Attrs& attrs = NoAttrs{}) {
  check_rows({op, {Operand(special_values())}, attrs}, {2e-6, true});
}

TEST_CASE("unary ops that only move or round bits are exact") {
  for (Op op : {Op::kNeg, Op::kAbs, Op::kSign, Op::kRelu, Op::kFloor, Op::kCeil, Op::kRound,
                Op::kReciprocal, Op::kSqrt, Op::kIsNaN}) {
    check_unary(op, op == Op::kSqrt ? 0 : -5, 5, kExact);
    check_special(op);
  }
}

TEST_CASE("exponential and logarithm on CPU") {
  check_unary(Op::kExp, -80, 80, kTight);
  check_unary(Op::kExp, -1, 1, kTight);
  check_unary(Op::kLog, 1e-6, 1e3, kTight);
  check_unary(Op::kLog, 0.9, 1.1, {2e-6, true});
}

TEST_CASE("trigonometric functions on CPU") {
  check_unary(Op::kSin, -100, 100, kTight);
  check_unary(Op::kCos, -100, 100, kTight);
  check_unary(Op::kSin, -1e5, 1e5, kTight);
  check_unary(Op::kTan, -1.2, 1.2, kTight);
  check_unary(Op::kAsin, -1, 1, kTight);
  check_unary(Op::kAcos, -1, 1, kTight);
  check_unary(Op::kAtan, -20, 20, kTight);
}

TEST_CASE("hyperbolic functions on CPU") {
  check_unary(Op::kSinh, -20, 20, kTight);
  check_unary(Op::kSinh, -0.1, 0.1, kTight);
  check_unary(Op::kCosh, -20, 20, kTight);
  check_unary(Op::kTanh, -12, 12, kTight);
  check_unary(Op::kTanh, -0.01, 0.01, kTight);
  check_unary(Op::kAsinh, -50, 50, kTight);
  check_unary(Op::kAcosh, 1, 50, kTight);
  check_unary(Op::kAtanh, -0.999, 0.999, kTight);
}

TEST_CASE("sigmoid, softplus and erf on CPU") {
  check_unary(Op::kSigmoid, -30, 30, kTight);
  check_unary(Op::kSoftplus, -30, 30, kTight);
  check_unary(Op::kErf, -5, 5, kTight);
  check_unary(Op::kErf, -0.01, 0.01, kTight);
}

TEST_CASE("GELU and SiLU on CPU") {
  const struct {
    Op op, gradient;
    Attrs attrs;
  } functions[] = {{Op::kGelu, Op::kGeluGrad, GeluAttrs{false}},
                   {Op::kGelu, Op::kGeluGrad, GeluAttrs{true}},
                   {Op::kSilu, Op::kSiluGrad, NoAttrs{}}};
  for (const auto& f : functions) {
    for (double range : {0.01, 1.0, 6.0, 40.0, 300.0}) {
      check_unary(f.op, -range, range, kClose, f.attrs);
      for (const Shape& shape : kShapes) {
        check_rows({f.gradient, {shape, Operand(shape, -range, range)}, f.attrs}, kClose);
      }
    }
    const Tensor x = special_values();
    check_rows({f.op, {Operand(x)}, f.attrs}, {1e-5, true});
    check_rows({f.gradient, {x.shape(), Operand(x)}, f.attrs}, {1e-5, true});
    Tensor zero(DType::kFloat32, x.shape());
    zero.fill(0);
    check_rows({f.gradient, {Operand(zero), Operand(x)}, f.attrs}, kExact);
  }
}

TEST_CASE("unary functions at zeros, infinities, NaN and beyond their range") {
  for (Op op : {Op::kExp, Op::kLog, Op::kSin, Op::kCos, Op::kTan, Op::kAsin, Op::kAcos, Op::kAtan,
                Op::kSinh, Op::kCosh, Op::kAsinh, Op::kAcosh, Op::kAtanh, Op::kTanh, Op::kSigmoid,
                Op::kSoftplus, Op::kErf}) {
    check_special(op);
  }
}

TEST_CASE("Clip on CPU, with open ends and NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  check_unary(Op::kClip, -5, 5, kExact, ClipAttrs{-1, 2});
  check_unary(Op::kClip, -5, 5, kExact, ClipAttrs{-inf, 0.5});
  check_special(Op::kClip, ClipAttrs{0, inf});
  check_special(Op::kClip, ClipAttrs{0, 6});
}

TEST_CASE("Cast between float32, integers and bool on CPU") {
  for (DType from : {DType::kFloat32, DType::kInt32, DType::kInt64, DType::kBool}) {
    for (DType to : {DType::kFloat32, DType::kInt32, DType::kInt64, DType::kBool}) {
      const double lo = from == DType::kBool ? 0 : -100, hi = from == DType::kBool ? 1 : 100;
      for (const Shape& shape : kShapes) {
        check_rows({Op::kCast, {Operand(shape, from, lo, hi)}, CastAttrs{to}}, kExact);
      }
    }
  }
  for (DType to : {DType::kInt32, DType::kInt64, DType::kBool})
    check_special(Op::kCast, CastAttrs{to});
}

void check_binary(Op op, Tolerance tolerance, double lo = -2, double hi = 2) {
  for (const auto& [a, b] : broadcast_pairs()) {
    check_rows({op, {Operand(a, lo, hi), Operand(b, lo, hi)}}, tolerance);
  }
}

TEST_CASE("arithmetic with every form of broadcasting on CPU") {
  for (Op op :
       {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kChainMul, Op::kChainDiv, Op::kMax, Op::kMin})
    check_binary(op, kExact);
  for (Op op : {Op::kChainMul, Op::kChainDiv}) {
    check_rows({op, {Operand(Tensor::scalar(0.0f)), Operand(special_values())}}, kExact);
    check_rows({op, {Operand(special_values()), Operand(special_values())}}, kExact);
  }
}

TEST_CASE("comparisons with every form of broadcasting on CPU") {
  for (Op op : {Op::kEqual, Op::kLess, Op::kLessEqual, Op::kGreater, Op::kGreaterEqual}) {
    check_binary(op, kExact);
    check_rows({op, {Operand(special_values()), Operand(special_values())}}, kExact);
    const Tensor few = Tensor::from<float>({1, 2, 1, 2, 2, 1}, {6});
    check_rows({op, {Operand(few), Operand(Tensor::scalar(2.0f))}}, kExact);
  }
}

TEST_CASE("Pow on CPU: general, and the exponents with a short cut") {
  check_binary(Op::kPow, kTight, 0.1, 3);
  check_binary(Op::kPow, kTight, -3, 3);
  for (float e : {2.0f, 3.0f, 0.5f, -1.0f, 0.0f, 20.0f}) {
    check_rows({Op::kPow, {Operand({37}, -3, 3), Operand(Tensor::scalar(e))}}, kTight);
    check_rows({Op::kPow, {Operand(special_values()), Operand(Tensor::scalar(e))}}, kTight);
  }
  check_rows({Op::kPow, {Operand({37}, 1, 9), Operand({37}, 1, 30)}}, kTight);
  check_rows({Op::kPow, {Operand(Tensor::scalar(2.0f)), Operand(special_values())}}, kTight);
}

TEST_CASE("Mod and Fmod on CPU") {
  check_binary(Op::kMod, kExact);
  check_binary(Op::kFmod, kExact);
}

TEST_CASE("gradients of Relu and Clip on CPU") {
  for (const Shape& shape : kShapes) {
    check_rows({Op::kReluGrad, {shape, shape}}, kExact);
    check_rows({Op::kClipGrad, {shape, shape}, ClipAttrs{-0.5, 1}}, kExact);
  }
  const Tensor x = Tensor::from<float>({-1, 0, 0.5, 1, 2}, {5});
  check_rows({Op::kClipGrad, {Shape{5}, Operand(x)}, ClipAttrs{0, 1}}, kExact);
  check_rows({Op::kReluGrad, {Shape{5}, Operand(x)}}, kExact);
}

TEST_CASE("Max and Min on CPU hand NaN on") {
  for (Op op : {Op::kMax, Op::kMin}) {
    check_rows({op, {Operand(special_values()), Operand(Shape{28})}}, kExact);
    check_rows({op, {Operand(Shape{28}), Operand(special_values())}}, kExact);
  }
}

TEST_CASE("logic on CPU") {
  for (Op op : {Op::kAnd, Op::kOr, Op::kXor}) {
    for (const auto& [a, b] : broadcast_pairs()) {
      check_rows({op, {Operand(a, DType::kBool, 0, 1), Operand(b, DType::kBool, 0, 1)}}, kExact);
    }
  }
  for (const Shape& s : kShapes) check_rows({Op::kNot, {Operand(s, DType::kBool, 0, 1)}}, kExact);
}

TEST_CASE("Where with every form of broadcasting on CPU") {
  const std::vector<std::vector<Shape>> cases = {{{5, 7}, {5, 7}, {5, 7}},
                                                 {{5, 7}, {}, {5, 7}},
                                                 {{5, 7}, {5, 7}, {}},
                                                 {{5, 7}, {}, {}},
                                                 {{}, {5, 7}, {7}},
                                                 {{5, 1}, {5, 7}, {}},
                                                 {{7}, {5, 1}, {5, 7}},
                                                 {{5, 1}, {7}, {1, 7}},
                                                 {{1, 1}, {1}, {}},
                                                 {{0}, {0}, {}},
                                                 {{300, 200}, {300, 200}, {}},
                                                 {{4, 1}, {}, {4, 9}}};
  for (const auto& c : cases) {
    check_rows({Op::kWhere, {Operand(c[0], DType::kBool, 0, 1), c[1], c[2]}}, kExact);
  }
}

TEST_CASE("CPU rows refuse float64 and say so") {
  const auto reasons = refusals(
      {Op::kAdd, {Operand({2}, DType::kFloat64, 0, 1), Operand({2}, DType::kFloat64, 0, 1)}});
  REQUIRE(reasons.size() == 1);
  CHECK(reasons[0] == "takes float32, not float64");
}

}  // namespace
}  // namespace trainrt
