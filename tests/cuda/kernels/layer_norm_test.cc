#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cases/norm.h"

namespace trainrt {
namespace {

TEST_CASE("LayerNorm, RmsNorm and their gradients on CUDA") {
  for (const CheckedCase& c : layer_norm_cases()) check_cuda_rows(c.c, c.tolerance);
}

// Rows of a warp and of a block, longer ones, sums over rows in parts, nothing at all.
TEST_CASE("norms of other sizes on CUDA") {
  for (const Shape& x : {Shape{9, 1000}, Shape{3, 1025}, Shape{2, 4096}, Shape{3, 5000},
                         Shape{2000, 3}, Shape{0, 5}, Shape{3, 0}}) {
    const NormAttrs attrs{1, 1e-5};
    const Shape row = {x[1]}, one = {x[0], 1};
    const Operand inverse(one, 0.5, 2);
    check_cuda_rows({Op::kLayerNorm, {x, row, row}, attrs}, {3e-5, false});
    check_cuda_rows({Op::kLayerNormGrad, {x, x, one, inverse, row}, attrs}, kClose);
    check_cuda_rows({Op::kRmsNorm, {x, row}, attrs}, kClose);
    check_cuda_rows({Op::kRmsNormGrad, {x, x, inverse, row}, attrs}, kClose);
  }
}

TEST_CASE("norms of values kept as bfloat16 on CUDA") {
  const NormAttrs attrs{1, 1e-5};
  const Operand inverse({40, 1}, 0.5, 2);
  for (int64_t size : {33, 4200}) {
    const Shape x = {40, size}, row = {size};
    check_cuda_mixtures({Op::kLayerNorm, {x, row, row}, attrs}, 1, 1, kClose);
    check_cuda_mixtures({Op::kLayerNormGrad, {x, x, Shape{40, 1}, inverse, row}, attrs}, 0b11, 1,
                        kClose);
    check_cuda_mixtures({Op::kRmsNorm, {x, row}, attrs}, 1, 1, kClose);
    check_cuda_mixtures({Op::kRmsNormGrad, {x, x, inverse, row}, attrs}, 0b11, 1, kClose);
  }
}

}  // namespace
}  // namespace trainrt
