#include "graph/fused.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "graph/infer.h"
#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

void check(const std::string& program, const std::vector<Operand>& inputs,
           Tolerance tolerance = kClose) {
  check_rows({Op::kFused, inputs, FusedAttrs{program}}, tolerance);
}

Operand flags(Shape shape) { return {std::move(shape), DType::kBool, 0, 1}; }

TEST_CASE("fused: shapes, tails, broadcasting") {
  const std::string program = "Mul($0, $1); Add(%0, 0.5); Tanh(%1); return %1, %2";
  const std::pair<Shape, Shape> shapes[] = {
      {{}, {}},
      {{1}, {1}},
      {{0}, {0}},
      {{3, 0}, {3, 0}},
      {{7}, {}},
      {{5000}, {5000}},
      {{40000}, {1}},
      {{33, 10}, {10}},
      {{33, 10}, {33, 1}},
      {{1, 10}, {33, 1}},
      {{64, 256}, {256}},
      {{64, 256}, {64, 1}},
      {{3, 700}, {700}},
      {{3, 700}, {3, 1}},
      {{2, 5, 7, 7}, {5, 1, 1}},
      {{2, 5, 7, 7}, {2, 1, 7, 1}},
      {{2, 5, 30, 30}, {1, 5, 1, 1}},
      {{2, 3, 4, 5}, {1, 3, 1, 5}},
  };
  for (const auto& [a, b] : shapes) check(program, {a, b});
}

TEST_CASE("fused: bools") {
  const std::string program =
      "Less($0, $1); And(%0, $2); Not(%1); Or(%2, %0); Xor(%3, $2); Where(%4, $0, 2); "
      "Cast(%2); Add(%5, %6); IsNaN(%7); Cast(%7) to=bool; return %3, %7, %8, %9";
  for (const Shape& c : {Shape{}, Shape{70}, Shape{30, 1}, Shape{30, 70}}) {
    check(program, {Shape{30, 70}, Shape{70}, flags(c)}, kExact);
  }
  check("Where($0, $1, $2); return %0", {flags({40, 1}), Shape{}, Shape{1, 3}}, kExact);
  check("Where($0, $1, $2); return %0", {flags({4, 1}), Shape{4, 900}, Shape{900}}, kExact);
}

TEST_CASE("fused: sums over rows, leading axes, everything and mixtures") {
  const Shape shapes[] = {{70000},        {300, 10}, {64, 256}, {5, 1000}, {3, 4, 6, 7},
                          {2, 8, 40, 40}, {9, 1},    {0, 4},    {1}};
  for (const Shape& shape : shapes) {
    const auto rank = static_cast<int64_t>(shape.size());
    for (int64_t mask = 1; mask < int64_t{1} << rank; ++mask) {
      std::string axes;
      for (int64_t d = 0; d < rank; ++d) {
        if ((mask >> d & 1) != 0) axes += (axes.empty() ? "" : ",") + std::to_string(d);
      }
      check("Mul($0, $1); ReduceSum(%0) axes=[" + axes + "]; ReduceSum($0) axes=[" + axes +
                "] keepdims=true; return %0, %1, %2",
            {Operand(shape, 0.1, 2), Operand(shape, 0.1, 2)});
      check("Mul($0, $0); ReduceSum(%0) axes=[" + axes + "]; return %1", {shape});
    }
  }
}

TEST_CASE("fused: NaN and infinities") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x = Tensor::from<float>({0.0f, -0.0f, 1, -1, inf, -inf, nan, 1e-40f, 1e30f}, {9});
  const Tensor y = Tensor::from<float>({0.0f, 2, nan, inf, -inf, 0.5f, 1, -1, 1e30f}, {9});
  check(
      "Max($0, $1); ReluGrad($1, $0); ClipGrad($1, $0) lo=-1 hi=1; ChainMul($0, $1); "
      "Div(%3, $0); Relu($0); Clip($1) lo=0 hi=6; Equal($0, $1); Where(%7, %5, %6); "
      "return %0, %1, %2, %3, %4, %8",
      {Operand(x), Operand(y)}, kExact);
  check("Exp($0); Sub(%0, $1); Sigmoid(%1); return %1, %2", {Operand(x), Operand(y)}, kTight);
}

TEST_CASE("fused: refuses what it has no loop for") {
  CHECK(refusals({Op::kFused,
                  {Operand({3}, DType::kInt32, 0, 9)},
                  FusedAttrs{"Abs($0); return %0"}})[1] == "takes float32 and bool, not int32");
  CHECK(refusals({Op::kFused, {Shape{3}}, FusedAttrs{"RoundTo($0); return %0"}})[1] ==
        "has no loop for RoundTo");
}

