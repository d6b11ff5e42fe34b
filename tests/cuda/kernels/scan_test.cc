#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

constexpr DType kIntegers[] = {DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                               DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};

TEST_CASE("CumSum and CumProd on CUDA") {
  const std::vector<std::pair<Shape, int64_t>> cases = {
      {{5}, 0},          {{3, 16}, 1},     {{1000}, 0},      {{3, 1025}, 1}, {{20000}, 0},
      {{2, 9000, 2}, 1}, {{300, 20}, 0},   {{2, 70, 33}, 1}, {{0, 3}, 0},    {{3, 0}, 1},
      {{1, 1}, 1},       {{4, 100, 3}, 1}, {{2000, 17}, 0}};
  for (const auto& [shape, axis] : cases) {
    for (bool exclusive : {false, true}) {
      for (bool reverse : {false, true}) {
        const CumAttrs attrs{axis, exclusive, reverse};
        check_cuda_rows({Op::kCumSum, {shape}, attrs}, kTight);
        check_cuda_rows({Op::kCumProd, {Operand(shape, 0.99, 1.01)}, attrs}, kTight);
      }
    }
  }
}

TEST_CASE("CumSum and CumProd on CUDA wrap around in integers") {
  for (DType t : kIntegers) {
    for (const Shape& shape : {Shape{600, 2}, Shape{40, 20}}) {
      check_cuda_rows({Op::kCumSum, {Operand(shape, t, 0, 99)}, CumAttrs{0, false, true}}, kExact);
      check_cuda_rows({Op::kCumProd, {Operand(shape, t, 1, 3)}, CumAttrs{0, true, false}}, kExact);
    }
  }
}

TEST_CASE("a product that passes through 0 and infinity on CUDA") {
  Tensor x(DType::kFloat32, {3000});
  x.fill(1.5);
  x.data<float>()[2900] = 0;
  x.data<float>()[2950] = NAN;
  for (bool exclusive : {false, true}) {
    check_cuda_rows({Op::kCumProd, {Operand(x)}, CumAttrs{0, exclusive, false}}, kTight);
  }
}

TEST_CASE("TopK on CUDA") {
  struct Row {
    Shape shape;
    int64_t axis, k;
  };
  // Rows that share a block, that fill one, of several levels, and that are sorted as a whole.
  const Row rows[] = {{{5}, 0, 3},          {{1}, 0, 1},          {{4, 8}, 1, 2},
                      {{100, 7}, 1, 7},     {{7, 40, 3}, 1, 5},   {{600, 2}, 0, 600},
                      {{2, 2048}, 1, 2048}, {{2, 2049}, 1, 10},   {{5000}, 0, 1000},
                      {{3, 5000}, 1, 1500}, {{3, 4100, 2}, 1, 3}, {{3, 5}, 1, 0},
                      {{0, 5}, 1, 2},       {{9000, 1}, 0, 9000}};
  for (const Row& r : rows) {
    for (bool largest : {false, true}) {
      const TopKAttrs attrs{r.axis, r.k, largest};
      check_cuda_rows({Op::kTopK, {r.shape}, attrs}, kExact);
      check_cuda_rows({Op::kTopK, {Operand(r.shape, DType::kInt64, -9, 9)}, attrs}, kExact);
    }
  }
  for (DType t : kIntegers) {
    for (bool largest : {false, true}) {
      check_cuda_rows({Op::kTopK, {Operand({9, 50}, t, 0, 100)}, TopKAttrs{1, 20, largest}},
                      kExact);
    }
  }
  check_cuda_rows({Op::kTopK, {Operand({70}, DType::kInt8, -128, 127)}, TopKAttrs{0, 70, true}},
                  kExact);
}

TEST_CASE("TopK on CUDA of more than two levels") {
  check_cuda_rows({Op::kTopK, {Operand({9000}, DType::kInt16, 0, 300)}, TopKAttrs{0, 1024, true}},
                  kExact);
}

TEST_CASE("NaN, zeros of both signs and infinities in TopK on CUDA") {
  Tensor x(DType::kFloat32, {3000});
  for (size_t i = 0; i < 3000; ++i) {
    const float values[] = {0.0f, -0.0f, NAN, -NAN, INFINITY, -INFINITY, 1.0f};
    x.data<float>()[i] = values[i * i % 7];
  }
  for (bool largest : {false, true}) {
    for (int64_t k : {4, 900, 3000}) {
      check_cuda_rows({Op::kTopK, {Operand(x)}, TopKAttrs{0, k, largest}}, kExact);
    }
  }
}

}  // namespace
}  // namespace trainrt
