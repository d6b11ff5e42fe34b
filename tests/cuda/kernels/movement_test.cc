// What the tests shared with the CPU's rows leave out.
#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

Operand of(const Shape& shape, DType type) {
  return {shape, type, 0, type == DType::kBool ? 1.0 : 100.0};
}

TEST_CASE("Transpose on CUDA by tiles and by strides, of every size of elements") {
  const std::vector<std::pair<Shape, std::vector<int64_t>>> cases = {
      {{33, 65}, {1, 0}},
      {{2, 40, 3, 9}, {0, 3, 2, 1}},
      {{3, 40, 2, 33}, {3, 0, 2, 1}},
      {{7, 9, 8}, {1, 0, 2}},
      {{5, 3, 70}, {2, 0, 1}},
      {{2, 1, 8, 8, 1}, {0, 1, 3, 2, 4}},
      {{4, 5, 16}, {1, 0, 2}},
      {{7, 70}, {1, 0}},
      {{2, 3, 4, 12}, {2, 1, 0, 3}}};
  for (const auto& [shape, perm] : cases) {
    for (DType t : {DType::kUInt8, DType::kInt16, DType::kFloat32, DType::kInt64}) {
      check_cuda_rows({Op::kTranspose, {of(shape, t)}, PermAttrs{perm}}, kExact);
    }
    check_cuda_rows({Op::kTranspose, {shape}, PermAttrs{perm}, 0, 0, 1, 1}, kExact);
  }
  std::vector<int64_t> reverse;
  for (int64_t d = 15; d >= 0; --d) reverse.push_back(d);
  check_cuda_rows({Op::kTranspose, {Shape(16, 2)}, PermAttrs{reverse}}, kExact);
}

TEST_CASE("moves on CUDA of values kept as bfloat16") {
  check_cuda_rows({Op::kSlice, {Shape{5, 8}}, SliceAttrs{{1, 0}, {2, 1}, {2, 8}, {}}, 0, 0, 1, 1},
                  kExact);
  check_cuda_rows(
      {Op::kSliceGrad, {Shape{2, 3}}, SliceAttrs{{1, 0}, {2, 3}, {2, 3}, {5, 8}}, 0, 0, 1, 1},
      kExact);
  check_cuda_rows({Op::kConcat, {Shape{2, 3}, Shape{2, 5}}, AxisAttrs{1}, 0, 0, 3, 1}, kExact);
  check_cuda_rows({Op::kSplit, {Shape{2, 8}}, SplitAttrs{1, {3, 5}}, 0, 0, 1, 3}, kExact);
  check_cuda_rows({Op::kExpand, {Shape{2, 1}}, ShapeAttrs{{2, 7}}, 0, 0, 1, 1}, kExact);
  check_cuda_rows({Op::kTrilu, {Shape{5, 6}}, TriluAttrs{true, 1}, 0, 0, 1, 1}, kExact);
  const PadAttrs pad{{1, 2}, {0, -1}, PadMode::kConstant, 1.5, {}};
  check_cuda_rows({Op::kPad, {Shape{3, 4}}, pad, 0, 0, 1, 1}, kExact);
}

