#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

constexpr Op kReductions[] = {Op::kReduceSum, Op::kReduceMean, Op::kReduceProd, Op::kReduceMax,
                              Op::kReduceMin};
constexpr DType kIntegers[] = {DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                               DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};

struct Over {
  Shape shape;
  std::vector<int64_t> axes;
};

TEST_CASE("reductions on CUDA over any axes") {
  const Over cases[] = {{{}, {}},
                        {{7}, {0}},
                        {{3, 4}, {}},
                        {{300, 3}, {1}},
                        {{3, 300}, {0}},
                        {{300, 3}, {0}},
                        {{9, 33}, {1}},
                        {{5, 2100}, {1}},
                        {{2100, 5}, {0}},
                        {{20000}, {0}},
                        {{2, 9000}, {1}},
                        {{9000, 2}, {0}},
                        {{4, 6, 5, 7}, {0, 2}},
                        {{4, 6, 5, 7}, {1, 3}},
                        {{4, 6, 5, 7}, {0, 1, 2, 3}},
                        {{3, 70, 1, 40}, {1}},
                        {{2, 3, 2, 3, 2, 3}, {1, 3, 5}},
                        {{70, 3, 70}, {0, 2}}};
  for (const Over& c : cases) {
    for (Op op : kReductions) {
      const bool exact = op == Op::kReduceMax || op == Op::kReduceMin;
      // Factors around 1, so that products stay finite.
      const Operand x = op == Op::kReduceProd ? Operand(c.shape, 0.99, 1.01) : Operand(c.shape);
      check_cuda_rows({op, {x}, ReduceAttrs{c.axes, false}}, exact ? kExact : kTight);
    }
  }
}

TEST_CASE("reductions on CUDA of integers") {
  for (DType t : kIntegers) {
    const bool negative =
        t == DType::kInt8 || t == DType::kInt16 || t == DType::kInt32 || t == DType::kInt64;
    for (const Over& c : {Over{{5, 6}, {1}}, Over{{40, 3}, {0}}, Over{{3000}, {0}}}) {
      for (Op op : kReductions) {
        check_cuda_rows({op, {Operand(c.shape, t, negative ? -100 : 0, 120)}, ReduceAttrs{c.axes}},
                        kExact);
      }
    }
    for (Op op : {Op::kReduceSum, Op::kReduceProd, Op::kReduceMax, Op::kReduceMin}) {
      check_cuda_rows({op, {Operand({2, 0}, t, 0, 1)}, ReduceAttrs{{1}, false}}, kExact);
    }
  }
}

TEST_CASE("reductions on CUDA of nothing and to nothing") {
  for (Op op : kReductions) {
    check_cuda_rows({op, {Shape{3, 0}}, ReduceAttrs{{1}, false}}, kExact);
    check_cuda_rows({op, {Shape{0, 3}}, ReduceAttrs{{0}, true}}, kExact);
    check_cuda_rows({op, {Shape{3, 0}}, ReduceAttrs{{0}, false}}, kExact);
    check_cuda_rows({op, {Shape{0}}, ReduceAttrs{{}, false}}, kExact);
  }
}

TEST_CASE("NaN and infinities in reductions on CUDA") {
  Tensor x(DType::kFloat32, {4, 3000});
  x.fill(-INFINITY);
  x.data<float>()[3700] = NAN;
  x.data<float>()[7000] = 1;
  x.data<float>()[9001] = INFINITY;
  for (Op op : kReductions) {
    for (int64_t axis : {0, 1}) {
      check_cuda_rows({op, {Operand(x)}, ReduceAttrs{{axis}, false}}, kExact);
    }
  }
}

TEST_CASE("reductions on CUDA of values kept as bfloat16") {
  for (Op op : kReductions) {
    const Operand x = op == Op::kReduceProd ? Operand({6, 40}, 0.9, 1.1) : Operand(Shape{6, 40});
    for (int64_t axis : {0, 1}) {
      check_cuda_rows({op, {x}, ReduceAttrs{{axis}, false}, 0, 0, 1, 0}, kTight);
    }
  }
}

TEST_CASE("ArgMax and ArgMin on CUDA: ties, NaN, every type") {
  for (Op op : {Op::kArgMax, Op::kArgMin}) {
    for (bool last : {false, true}) {
      for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{7}, 0},
                                        {{5, 40}, 1},
                                        {{40, 5}, 0},
                                        {{3, 2500}, 1},
                                        {{2500, 3}, 0},
                                        {{20000}, 0},
                                        {{4, 6, 5}, 1},
                                        {{0, 4}, 1},
                                        {{2, 1}, 1}}) {
        const ArgAttrs attrs{axis, false, last};
        check_cuda_rows({op, {shape}, attrs}, kExact);
        // Few values, many ties.
        check_cuda_rows({op, {Operand(shape, DType::kInt32, -2, 2)}, attrs}, kExact);
      }
      for (DType t : kIntegers) {
        check_cuda_rows({op, {Operand({6, 50}, t, 0, 9)}, ArgAttrs{1, true, last}}, kExact);
      }
      Tensor x(DType::kFloat32, {3, 50});
      x.fill(-INFINITY);
      for (int64_t i : {13, 20, 70, 101, 140}) x.data<float>()[static_cast<size_t>(i)] = NAN;
      check_cuda_rows({op, {Operand(x)}, ArgAttrs{1, false, last}}, kExact);
      check_cuda_rows({op, {Operand(x)}, ArgAttrs{0, false, last}}, kExact);
    }
  }
}

}  // namespace
}  // namespace trainrt
