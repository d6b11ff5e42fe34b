// Runs a node on every CUDA row that takes it and compares with the reference row.
#ifndef TRAINRT_TESTS_CUDA_KERNELS_ROW_CHECK_H_
#define TRAINRT_TESTS_CUDA_KERNELS_ROW_CHECK_H_

#include "tests/kernels/row_case.h"

namespace trainrt {

/// Fails the running test unless at least one CUDA row takes the node and all that do agree with
/// the reference, write nothing outside of their outputs and scratch, leave their inputs alone, and
/// give the same bits again and in place, where they allow it. The same is done in float64, with a
/// tolerance of 1e-11, by the rows that take it.
/// Nodes that change state run with their outputs on their operands, too.
void check_cuda_rows(const RowCase& c, Tolerance tolerance);
/// The same for every choice of bfloat16 among the inputs and outputs of these bits.
void check_cuda_mixtures(RowCase c, uint32_t inputs, uint32_t outputs, Tolerance tolerance);

/// Outputs of the first CUDA row that takes the node; *reported: what it says about the contents of
/// its operands (null: they are fine), 0 or its step + 1.
std::vector<Buffer> run_cuda_row(const RowCase& c, int32_t* reported = nullptr);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_CUDA_KERNELS_ROW_CHECK_H_
