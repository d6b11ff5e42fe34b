// Runs a node on every CUDA row that takes it and compares with the reference row.
#ifndef TRAINRT_TESTS_CUDA_KERNELS_ROW_CHECK_H_
#define TRAINRT_TESTS_CUDA_KERNELS_ROW_CHECK_H_

#include "tests/kernels/row_case.h"

namespace trainrt {

/// Fails the running test unless at least one CUDA row takes the node and all that do agree with
/// the reference, write nothing outside of their outputs and scratch, leave their inputs alone, and
/// give the same bits again and in place, where they allow it. The same is done in float64, with a
/// tolerance of 1e-11, by the rows that take it.
void check_cuda_rows(const RowCase& c, Tolerance tolerance);

/// Outputs of the first CUDA row that runs the node. Throws Error(kRuntime) when it reports
/// contents that do not fit.
std::vector<Buffer> run_first_cuda_row(const TestNode& node);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_CUDA_KERNELS_ROW_CHECK_H_
