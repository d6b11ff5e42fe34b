#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

// Rows of a warp, of a block, and longer; columns of few and of many lanes, with tails.
TEST_CASE("softmax and its gradients on CUDA") {
  for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{4, 10}, 1},
                                    {{19, 100}, 1},
                                    {{3, 1000}, 1},
                                    {{2, 1025}, 1},
                                    {{2, 4096}, 1},
                                    {{2, 4099}, 1},
                                    {{2, 5, 7}, 1},
                                    {{3, 70, 5}, 1},
                                    {{2, 300, 1, 40}, 1},
                                    {{9, 300}, 0},
                                    {{6, 3, 2}, 0},
                                    {{1, 1}, 1},
                                    {{0, 5}, 1},
                                    {{5, 0}, 1},
                                    {{5}, 0}}) {
    for (const double range : {3.0, 60.0}) {
      const Operand x(shape, -range, range);
      check_cuda_rows({Op::kSoftmax, {x}, AxisAttrs{axis}}, kClose);
      check_cuda_rows({Op::kLogSoftmax, {x}, AxisAttrs{axis}}, kClose);
    }
    check_cuda_rows({Op::kSoftmaxGrad, {shape, Operand(shape, 0, 1)}, AxisAttrs{axis}}, kClose);
    check_cuda_rows({Op::kLogSoftmaxGrad, {shape, Operand(shape, -3, 0)}, AxisAttrs{axis}}, kClose);
  }
}

TEST_CASE("softmax of what is not finite on CUDA") {
  for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{5, 20}, 1},
                                    {{5, 1200}, 1},
                                    {{5, 4200}, 1},
                                    {{5, 20, 3}, 1},
                                    {{5, 200, 3}, 1}}) {
    const int64_t row = shape[1] * (shape.size() > 2 ? shape[2] : 1);
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.size(); ++i) {
      x.data<float>()[static_cast<size_t>(i)] = std::sin(static_cast<float>(i));
    }
    for (int64_t i = 0; i < row; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i % 3 != 1) x.data<float>()[at] = -INFINITY;             // masked
      x.data<float>()[static_cast<size_t>(row) + at] = -INFINITY;  // nothing else
    }
    x.data<float>()[static_cast<size_t>(2 * row + 4)] = NAN;
    x.data<float>()[static_cast<size_t>(3 * row + 4)] = INFINITY;
    check_cuda_rows({Op::kSoftmax, {Operand(x)}, AxisAttrs{axis}}, kClose);
    check_cuda_rows({Op::kLogSoftmax, {Operand(x)}, AxisAttrs{axis}}, kClose);
  }
}

}  // namespace
}  // namespace trainrt
