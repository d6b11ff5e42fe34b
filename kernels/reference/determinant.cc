#include <cmath>

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

struct SquarePlan {
  int64_t count, n;  // matrices, rows of each

  explicit SquarePlan(const Shape& shape)
      : count(element_count(std::span(shape).first(shape.size() - 2))), n(shape.back()) {}
  size_t elements() const { return static_cast<size_t>(n * n); }
};

/// Square matrix over memory of the scratch.
struct Matrix {
  double* data;
  int64_t n;

  double& operator()(int64_t i, int64_t j) const { return data[i * n + j]; }
  void swap_rows(int64_t i, int64_t j) const {
    std::swap_ranges(data + i * n, data + (i + 1) * n, data + j * n);
  }
  void swap_columns(int64_t i, int64_t j) const {
    for (int64_t k = 0; k < n; ++k) std::swap((*this)(k, i), (*this)(k, j));
  }
  /// Row k times a factor, which is kept in column k, off each row below.
  void eliminate(int64_t k) const {
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = (*this)(i, k) /= (*this)(k, k);
      for (int64_t j = k + 1; j < n; ++j) (*this)(i, j) -= factor * (*this)(k, j);
    }
  }
};

// Product of the pivots of a factorization with exchanges of rows.
template <typename T>
void determinants(const SquarePlan& p, const KernelArgs& args) {
  const Matrix m{static_cast<double*>(args.scratch), p.n};
  for (int64_t t = 0; t < p.count; ++t) {
    std::copy_n(args.input<T>(0) + t * p.n * p.n, p.n * p.n, m.data);
    double det = 1;
    for (int64_t k = 0; k < p.n; ++k) {
      int64_t best = k;
      for (int64_t i = k + 1; i < p.n; ++i) {
        if (std::abs(m(i, k)) > std::abs(m(best, k))) best = i;
      }
      if (best != k) {
        m.swap_rows(best, k);
        det = -det;
      }
      det *= m(k, k);
      if (m(k, k) != 0) m.eliminate(k);
    }
    args.output<T>(0)[t] = static_cast<T>(det);
  }
}

std::unique_ptr<Kernel> plan_det(const NodeView& node, Scratch& scratch) {
  const SquarePlan plan(node.inputs[0].shape);
  scratch.bytes = std::max(scratch.bytes, plan.elements() * sizeof(double));
  return bind_float(node.outputs[0].dtype, plan, []<typename T>() { return determinants<T>; });
}

/// P X Q = L U with the largest pivots first, so that those of a singular matrix which vanish are
/// the last ones. Position i holds row rows[i], column columns[i] of X.
/// Returns the sign of the permutations.
double factorize(Matrix m, int64_t* rows, int64_t* columns) {
  double sign = 1;
  for (int64_t i = 0; i < m.n; ++i) rows[i] = columns[i] = i;
  for (int64_t k = 0; k < m.n; ++k) {
    int64_t row = k, column = k;
    for (int64_t i = k; i < m.n; ++i) {
      for (int64_t j = k; j < m.n; ++j) {
        if (std::abs(m(i, j)) > std::abs(m(row, column))) row = i, column = j;
      }
    }
    if (row != k) {
      m.swap_rows(row, k);
      std::swap(rows[row], rows[k]);
      sign = -sign;
    }
    if (column != k) {
      m.swap_columns(column, k);
      std::swap(columns[column], columns[k]);
      sign = -sign;
    }
    if (m(k, k) == 0) break;  // and so is what is left
    m.eliminate(k);
  }
  return sign;
}

/// a = adj(U), block by block and without a division:
/// adj [U u; 0 d] = [d adj(U), -adj(U) u; 0, det U].
void adjugate_of_upper(Matrix u, Matrix a) {
  double det = 1;
  for (int64_t k = 0; k < u.n; ++k) {
    for (int64_t i = 0; i < k; ++i) {
      double sum = 0;
      for (int64_t j = i; j < k; ++j) sum += a(i, j) * u(j, k);
      for (int64_t j = i; j < k; ++j) a(i, j) *= u(k, k);
      a(i, k) = -sum;
      a(k, i) = 0;
    }
    a(k, k) = det;
    det *= u(k, k);
  }
}

/// a = a inverse(L); L has ones on its diagonal.
void divide_by_lower(Matrix a, Matrix l) {
  for (int64_t row = 0; row < a.n; ++row) {
    for (int64_t i = a.n - 1; i > 0; --i) {
      for (int64_t j = 0; j < i; ++j) a(row, j) -= a(row, i) * l(i, j);
    }
  }
}

// adj(L U) = adj(U) inverse(L), and the cofactors of X are those of L U where its rows and columns
// came from.
template <typename T>
void cofactors(const SquarePlan& p, const KernelArgs& args) {
  const Matrix lu{static_cast<double*>(args.scratch), p.n}, a{lu.data + p.n * p.n, p.n};
  int64_t* rows = reinterpret_cast<int64_t*>(a.data + p.n * p.n);
  int64_t* columns = rows + p.n;
  for (int64_t t = 0; t < p.count; ++t) {
    std::copy_n(args.input<T>(0) + t * p.n * p.n, p.n * p.n, lu.data);
    const double sign = factorize(lu, rows, columns);
    adjugate_of_upper(lu, a);
    divide_by_lower(a, lu);
    T* y = args.output<T>(0) + t * p.n * p.n;
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        y[rows[i] * p.n + columns[j]] = static_cast<T>(sign * a(j, i));
      }
    }
  }
}

std::unique_ptr<Kernel> plan_cofactor(const NodeView& node, Scratch& scratch) {
  const SquarePlan plan(node.inputs[0].shape);
  const size_t doubles = 2 * plan.elements() * sizeof(double);
  scratch.bytes =
      std::max(scratch.bytes, doubles + 2 * static_cast<size_t>(plan.n) * sizeof(int64_t));
  return bind_float(node.outputs[0].dtype, plan, []<typename T>() { return cofactors<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kDet, "reference", takes_floats, plan_det},
    {Op::kCofactor, "reference", takes_floats, plan_cofactor},
};

}  // namespace

std::span<const KernelRow> reference_determinant_kernels() { return kRows; }

}  // namespace trainrt::reference
