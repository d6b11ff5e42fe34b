// The tests of the CPU's rows, run on the CUDA rows: this is their row_check.
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cpu/row_check.h"

namespace trainrt {

/// Asked for by tests of rows that keep values as bfloat16.
bool cpu_runs_bf16() { return false; }

void check_rows(const RowCase& c, Tolerance tolerance) {
  if (c.op == Op::kConstant) return;  // plans hold them
  // The CPU adds rows in the reference's order; many rows of one element each are added in parts.
  check_cuda_rows(c, c.op == Op::kGatherGrad ? kTight : tolerance);
}

void check_both_types(RowCase c, Tolerance tolerance) { check_cuda_rows(c, tolerance); }

std::vector<Tensor> run_first_row(const RowCase& c) {
  const TestNode node(c);
  int32_t reported = 0;
  const std::vector<Buffer> outputs = run_cuda_row(c, &reported);
  if (reported != 0) {
    CHECK(reported == 7);  // one more than the step that the runner claims to be
    throw Error(ErrorCode::kRuntime, "the kernel reported contents that do not fit");
  }
  std::vector<Tensor> result;
  for (const Buffer& b : outputs) {
    const TensorType& type = node.out[result.size()];
    result.emplace_back(type.dtype, type.shape);
    if (b.bytes() != 0) std::memcpy(result.back().raw(), b.data(), b.bytes());
  }
  return result;
}

std::vector<std::string> refusals(const RowCase& c) {
  const TestNode node(c);
  std::vector<std::string> reasons;
  for (const KernelRow& row : cuda_kernels()) {
    if (row.op == c.op) reasons.push_back(row.supports ? row.supports(node.view()).reason : "");
  }
  return reasons;
}

}  // namespace trainrt
