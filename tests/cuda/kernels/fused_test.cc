#include "graph/fused.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

void check(const std::string& program, const std::vector<Operand>& inputs,
           Tolerance tolerance = kClose) {
  check_cuda_rows({Op::kFused, inputs, FusedAttrs{program}}, tolerance);
}

TEST_CASE("fused on CUDA: shapes, tails, broadcasting") {
  const std::string program = "Mul($0, $1); Add(%0, 0.5); Tanh(%1); return %1, %2";
  check(program, {Shape{33, 10}, Shape{10}});
}

}  // namespace
}  // namespace trainrt
