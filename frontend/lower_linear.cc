// MatMul, Gemm, Det.
#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

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

void lower_det(LowerContext& c) {
  const Var x = c.need(0);
  if (x.rank() < 2 || x.dim(x.rank() - 1) != x.dim(x.rank() - 2)) {
    c.invalid("Det needs square matrices, not " + to_string(x.shape()));
  }
  c.set(c.b.add(Op::kDet, {x}));
}

constexpr LoweringRow kRows[] = {
    {"", "Det", 11, lower_det},
    {"", "Gemm", 1, lower_gemm},
    {"", "MatMul", 1, lower_matmul},
};

}  // namespace

std::span<const LoweringRow> linear_lowerings() {
  static const std::vector<LoweringRow> rows = joined({kRows, einsum_lowerings()});
  return rows;
}

}  // namespace trainrt
