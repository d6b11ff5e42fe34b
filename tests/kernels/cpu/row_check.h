// Runs a node on every CPU row that takes it and compares with the reference row.
#ifndef TRAINRT_TESTS_KERNELS_CPU_ROW_CHECK_H_
#define TRAINRT_TESTS_KERNELS_CPU_ROW_CHECK_H_

#include <string>
#include <vector>

#include "tests/kernels/row_case.h"

namespace trainrt {

/// Fails the running test unless at least one CPU row takes the node and all that do agree with the
/// reference (which computes on plain operands), keep padding 0, write nothing outside of their
/// outputs and scratch, leave their inputs alone, and give the same bits in place, where they allow
/// it, and on one thread.
void check_rows(const RowCase& c, Tolerance tolerance);
/// The same with the blocked operands as float32 and as bfloat16.
void check_both_types(RowCase c, Tolerance tolerance);

/// Outputs of the first CPU row that takes the node.
std::vector<Tensor> run_first_row(const RowCase& c);
/// Reasons of the CPU rows of c.op; empty where a row takes it.
std::vector<std::string> refusals(const RowCase& c);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_CPU_ROW_CHECK_H_
