#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cases/update.h"

namespace trainrt {
namespace {

TEST_CASE("optimizer updates on CUDA") {
  for (const RowCase& c : optimizer_cases()) check_cuda_rows(c, kUpdateTolerance);
}

TEST_CASE("a first step on CUDA does not see what the slot held") {
  OptimizerAttrs attrs;
  attrs.kind = OptimizerKind::kMomentum;
  Tensor slot(DType::kFloat32, {5});
  slot.fill(NAN);
  check_cuda_rows({Op::kOptimizerUpdate,
                   {Shape{5}, Shape{5}, Operand(Tensor::from<double>({1e-2, 1}, {2})),
                    Operand(Tensor::scalar(1.0f)), Operand(slot)},
                   attrs},
                  kUpdateTolerance);
}

TEST_CASE("Assign and AssignAdd on CUDA") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{37}, Shape{5001}}) {
    for (const DType type :
         {DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kInt16, DType::kInt32,
          DType::kInt64, DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
      const bool is_signed = type != DType::kUInt8 && type != DType::kUInt16 &&
                             type != DType::kUInt32 && type != DType::kUInt64;
      const Operand x(shape, type, is_signed ? -120 : 100, is_signed ? 120 : 250);  // sums wrap
      check_cuda_rows({Op::kAssign, {x, x}}, kExact);
      check_cuda_rows({Op::kAssignAdd, {x, x}}, kExact);
    }
    check_cuda_rows({Op::kAssign, {{shape, DType::kBool, 0, 1}, {shape, DType::kBool, 0, 1}}},
                    kExact);
  }
}

}  // namespace
}  // namespace trainrt
