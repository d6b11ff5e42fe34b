#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

TEST_CASE("fills on CUDA") {
  for (DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
        DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64, DType::kBool}) {
    for (const Shape& shape :
         {Shape{}, Shape{0}, Shape{3}, Shape{37, 5}, Shape{4096}, Shape{9001}}) {
      check_cuda_rows({Op::kFill, {}, FillAttrs{dtype, shape, dtype == DType::kBool ? 1.0 : 5.0}},
                      kExact);
    }
  }
  check_cuda_rows({Op::kFill, {}, FillAttrs{DType::kFloat32, {5}, -0.0}}, kExact);
}

}  // namespace
}  // namespace trainrt
