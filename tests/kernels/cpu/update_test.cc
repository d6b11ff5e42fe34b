#include "tests/kernels/cases/update.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

TEST_CASE("Dropout on CPU draws the mask of the Philox stream") {
  for (const RowCase& c : dropout_cases()) check_rows(c, kExact);
}

TEST_CASE("optimizer updates on CPU") {
  for (const RowCase& c : optimizer_cases()) check_rows(c, kUpdateTolerance);
}

TEST_CASE("AssignAdd on CPU") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{37}, Shape{50001}}) {
    check_rows({Op::kAssignAdd, {shape, shape}}, kExact);
  }
}

}  // namespace
}  // namespace trainrt
