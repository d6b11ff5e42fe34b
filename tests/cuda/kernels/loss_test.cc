#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cases/norm.h"

namespace trainrt {
namespace {

TEST_CASE("cross entropy and its gradient on CUDA") {
  for (const CheckedCase& c : cross_entropy_cases()) check_cuda_rows(c.c, c.tolerance);
}

struct Row {
  Shape logits, ids;
  int64_t axis;
};

TEST_CASE("losses of other sizes and with narrow ids on CUDA") {
  for (const Row& r : {Row{{3, 1000}, {3}, 1}, Row{{3, 1025}, {3}, 1}, Row{{2, 5000}, {2}, 1},
                       Row{{3, 200, 2}, {3, 2}, 1}, Row{{0, 3}, {0}, 1}, Row{{9}, {}, 0}}) {
    const int64_t classes = r.logits[static_cast<size_t>(r.axis)];
    for (DType type : {DType::kInt32, DType::kInt64}) {
      const Operand target(r.ids, type, 0, static_cast<double>(classes - 1));
      for (int64_t ignored : {-100, 1}) {
        const LossAttrs attrs{r.axis, ignored, {}};
        check_cuda_rows({Op::kCrossEntropy, {r.logits, target}, attrs}, kClose);
        check_cuda_rows({Op::kCrossEntropyGrad, {r.ids, r.logits, target}, attrs}, kClose);
        check_cuda_rows({Op::kNllLoss, {r.logits, target}, attrs}, kExact);
        check_cuda_rows({Op::kNllLossGrad, {r.ids, target}, LossAttrs{r.axis, ignored, r.logits}},
                        kExact);
      }
    }
  }
}

TEST_CASE("cross entropy of what is not finite on CUDA") {
  for (const Shape& shape : {Shape{4, 10}, Shape{4, 2000}, Shape{4, 5000}, Shape{4, 10, 3}}) {
    const int64_t row = shape[1] * (shape.size() > 2 ? shape[2] : 1);
    Tensor x(DType::kFloat32, shape);
    const auto at = [&](int64_t i) -> float& { return x.data<float>()[static_cast<size_t>(i)]; };
    for (int64_t i = 0; i < x.size(); ++i) at(i) = std::sin(static_cast<float>(i));
    for (int64_t i = 0; i < row; ++i) {
      if (i % 4 != 1) at(i) = -INFINITY;
      at(row + i) = -INFINITY;
    }
    at(2 * row + 4) = NAN;
    at(3 * row + 4) = INFINITY;
    Shape positions = shape;
    positions.erase(positions.begin() + 1);
    const Operand target = ids(positions, 0, 3);
    check_cuda_rows({Op::kCrossEntropy, {Operand(x), target}, LossAttrs{}}, kClose);
    check_cuda_rows({Op::kCrossEntropyGrad, {positions, Operand(x), target}, LossAttrs{}}, kClose);
  }
}

TEST_CASE("losses on CUDA report class ids out of range") {
  for (int64_t bad : {int64_t{-1}, int64_t{3}, int64_t{1} << 40}) {
    const Operand target(Tensor::of_ints(std::vector<int64_t>{0, bad}));
    for (const Shape& shape : {Shape{2, 3}, Shape{3, 2}}) {
      const int64_t axis = shape[0] == 2 ? 1 : 0;
      const LossAttrs attrs{axis, -100, {}};
      for (const RowCase& c :
           {RowCase{Op::kCrossEntropy, {shape, target}, attrs},
            RowCase{Op::kCrossEntropyGrad, {Shape{2}, shape, target}, attrs},
            RowCase{Op::kNllLoss, {shape, target}, attrs},
            RowCase{Op::kNllLossGrad, {Shape{2}, target}, LossAttrs{axis, -100, shape}}}) {
        int32_t reported = 0;
        run_cuda_row(c, &reported);
        CHECK(reported == 7);
      }
    }
  }
}

}  // namespace
}  // namespace trainrt
