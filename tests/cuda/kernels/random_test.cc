#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cases/update.h"

namespace trainrt {
namespace {

TEST_CASE("Dropout on CUDA draws the mask of the Philox stream") {
  for (const RowCase& c : dropout_cases()) check_cuda_rows(c, kExact);
}

TEST_CASE("Dropout of values kept as bfloat16 on CUDA") {
  for (int64_t n : {3, 257, 5000}) {
    check_cuda_mixtures({Op::kDropout, {Shape{n}, random_key()}, DropoutAttrs{0.3, 2}}, 1, 1,
                        kExact);
  }
}

TEST_CASE("random numbers on CUDA") {
  for (const DType type : {DType::kFloat32, DType::kFloat64}) {
    for (int64_t n : {0, 1, 2, 3, 5, 4000, 4001}) {
      for (const auto& [a, b] :
           {std::pair<double, double>{0, 1}, {-0.3, 0.7}, {1, 1}, {1, 1.0000002}, {5, -2}}) {
        check_cuda_rows(
            {Op::kRandom, {random_key()}, RandomAttrs{RandomKind::kUniform, type, {n}, a, b, 3}},
            kExact);
        check_cuda_rows(
            {Op::kRandom, {random_key()}, RandomAttrs{RandomKind::kNormal, type, {n}, a, b, 3}},
            kTight);
      }
    }
  }
}

}  // namespace
}  // namespace trainrt