/// A random program over inputs of one iteration space.
struct RandomProgram {
  std::mt19937 random;
  FusedProgram program;
  std::vector<Operand> inputs;
  std::vector<FusedOperand> floats, bools, exact;  // exact: the same bits on both kernels

  explicit RandomProgram(uint32_t seed) : random(seed) {}
  int64_t draw(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); }
  const FusedOperand& pick(const std::vector<FusedOperand>& from) {
    return from[static_cast<size_t>(draw(static_cast<int64_t>(from.size())))];
  }
  FusedOperand emit(Op op, std::vector<FusedOperand> operands, Attrs attrs = {}) {
    program.instructions.push_back({op, std::move(attrs), std::move(operands)});
    const auto index = static_cast<int32_t>(program.instructions.size()) - 1;
    return {FusedOperand::Kind::kResult, index, 0};
  }

  void make() {
    Shape shape;
    for (int64_t d = draw(4); d >= 0; --d) shape.push_back(1 + draw(d == 0 ? 700 : 12));
    const int64_t count = 1 + draw(4);
    for (int64_t i = 0; i < count; ++i) {
      Shape own = shape;
      for (int64_t& d : own) {
        if (i > 0 && draw(3) == 0) d = 1;
      }
      if (i > 0 && draw(4) == 0) own.erase(own.begin());
      const bool is_flag = i > 0 && draw(4) == 0;
      inputs.push_back(is_flag ? flags(own) : Operand(own));
      const FusedOperand o{FusedOperand::Kind::kInput, static_cast<int32_t>(i), 0};
      (is_flag ? bools : floats).push_back(o);
      if (!is_flag) exact.push_back(o);
    }
    const int64_t length = 1 + draw(14);
    for (int64_t i = 0; i < length; ++i) step();
    const auto last = static_cast<int32_t>(program.instructions.size());
    for (int32_t i = 0; i < last; ++i) {
      if (draw(3) == 0 || i + 1 == last) program.results.push_back(i);
    }
    if (draw(2) == 0) {
      ReduceAttrs sum;
      for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
        if (draw(2) == 0) sum.axes.push_back(d);
      }
      program.results.push_back(emit(Op::kReduceSum, {pick(floats)}, sum).index);
    }
  }

  void step() {
    constexpr Op kUnary[] = {Op::kNeg, Op::kAbs, Op::kRelu, Op::kTanh, Op::kSigmoid};
    constexpr Op kBinary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin};
    constexpr Op kCompare[] = {Op::kLess, Op::kGreaterEqual, Op::kEqual};
    const FusedOperand a = pick(floats);
    FusedOperand b = pick(floats);
    if (draw(4) == 0) b = {FusedOperand::Kind::kNumber, 0, 0.25 * static_cast<double>(draw(9) - 4)};
    switch (draw(6)) {
      case 0: {
        const Op op = kUnary[draw(5)];
        const bool same = op != Op::kTanh && op != Op::kSigmoid;
        const FusedOperand from = same ? pick(exact) : a;
        floats.push_back(emit(op, {from}));
        if (same) exact.push_back(floats.back());
        break;
      }
      case 1:
        exact.push_back(emit(kBinary[draw(5)], {pick(exact), pick(exact)}));
        floats.push_back(exact.back());
        break;
      case 2:
        bools.push_back(emit(kCompare[draw(3)], {pick(exact), pick(exact)}));
        break;
      case 3:
        if (!bools.empty()) floats.push_back(emit(Op::kWhere, {pick(bools), a, b}));
        break;
      case 4:
        floats.push_back(emit(Op::kReluGrad, {a, pick(exact)}));
        break;
      default:
        floats.push_back(draw(2) == 0 ? emit(kBinary[draw(5)], {a, b})
                                      : emit(kBinary[draw(5)], {b, a}));
    }
  }
};

TEST_CASE("fused: random programs") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomProgram p(seed);
    p.make();
    std::vector<TensorType> types;
    for (const Operand& o : p.inputs) types.push_back({o.dtype, o.shape});
    try {
      fused_types(p.program, types);
    } catch (const Error&) {
      continue;  // a selector of the wrong shape, or numbers alone
    }
    INFO("seed " << seed);
    check(print(p.program), p.inputs);
  }
}

}  // namespace
}  // namespace trainrt
