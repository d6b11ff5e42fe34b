// Runs a node on every CPU row that takes it and compares with the reference row.
#ifndef TRAINRT_TESTS_KERNELS_CPU_ROW_CHECK_H_
#define TRAINRT_TESTS_KERNELS_CPU_ROW_CHECK_H_

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace trainrt {

/// Random contents in [lo, hi] (whole numbers for integer types), or given ones.
struct Operand {
  Shape shape;
  DType dtype = DType::kFloat32;
  double lo = -2, hi = 2;
  Tensor value;  // used when defined

  Operand(Shape s) : shape(std::move(s)) {}  // NOLINT(google-explicit-constructor)
  Operand(Shape s, double low, double high) : shape(std::move(s)), lo(low), hi(high) {}
  Operand(Shape s, DType t, double low, double high)
      : shape(std::move(s)), dtype(t), lo(low), hi(high) {}
  explicit Operand(Tensor v) : shape(v.shape()), dtype(v.dtype()), value(std::move(v)) {}
};

inline Operand ids(Shape shape, int64_t lo, int64_t hi) {
  return {std::move(shape), DType::kInt64, static_cast<double>(lo), static_cast<double>(hi)};
}

struct RowCase {
  Op op;
  std::vector<Operand> inputs;
  Attrs attrs = NoAttrs{};
  uint32_t blocked_inputs = 0, blocked_outputs = 0;  // bit i: operand i is in nChw16c
  uint32_t bf16_inputs = 0, bf16_outputs = 0;        // bit i: operand i is kept as bfloat16
};

/// How results may differ from the reference: by at most relative * max|reference| (0: not at all),
/// or, per element, by relative * |reference| + 1e-7 * max|reference|. Results kept as bfloat16 may
/// be off by their rounding besides, 2^-8 * |reference|.
struct Tolerance {
  double relative = 0;
  bool per_element = false;
};
inline constexpr Tolerance kExact{0, false};
inline constexpr Tolerance kClose{1e-5, false};
inline constexpr Tolerance kTight{1e-6, true};

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
