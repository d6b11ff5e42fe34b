#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

TEST_CASE("softmax and its gradients on CUDA") {
  for (const auto& [shape, axis] : {std::pair<Shape, int64_t>{{4, 10}, 1},
                                    {{3, 1000}, 1},
                                    {{2, 5, 7}, 1},
                                    {{6, 3, 2}, 0},
                                    {{1, 1}, 1},
                                    {{5}, 0}}) {
    check_cuda_rows({Op::kSoftmax, {shape}, AxisAttrs{axis}}, kClose);
    check_cuda_rows({Op::kLogSoftmax, {shape}, AxisAttrs{axis}}, kClose);
    check_cuda_rows({Op::kSoftmaxGrad, {shape, Operand(shape, 0, 1)}, AxisAttrs{axis}}, kClose);
    check_cuda_rows({Op::kLogSoftmaxGrad, {shape, Operand(shape, -3, 0)}, AxisAttrs{axis}}, kClose);
  }
}

TEST_CASE("softmax of masked scores on CUDA") {
  Tensor x(DType::kFloat32, {2, 3});
  x.data<float>()[1] = -INFINITY;
  check_cuda_rows({Op::kSoftmax, {Operand(x)}, AxisAttrs{1}}, kClose);
}

}  // namespace
}  // namespace trainrt
