// As kernels/reference/determinant.cc: factorizations in double, without a division by what may
// vanish.
#include "kernels/cuda/device/determinant.h"
#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {
namespace {

struct Matrix {
  double* data;
  i64 n;

  __device__ double& operator()(i64 i, i64 j) const { return data[i * n + j]; }
  __device__ void swap(double& a, double& b) const {
    const double c = a;
    a = b;
    b = c;
  }
  __device__ void swap_rows(i64 i, i64 j) const {
    for (i64 k = 0; k < n; ++k) swap((*this)(i, k), (*this)(j, k));
  }
  __device__ void swap_columns(i64 i, i64 j) const {
    for (i64 k = 0; k < n; ++k) swap((*this)(k, i), (*this)(k, j));
  }
  __device__ double size(i64 i, i64 j) const {
    const double v = (*this)(i, j);
    return v < 0 ? -v : v;
  }
  /// Row k times a factor, which is kept in column k, off each row below.
  __device__ void eliminate(i64 k) const {
    for (i64 i = k + 1; i < n; ++i) {
      const double factor = (*this)(i, k) /= (*this)(k, k);
      for (i64 j = k + 1; j < n; ++j) (*this)(i, j) -= factor * (*this)(k, j);
    }
  }
};

template <typename T>
__device__ void read(const DeterminantArguments& args, i64 t, const Matrix& m) {
  const T* x = static_cast<const T*>(args.x) + t * m.n * m.n;
  for (i64 i = 0; i < m.n * m.n; ++i) m.data[i] = x[i];
}

template <typename T>
__device__ void determinants(const DeterminantArguments& args) {
  const Matrix m{args.scratch + global_index() * args.doubles, args.n};
  for (i64 t = global_index(); t < args.count; t += global_size()) {
    read<T>(args, t, m);
    double det = 1;
    for (i64 k = 0; k < m.n; ++k) {
      i64 best = k;
      for (i64 i = k + 1; i < m.n; ++i) {
        if (m.size(i, k) > m.size(best, k)) best = i;
      }
      if (best != k) {
        m.swap_rows(best, k);
        det = -det;
      }
      det *= m(k, k);
      if (m(k, k) != 0) m.eliminate(k);
    }
    static_cast<T*>(args.out)[t] = static_cast<T>(det);
  }
}

/// P X Q = L U with the largest pivots first. Position i holds row rows[i], column columns[i] of X.
/// Returns the sign of the permutations.
__device__ double factorize(const Matrix& m, double* rows, double* columns) {
  double sign = 1;
  for (i64 i = 0; i < m.n; ++i) rows[i] = columns[i] = static_cast<double>(i);
  for (i64 k = 0; k < m.n; ++k) {
    i64 row = k, column = k;
    for (i64 i = k; i < m.n; ++i) {
      for (i64 j = k; j < m.n; ++j) {
        if (m.size(i, j) > m.size(row, column)) {
          row = i;
          column = j;
        }
      }
    }
    if (row != k) {
      m.swap_rows(row, k);
      m.swap(rows[row], rows[k]);
      sign = -sign;
    }
    if (column != k) {
      m.swap_columns(column, k);
      m.swap(columns[column], columns[k]);
      sign = -sign;
    }
    if (m(k, k) == 0) break;  // and so is what is left
    m.eliminate(k);
  }
  return sign;
}

/// a = adj(U): adj [U u; 0 d] = [d adj(U), -adj(U) u; 0, det U].
__device__ void adjugate_of_upper(const Matrix& u, const Matrix& a) {
  double det = 1;
  for (i64 k = 0; k < u.n; ++k) {
    for (i64 i = 0; i < k; ++i) {
      double sum = 0;
      for (i64 j = i; j < k; ++j) sum += a(i, j) * u(j, k);
      for (i64 j = i; j < k; ++j) a(i, j) *= u(k, k);
      a(i, k) = -sum;
      a(k, i) = 0;
    }
    a(k, k) = det;
    det *= u(k, k);
  }
}

/// a = a inverse(L); L has ones on its diagonal.
__device__ void divide_by_lower(const Matrix& a, const Matrix& l) {
  for (i64 row = 0; row < a.n; ++row) {
    for (i64 i = a.n - 1; i > 0; --i) {
      for (i64 j = 0; j < i; ++j) a(row, j) -= a(row, i) * l(i, j);
    }
  }
}

template <typename T>
__device__ void cofactors(const DeterminantArguments& args) {
  const i64 n = args.n;
  double* own = args.scratch + global_index() * args.doubles;
  const Matrix lu{own, n}, a{own + n * n, n};
  double *rows = own + 2 * n * n, *columns = rows + n;
  for (i64 t = global_index(); t < args.count; t += global_size()) {
    read<T>(args, t, lu);
    const double sign = factorize(lu, rows, columns);
    adjugate_of_upper(lu, a);
    divide_by_lower(a, lu);
    T* y = static_cast<T*>(args.out) + t * n * n;
    for (i64 i = 0; i < n; ++i) {
      for (i64 j = 0; j < n; ++j) {
        y[static_cast<i64>(rows[i]) * n + static_cast<i64>(columns[j])] =
            static_cast<T>(sign * a(j, i));
      }
    }
  }
}

}  // namespace

TRAINRT_KERNEL(determinant_f32, DeterminantArguments) { determinants<float>(args); }
TRAINRT_KERNEL(determinant_f64, DeterminantArguments) { determinants<double>(args); }
TRAINRT_KERNEL(cofactor_f32, DeterminantArguments) { cofactors<float>(args); }
TRAINRT_KERNEL(cofactor_f64, DeterminantArguments) { cofactors<double>(args); }

}  // namespace trainrt::cuda
