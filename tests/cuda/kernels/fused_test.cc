#include "tests/kernels/cases/fused.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

void check(const std::string& program, const std::vector<Operand>& inputs,
           Tolerance tolerance = kClose, uint32_t bf16_inputs = 0, uint32_t bf16_outputs = 0) {
  check_cuda_rows({Op::kFused, inputs, FusedAttrs{program}, 0, 0, bf16_inputs, bf16_outputs},
                  tolerance);
}

TEST_CASE("fused on CUDA: shapes, tails, broadcasting") {
  const std::string program = "Mul($0, $1); Add(%0, 0.5); Tanh(%1); return %1, %2";
  for (const auto& [a, b] : fused_shapes()) check(program, {a, b});
}

TEST_CASE("fused on CUDA: bools") {
  const std::string program =
      "Less($0, $1); And(%0, $2); Not(%1); Or(%2, %0); Xor(%3, $2); Where(%4, $0, 2); "
      "Cast(%2); Add($0, 1); IsNaN(%7); Cast(%7) to=bool; return %3, %5, %7, %8, %9";
  for (const Shape& c : {Shape{}, Shape{30, 1}, Shape{30, 72}}) {
    check(program, {Shape{30, 72}, Shape{72}, flags(c)}, kExact);
  }
}

/// Sums over every set of axes, with results of full size and without.
TEST_CASE("fused on CUDA: sums over rows, columns, the middle, everything") {
  const Shape shapes[] = {{70000}, {300, 10}, {64, 256}, {5, 1000}, {3, 4, 6, 8},
                          {9, 1},  {0, 4},    {1},       {},        {40, 3}};
  for (const Shape& shape : shapes) {
    const auto rank = static_cast<int64_t>(shape.size());
    for (int64_t mask = rank == 0 ? 0 : 1; mask < int64_t{1} << rank; ++mask) {
      std::string axes;
      for (int64_t d = 0; d < rank; ++d) {
        if ((mask >> d & 1) != 0) axes += (axes.empty() ? "" : ",") + std::to_string(d);
      }
      check("Mul($0, $1); ReduceSum(%0) axes=[" + axes + "]; ReduceSum($0) axes=[" + axes +
                "] keepdims=true; return %0, %1, %2",
            {Operand(shape, 0.1, 2), Operand(shape, 0.1, 2)});
    }
  }
}

TEST_CASE("fused on CUDA: sums of many rows and columns in parts") {
  const std::string rows = "Mul($0, $1); ReduceSum(%0) axes=[1]; return %1";
  const std::string columns = "Mul($0, $1); ReduceSum(%0) axes=[0]; return %1, %0";
  check(rows, {Operand({3, 20004}, 0, 2), Operand({20004}, 0, 2)});
  check(columns, {Operand({4000, 3}, 0, 2), Operand({3}, 0, 2)});
  check(columns, {Operand({1500, 45}, 0, 2), Operand({1500, 1}, 0, 2)});
  check("Mul($0, $1); ReduceSum(%0) axes=[0,2]; ReduceSum($0) axes=[0,2]; return %1, %2",
        {Operand({40, 6, 350}, 0, 2), Operand({6, 1}, 0, 2)});
}

TEST_CASE("fused on CUDA: sums over several sets of axes") {
  check(
      "Sub($0, $1); ReduceSum(%0) axes=[0]; Mul(%0, $2); ReduceSum(%2) axes=[1]; "
      "ReduceSum(%2) axes=[0,1]; ReduceSum($0) axes=[0]; return %2, %1, %3, %4, %5",
      {Operand({40, 70}, 1, 2), Operand({70}, 0, 1), Operand({40, 1}, 0, 1)});
  check("ReduceSum($0) axes=[0,2]; ReduceSum($0) axes=[1]; return %0, %1",
        {Operand({5, 6, 7}, 0, 1)});
}

TEST_CASE("fused on CUDA: sums of integers wrap") {
  for (DType dtype : {DType::kInt8, DType::kInt32, DType::kUInt64}) {
    const double lo = dtype == DType::kInt8 || dtype == DType::kInt32 ? -100 : 0;
    check("ReduceSum($0) axes=[0]; return %0", {Operand({20000}, dtype, lo, 100)}, kExact);
    check("ReduceSum($0) axes=[1]; return %0", {Operand({7, 30}, dtype, lo, 100)}, kExact);
  }
}

TEST_CASE("fused on CUDA: bfloat16") {
  const std::string program =
      "Mul($0, $1); Relu(%0); ReduceSum(%1) axes=[0]; Less($0, $1); return %1, %2, %3";
  for (const Shape& shape : {Shape{33, 10}, Shape{64, 256}}) {
    for (const auto& [in, out] : {std::pair{1u, 0u}, {3u, 1u}, {0u, 1u}, {2u, 3u}}) {
      check(program, {Operand(shape, 0, 2), Operand({shape[1]}, 0, 2)}, kClose, in, out);
    }
  }
  check("Mul($0, $0); ReduceSum(%0) axes=[0]; return %0, %1", {Operand({20000}, 0, 1)}, kClose, 1,
        2);
}

TEST_CASE("fused on CUDA: no operand of the first result's size is of another type") {
  // 8 bfloat16 results would lie on 4 floats that all of them read.
  check("Add($0, $1); return %0", {Shape{4}, Shape{2, 4}}, kClose, 2, 1);
  check("Cast($0) to=int32; return %0", {Shape{2000}}, kExact);
}

TEST_CASE("fused on CUDA: random programs") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    RandomProgram p(seed);
    if (!p.make()) continue;
    INFO("seed " << seed);
    check(print(p.program), p.inputs);
  }
}

}  // namespace
}  // namespace trainrt
