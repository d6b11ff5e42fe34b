#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

TEST_CASE("determinants and cofactors on CUDA, of singular matrices too") {
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 2}, Shape{5, 3, 3}, Shape{2, 70, 4, 4},
                             Shape{0, 3, 3}, Shape{6, 6}}) {
    check_cuda_rows({Op::kDet, {shape}}, kClose);
    check_cuda_rows({Op::kCofactor, {shape}}, kClose);
  }
  Tensor singular(DType::kFloat32, {2, 3, 3});
  for (size_t i = 0; i < 9; ++i) singular.data<float>()[i] = static_cast<float>(i / 3 + 1);
  check_cuda_rows({Op::kDet, {Operand(singular)}}, kClose);
  check_cuda_rows({Op::kCofactor, {Operand(singular)}}, kClose);
}

}  // namespace
}  // namespace trainrt
