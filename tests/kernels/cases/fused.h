// Programs of Fused nodes, and operands.
#ifndef TRAINRT_TESTS_KERNELS_CASES_FUSED_H_
#define TRAINRT_TESTS_KERNELS_CASES_FUSED_H_

#include <random>
#include <utility>
#include <vector>

#include "graph/fused.h"
#include "tests/kernels/row_case.h"
#include "trainrt/error.h"

namespace trainrt {

inline Operand flags(Shape shape) { return {std::move(shape), DType::kBool, 0, 1}; }

/// The iteration space, and an operand that is stretched to it.
inline std::vector<std::pair<Shape, Shape>> fused_shapes() {
  return {
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

  /// Whether it is a valid program: a selector may have the wrong shape, or there be numbers alone.
  bool make() {
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
    std::vector<TensorType> types;
    for (const Operand& o : inputs) types.push_back({o.dtype, o.shape});
    try {
      fused_types(program, types);
    } catch (const Error&) {
      return false;
    }
    return true;
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

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_CASES_FUSED_H_
