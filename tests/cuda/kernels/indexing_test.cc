#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

constexpr Reduction kAll[] = {Reduction::kNone, Reduction::kAdd, Reduction::kMul, Reduction::kMax,
                              Reduction::kMin};

Operand of(const Shape& shape, DType type) {
  return {shape, type, 0, type == DType::kBool ? 1.0 : 100.0};
}

Operand narrow_ids(Shape shape, int64_t lo, int64_t hi) {
  return {std::move(shape), DType::kInt32, static_cast<double>(lo), static_cast<double>(hi)};
}

/// Sums of products within float32's rounding, whatever the size of the others.
Tolerance tolerance_of(Reduction r) {
  return r == Reduction::kAdd || r == Reduction::kMul ? kTight : kExact;
}

TEST_CASE("Gather on CUDA of every size of rows") {
  for (DType t : {DType::kBool, DType::kInt16, DType::kFloat32, DType::kInt64}) {
    for (int64_t row : {1, 3, 4, 6, 16}) {
      check_cuda_rows({Op::kGather, {of({5, row}, t), ids({2, 7}, -5, 4)}, AxisAttrs{0}}, kExact);
      check_cuda_rows({Op::kGather, {of({3, 5, row}, t), narrow_ids({4}, -5, 4)}, AxisAttrs{1}},
                      kExact);
    }
  }
  check_cuda_rows({Op::kGather, {Shape{5, 8}, ids({6}, -5, 4)}, AxisAttrs{0}, 0, 0, 1, 1}, kExact);
}

TEST_CASE("GatherElements and GatherND on CUDA") {
  for (DType t : {DType::kBool, DType::kInt16, DType::kFloat32, DType::kInt64}) {
    const Operand x = of({4, 5, 6}, t);
    for (int64_t axis : {0, 1, 2}) {
      const int64_t size = x.shape[static_cast<size_t>(axis)];
      check_cuda_rows({Op::kGatherElements, {x, ids({4, 5, 6}, -size, size - 1)}, AxisAttrs{axis}},
                      kExact);
      check_cuda_rows(
          {Op::kGatherElements, {x, narrow_ids({2, 3, 4}, -size, size - 1)}, AxisAttrs{axis}},
          kExact);
    }
    check_cuda_rows({Op::kGatherND, {x, ids({7, 1}, -4, 3)}, GatherNDAttrs{0}}, kExact);
    check_cuda_rows({Op::kGatherND, {x, ids({2, 3, 2}, -4, 3)}, GatherNDAttrs{0}}, kExact);
    check_cuda_rows({Op::kGatherND, {x, narrow_ids({3}, -4, 3)}, GatherNDAttrs{0}}, kExact);
    check_cuda_rows({Op::kGatherND, {x, ids({4, 3, 1}, -5, 4)}, GatherNDAttrs{1}}, kExact);
    check_cuda_rows({Op::kGatherND, {x, ids({4, 5, 2, 1}, -6, 5)}, GatherNDAttrs{2}}, kExact);
    check_cuda_rows({Op::kGatherND, {x, ids({0, 2}, 0, 0)}, GatherNDAttrs{0}}, kExact);
  }
}

/// Whole numbers, which float32 adds exactly in any order.
Operand whole(const Shape& shape) {
  Operand integers(shape, DType::kInt32, -9, 9);
  return Operand(TestNode({Op::kIdentity, {integers}}).inputs[0].to(DType::kFloat32));
}

TEST_CASE("GatherGrad on CUDA of few rows adds in order") {
  for (const auto& [size, count] : {std::pair<int64_t, int64_t>{1, 32}, {40, 20}, {3, 30}}) {
    check_cuda_rows({Op::kGatherGrad,
                     {Shape{count, 5}, ids({count}, -size, size - 1)},
                     GatherGradAttrs{0, {size, 5}}},
                    kExact);
  }
}

TEST_CASE("GatherGrad on CUDA of many rows, in runs") {
  struct Row {
    int64_t size, count, inner;
  };
  const Row rows[] = {{2, 300, 4},     {1, 1000, 1}, {70, 500, 2}, {200, 2048, 1},
                      {3000, 2500, 2}, {5, 4100, 1}, {9, 33, 300}};
  for (const Row& r : rows) {
    check_cuda_rows({Op::kGatherGrad,
                     {whole({r.count, r.inner}), ids({r.count}, -r.size, r.size - 1)},
                     GatherGradAttrs{0, {r.size, r.inner}}},
                    kExact);
    check_cuda_rows({Op::kGatherGrad,
                     {whole({2, r.count, r.inner}), narrow_ids({r.count}, 0, r.size - 1)},
                     GatherGradAttrs{1, {2, r.size, r.inner}}},
                    kExact);
  }
  RowCase half{Op::kGatherGrad, {whole({50, 6}), ids({50}, 0, 6)}, GatherGradAttrs{0, {7, 6}}};
  half.bf16_inputs = 1;
  check_cuda_rows(half, kExact);
}

TEST_CASE("GatherGrad on CUDA of very many rows stays accurate") {
  const int64_t n = 50000;
  Tensor dy(DType::kFloat32, {n});
  dy.fill(0.1);
  const Operand index({n}, DType::kInt32, 0, 0);
  const RowCase c{Op::kGatherGrad, {Operand(dy), index}, GatherGradAttrs{0, {1}}};
  const std::vector<Buffer> dx = run_cuda_row(c);
  const double sum = *reinterpret_cast<const float*>(dx[0].data());
  CHECK(std::fabs(sum - 0.1f * static_cast<double>(n)) < 0.05);
}

