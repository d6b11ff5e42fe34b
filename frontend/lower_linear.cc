// MatMul, Gemm, MatMulInteger, Det.
#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

// A vector on the left is a row, on the right a column; its axis is dropped from the result.
Var matmul_numpy(LowerContext& c, Var a, Var b) {
  if (a.rank() == 0 || b.rank() == 0) c.invalid("an operand of MatMul is a scalar");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  Var y = matmul_any(row ? unsqueeze(a, {0}) : a, column ? unsqueeze(b, {1}) : b);
  if (column) y = squeeze(y, {-1});
  if (row) y = squeeze(y, {column ? -1 : -2});
  return y;
}

void lower_matmul(LowerContext& c) { c.set(matmul_numpy(c, c.need(0), c.need(1))); }

// alpha A B + beta C
void lower_gemm(LowerContext& c) {
  Var a = c.need(0), b = c.need(1);
  if (a.rank() != 2 || b.rank() != 2) {
    c.invalid("A and B are matrices, not " + to_string(a.shape()) + " and " + to_string(b.shape()));
  }
  const bool trans_a = c.attr_int("transA", 0) != 0, trans_b = c.attr_int("transB", 0) != 0;
  const double alpha = c.attr_float("alpha", 1.0), beta = c.attr_float("beta", 1.0);
  Var y;
  if (is_float(a.dtype())) {
    y = matmul(a, b, MatMulAttrs{trans_a, trans_b});
    if (alpha != 1.0) y = alpha * y;
  } else {
    if (alpha != 1.0 || beta != 1.0) c.refuse("no_lowering", "integer Gemm with alpha or beta");
    y = matmul_any(trans_a ? swap_last(a) : a, trans_b ? swap_last(b) : b);
  }
  if (c.has(2)) {
    const Shape shape = y.shape();
    y = y + (beta == 1.0 ? c.in(2) : beta * c.in(2));
    if (y.shape() != shape) {
      c.invalid("C of shape " + to_string(c.in(2).shape()) + " does not broadcast to " +
                to_string(shape));
    }
  }
  c.set(y);
}

// An integer operand less its zero point: a scalar, or one per row (A) or column (B). In float64
// the products of 8-bit integers and their sums are exact.
Var centred(LowerContext& c, Var x, size_t zero_point, bool per_row) {
  const Var wide = cast(x, DType::kFloat64);
  if (!c.has(zero_point)) return wide;
  Var z = cast(c.in(zero_point), DType::kFloat64);
  if (per_row && z.rank() == 1 && z.type().size() > 1) z = unsqueeze(z, {1});
  return wide - z;
}

void lower_matmul_integer(LowerContext& c) {
  const Var a = centred(c, c.need(0), 2, true), b = centred(c, c.need(1), 3, false);
  c.set(cast(matmul_numpy(c, a, b), DType::kInt32));
}

// Laplace expansion along the rows, from the last one up. minors[S] is the determinant of the last
// |S| rows and the columns in S: 2^n minors, n 2^(n-1) products.
void lower_det(LowerContext& c) {
  constexpr int64_t kLargest = 8;
  const Var x = c.need(0);
  if (x.rank() < 2 || x.dim(-1 + x.rank()) != x.dim(-2 + x.rank())) {
    c.invalid("Det needs square matrices, not " + to_string(x.shape()));
  }
  const int64_t n = x.dim(x.rank() - 1);
  if (n > kLargest) {
    c.refuse("no_lowering", "Det of matrices larger than " + std::to_string(kLargest));
  }
  const Shape batch(x.shape().begin(), x.shape().end() - 2);
  const auto element = [&](int64_t i, int64_t j) {
    return reshape(slice(slice(x, -2, i, 1), -1, j, 1), batch);
  };
  std::vector<Var> minors(size_t{1} << n);
  minors[0] = c.b.fill(x.dtype(), 1, batch);
  for (size_t set = 1; set < minors.size(); ++set) {
    const int64_t row = n - __builtin_popcountll(set);
    double sign = 1;
    for (int64_t j = 0; j < n; ++j) {
      const size_t bit = size_t{1} << j;
      if ((set & bit) == 0) continue;
      Var term = element(row, j);
      if (set != bit) term = term * minors[set ^ bit];
      if (!minors[set]) {
        minors[set] = term;
      } else {
        minors[set] = sign > 0 ? minors[set] + term : minors[set] - term;
      }
      sign = -sign;
    }
  }
  c.set(minors.back());
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Det", 11, lower_det},
    {"", "Gemm", 1, lower_gemm},
    {"", "MatMul", 1, lower_matmul},
    {"", "MatMulInteger", 10, lower_matmul_integer, kNone},
};

}  // namespace

std::span<const LoweringRow> linear_lowerings() {
  static const std::vector<LoweringRow> rows = joined({kRows, einsum_lowerings()});
  return rows;
}

}  // namespace trainrt
