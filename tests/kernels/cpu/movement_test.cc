#include <catch2/catch_test_macros.hpp>

#include "tests/kernels/cpu/row_check.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

/// The same movement for elements of one, four and eight bytes.
void check_moves(Op op, const Shape& shape, const Attrs& attrs) {
  for (DType t : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kFloat64}) {
    check_rows({op, {Operand(shape, t, 0, t == DType::kBool ? 1 : 100)}, attrs}, kExact);
  }
}

TEST_CASE("Transpose on CPU") {
  const std::vector<std::pair<Shape, std::vector<int64_t>>> cases = {
      {{}, {}},
      {{5}, {0}},
      {{5, 7}, {1, 0}},
      {{5, 7}, {0, 1}},
      {{2, 3, 4, 5}, {0, 2, 1, 3}},
      {{2, 3, 4, 5}, {3, 2, 1, 0}},
      {{2, 3, 4, 5}, {0, 1, 3, 2}},
      {{70, 90}, {1, 0}},
      {{1, 33, 1, 35}, {3, 2, 1, 0}},
      {{3, 0, 2}, {2, 1, 0}},
      {{4, 5, 6}, {1, 2, 0}},
      {{4, 5, 6}, {2, 0, 1}},
      {{2, 3, 2, 3, 2}, {4, 1, 3, 0, 2}},
      {{300, 200}, {1, 0}}};
  for (const auto& [shape, perm] : cases) check_moves(Op::kTranspose, shape, PermAttrs{perm});
}

TEST_CASE("Slice and its gradient on CPU, with steps of both signs") {
  struct Row {
    Shape shape;
    std::vector<int64_t> starts, steps, sizes;
  };
  const Row rows[] = {{{10}, {2}, {1}, {5}},
                      {{10}, {9}, {-1}, {10}},
                      {{10}, {8}, {-3}, {3}},
                      {{4, 6}, {1, 0}, {1, 1}, {2, 6}},
                      {{4, 6}, {0, 1}, {1, 2}, {4, 3}},
                      {{4, 6, 5}, {3, 2, 0}, {-2, 1, 2}, {2, 3, 3}},
                      {{4, 6}, {0, 3}, {1, 1}, {4, 0}},
                      {{200, 300}, {10, 0}, {1, 1}, {150, 300}}};
  for (const Row& r : rows) {
    check_moves(Op::kSlice, r.shape, SliceAttrs{r.starts, r.steps, r.sizes, {}});
    check_rows({Op::kSliceGrad, {r.sizes}, SliceAttrs{r.starts, r.steps, r.sizes, r.shape}},
               kExact);
  }
}

TEST_CASE("constant Pad and its gradient on CPU, cropping included") {
  struct Row {
    Shape shape;
    std::vector<int64_t> before, after;
  };
  const Row rows[] = {{{5}, {2}, {1}},
                      {{4, 6}, {1, 0}, {0, 2}},
                      {{4, 6}, {0, 0}, {0, 0}},
                      {{4, 6}, {-1, 2}, {1, -3}},
                      {{2, 3, 4}, {0, 1, 1}, {0, 1, 1}},
                      {{0, 3}, {1, 1}, {2, 0}},
                      {{4}, {-2}, {-2}}};
  for (const Row& r : rows) {
    Shape padded = r.shape;
    for (size_t d = 0; d < padded.size(); ++d) padded[d] += r.before[d] + r.after[d];
    for (double value : {0.0, 1.0}) {
      check_moves(Op::kPad, r.shape, PadAttrs{r.before, r.after, PadMode::kConstant, value, {}});
    }
    check_rows(
        {Op::kPadGrad, {padded}, PadAttrs{r.before, r.after, PadMode::kConstant, 0, r.shape}},
        kExact);
  }
}

TEST_CASE("Expand on CPU") {
  const std::vector<std::pair<Shape, Shape>> cases = {{{}, {5, 7}},     {{7}, {5, 7}},
                                                      {{5, 1}, {5, 7}}, {{3, 1, 4}, {3, 6, 4}},
                                                      {{1}, {0}},       {{2, 3}, {2, 3}}};
  for (const auto& [from, to] : cases) check_moves(Op::kExpand, from, ShapeAttrs{to});
}

TEST_CASE("Concat and Split on CPU") {
  for (int64_t axis : {0, 1, 2}) {
    Shape a = {2, 3, 4}, b = a, c = a, whole = a;
    b[static_cast<size_t>(axis)] = 1;
    c[static_cast<size_t>(axis)] = 0;
    const int64_t size = a[static_cast<size_t>(axis)];
    whole[static_cast<size_t>(axis)] = size + 1;
    check_rows({Op::kConcat, {a, b, c}, AxisAttrs{axis}}, kExact);
    check_moves(Op::kSplit, whole, SplitAttrs{axis, {1, size, 0}});
  }
  check_rows({Op::kConcat, {Shape{300, 100}, Shape{300, 57}}, AxisAttrs{1}}, kExact);
}

TEST_CASE("Gather and its gradient on CPU") {
  struct Row {
    Shape data;
    int64_t axis;
    Shape indices;
  };
  const Row rows[] = {{{10, 7}, 0, {5}},   {{10, 7}, 1, {2, 3}}, {{10}, 0, {}},
                      {{3, 4, 5}, 1, {6}}, {{3, 4, 5}, 2, {40}}, {{50, 300}, 0, {4, 60}},
                      {{10, 7}, 0, {0}},   {{1, 1}, 0, {3}}};
  for (const Row& r : rows) {
    const int64_t size = r.data[static_cast<size_t>(r.axis)];
    Shape out(r.data.begin(), r.data.begin() + r.axis);
    out.insert(out.end(), r.indices.begin(), r.indices.end());
    out.insert(out.end(), r.data.begin() + r.axis + 1, r.data.end());
    for (DType t : {DType::kInt64, DType::kInt32}) {
      const Operand index(r.indices, t, static_cast<double>(-size), static_cast<double>(size - 1));
      check_rows({Op::kGather, {r.data, index}, AxisAttrs{r.axis}}, kExact);
      check_rows({Op::kGather, {Operand(r.data, DType::kInt64, 0, 99), index}, AxisAttrs{r.axis}},
                 kExact);
      check_rows({Op::kGatherGrad, {out, index}, GatherGradAttrs{r.axis, r.data}}, kExact);
    }
  }
}

TEST_CASE("Gather on CPU refuses indices out of range") {
  for (int64_t bad : {int64_t{10}, int64_t{-11}, int64_t{1} << 50}) {
    const Operand index(Tensor::of_ints(std::vector<int64_t>{0, bad}));
    CHECK_THROWS_AS(run_first_row({Op::kGather, {Shape{10, 7}, index}, AxisAttrs{0}}), Error);
    CHECK_THROWS_AS(
        run_first_row({Op::kGatherGrad, {Shape{2, 7}, index}, GatherGradAttrs{0, {10, 7}}}), Error);
  }
}

TEST_CASE("Fill, Constant and Assign on CPU") {
  for (DType t : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kFloat64}) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 5}, Shape{70000}}) {
      for (double value : {0.0, 1.0})
        check_rows({Op::kFill, {}, FillAttrs{t, shape, value}}, kExact);
    }
  }
  check_rows({Op::kFill, {}, FillAttrs{DType::kFloat32, {9}, -0.5}}, kExact);
  check_rows({Op::kConstant, {}, ConstantAttrs{Tensor::from<float>({1, 2, 3}, {3})}}, kExact);
  check_rows({Op::kAssign, {Shape{37}, Shape{37}}}, kExact);
}

}  // namespace
}  // namespace trainrt