TEST_CASE("ScatterElements on CUDA") {
  for (Reduction r : kAll) {
    for (DType t : {DType::kFloat32, DType::kInt64, DType::kInt32, DType::kUInt8, DType::kInt16}) {
      for (int64_t axis : {0, 1, 2}) {
        const Shape shape = {4, 5, 6};
        const int64_t size = shape[static_cast<size_t>(axis)];
        check_cuda_rows({Op::kScatterElements,
                         {of(shape, t), ids({3, 5, 6}, -size, size - 1), of({3, 5, 6}, t)},
                         ScatterAttrs{axis, r}},
                        tolerance_of(r));
      }
      check_cuda_rows({Op::kScatterElements,
                       {of({2}, t), narrow_ids({200}, -2, 1), Operand({200}, t, 0, 2)},
                       ScatterAttrs{0, r}},
                      tolerance_of(r));
      check_cuda_rows(
          {Op::kScatterElements, {of({3}, t), ids({0}, 0, 0), of({0}, t)}, ScatterAttrs{0, r}},
          kExact);
    }
  }
  check_cuda_rows({Op::kScatterElements,
                   {of({9}, DType::kBool), ids({30}, -9, 8), of({30}, DType::kBool)},
                   ScatterAttrs{}},
                  kExact);
}

TEST_CASE("ScatterElements on CUDA of more indices than a block sorts") {
  for (Reduction r : kAll) {
    check_cuda_rows({Op::kScatterElements,
                     {Shape{3000}, ids({5000}, -3000, 2999), Operand({5000}, 0.9, 1.1)},
                     ScatterAttrs{0, r}},
                    tolerance_of(r));
  }
}

TEST_CASE("a few indices into much data on CUDA") {
  for (DType t : {DType::kFloat32, DType::kInt16, DType::kInt8, DType::kInt64}) {
    check_cuda_rows(
        {Op::kScatterElements, {of({40000}, t), ids({50}, -12, 12), of({50}, t)}, ScatterAttrs{}},
        kExact);
  }
}

TEST_CASE("ScatterND on CUDA") {
  for (Reduction r : kAll) {
    for (DType t : {DType::kFloat32, DType::kInt64, DType::kInt8}) {
      const Operand x = of({4, 5, 6}, t);
      const auto scatter = [&](const Operand& index, const Shape& updates) {
        check_cuda_rows({Op::kScatterND, {x, index, Operand(updates, t, 0, 2)}, ScatterAttrs{0, r}},
                        tolerance_of(r));
      };
      scatter(ids({6, 1}, -4, 3), {6, 5, 6});
      scatter(ids({2, 3, 2}, -4, 3), {2, 3, 6});
      scatter(narrow_ids({90, 3}, -4, 3), {90});
      scatter(ids({0, 2}, 0, 0), {0, 6});
    }
  }
}

TEST_CASE("NaN in scatters on CUDA") {
  const float nan = NAN;
  const Operand x(Tensor::from<float>({1, nan, 3, 0}, {4}));
  const Operand index(Tensor::of_ints(std::vector<int64_t>{0, 0, 1, 2, 3, 3}));
  const Operand updates(Tensor::from<float>({2, nan, 5, -INFINITY, INFINITY, nan}, {6}));
  for (Reduction r : kAll) {
    check_cuda_rows({Op::kScatterElements, {x, index, updates}, ScatterAttrs{0, r}}, kExact);
  }
}

TEST_CASE("indices out of range on CUDA are reported and skipped") {
  for (int64_t bad : {int64_t{4}, int64_t{-5}, int64_t{1} << 50}) {
    const Operand index(Tensor::of_ints(std::vector<int64_t>{0, bad}));
    const Operand tuples(Tensor::of_ints(std::vector<int64_t>{0, bad}).reshape({2, 1}));
    const RowCase cases[] = {
        {Op::kGather, {Shape{4, 2}, index}, AxisAttrs{0}},
        {Op::kGatherGrad, {Shape{2, 2}, index}, GatherGradAttrs{0, {4, 2}}},
        {Op::kGatherElements, {Shape{4}, index}, AxisAttrs{0}},
        {Op::kGatherND, {Shape{4, 2}, tuples}, GatherNDAttrs{0}},
        {Op::kScatterElements, {Shape{4}, index, Shape{2}}, ScatterAttrs{}},
        {Op::kScatterElements, {Shape{4}, index, Shape{2}}, ScatterAttrs{0, Reduction::kAdd}},
        {Op::kScatterND, {Shape{4, 2}, tuples, Shape{2, 2}}, ScatterAttrs{}},
        {Op::kScatterND, {Shape{4, 2}, tuples, Shape{2, 2}}, ScatterAttrs{0, Reduction::kMax}},
    };
    for (const RowCase& c : cases) {
      int32_t reported = 0;
      run_cuda_row(c, &reported);
      INFO(TestNode(c).text());
      CHECK(reported != 0);
    }
  }
}

}  // namespace
}  // namespace trainrt
