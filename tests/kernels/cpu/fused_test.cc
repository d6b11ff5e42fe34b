#include "graph/fused.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/cases/fused.h"
#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

void check(const std::string& program, const std::vector<Operand>& inputs,
           Tolerance tolerance = kClose) {
  check_rows({Op::kFused, inputs, FusedAttrs{program}}, tolerance);
}

TEST_CASE("fused: shapes, tails, broadcasting") {
  const std::string program = "Mul($0, $1); Add(%0, 0.5); Tanh(%1); return %1, %2";
  for (const auto& [a, b] : fused_shapes()) check(program, {a, b});
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

TEST_CASE("fused: random programs") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomProgram p(seed);
    if (!p.make()) continue;
    INFO("seed " << seed);
    check(print(p.program), p.inputs);
  }
}

}  // namespace
}  // namespace trainrt