TEST_CASE("Pad on CUDA in every mode, and its gradient") {
  struct Row {
    Shape shape;
    std::vector<int64_t> before, after;
  };
  const Row rows[] = {
      {{}, {}, {}},
      {{5}, {3}, {4}},
      {{1}, {0}, {0}},
      {{4, 6}, {3, -2}, {-1, 4}},
      {{4, 6, 8}, {1, 0, 0}, {2, 0, 0}},
      {{2, 3, 5, 4}, {0, 1, 2, 3}, {0, 2, 1, 2}},
      {{3, 4, 2, 4}, {2, 0, 0, 1}, {1, 0, 0, 0}},
      {{5}, {2}, {-4}},
      {{20, 30}, {7, 8}, {9, 10}},
      {{3, 2, 8}, {0, 1, 0}, {0, 1, 0}},
      {{0, 3}, {0, 1}, {0, 1}},
  };
  for (PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, PadMode::kWrap}) {
    for (const Row& r : rows) {
      Shape padded = r.shape;
      for (size_t d = 0; d < padded.size(); ++d) padded[d] += r.before[d] + r.after[d];
      for (DType t : {DType::kFloat32, DType::kInt8, DType::kInt64, DType::kInt16}) {
        check_cuda_rows({Op::kPad, {of(r.shape, t)}, PadAttrs{r.before, r.after, mode, 7, {}}},
                        kExact);
      }
      check_cuda_rows({Op::kPadGrad, {padded}, PadAttrs{r.before, r.after, mode, 0, r.shape}},
                      kTight);
    }
  }
  check_cuda_rows({Op::kPadGrad, {Shape{300}}, PadAttrs{{0}, {298}, PadMode::kEdge, 0, {2}}},
                  kTight);
  check_cuda_rows({Op::kPadGrad, {Shape{6}}, PadAttrs{{4}, {-3}, PadMode::kReflect, 0, {5}}},
                  kTight);
}

TEST_CASE("Slice on CUDA of bytes at odd places and of wide rows") {
  for (DType t : {DType::kUInt8, DType::kInt16, DType::kFloat64}) {
    check_cuda_rows({Op::kSlice, {of({6, 50}, t)}, SliceAttrs{{1, 3}, {1, 1}, {4, 40}, {}}},
                    kExact);
    check_cuda_rows({Op::kSlice, {of({6, 64}, t)}, SliceAttrs{{5, 16}, {-2, 1}, {3, 32}, {}}},
                    kExact);
    check_cuda_rows(
        {Op::kSlice, {of({3, 5, 16}, t)}, SliceAttrs{{0, 4, 0}, {1, -1, 1}, {3, 5, 16}, {}}},
        kExact);
  }
  check_cuda_rows({Op::kSliceGrad, {Shape{3, 16}}, SliceAttrs{{5, 8}, {-2, 1}, {3, 16}, {6, 32}}},
                  kExact);
}

TEST_CASE("Concat and Split on CUDA of many parts") {
  std::vector<Operand> parts;
  std::vector<int64_t> sizes;
  for (int64_t p = 0; p < 150; ++p) {
    parts.emplace_back(Shape{3, p % 4, 2});
    sizes.push_back(p % 4);
  }
  int64_t whole = 0;
  for (int64_t size : sizes) whole += size;
  check_cuda_rows({Op::kConcat, parts, AxisAttrs{1}}, kExact);
  check_cuda_rows({Op::kSplit, {Shape{3, whole, 2}}, SplitAttrs{1, sizes}}, kExact);
  for (DType t : {DType::kBool, DType::kInt16, DType::kInt64}) {
    check_cuda_rows({Op::kConcat, {of({4, 3}, t), of({4, 1}, t)}, AxisAttrs{1}}, kExact);
    check_cuda_rows({Op::kConcat, {of({4, 16}, t), of({4, 32}, t)}, AxisAttrs{1}}, kExact);
    check_cuda_rows({Op::kSplit, {of({0, 4}, t)}, SplitAttrs{1, {1, 3}}}, kExact);
  }
}

TEST_CASE("Trilu on CUDA") {
  for (bool upper : {false, true}) {
    for (int64_t k : {int64_t{-40}, int64_t{-2}, int64_t{0}, int64_t{3}, int64_t{1} << 40}) {
      for (const Shape& shape : {Shape{5, 5}, Shape{2, 3, 4, 7}, Shape{33, 20}, Shape{2, 0, 3}}) {
        for (DType t : {DType::kFloat32, DType::kBool, DType::kInt16, DType::kInt64}) {
          check_cuda_rows({Op::kTrilu, {of(shape, t)}, TriluAttrs{upper, k}}, kExact);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trainrt
