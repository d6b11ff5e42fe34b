// Tensors as Eigen sees them, without a copy. This header includes Eigen 3.3 or newer; no other of
// trainrt does.
//
// A map points into the tensor's bytes and does not keep them alive: they must outlive it, as those
// of a view. The other way, row-major Eigen storage becomes a tensor without a copy by
//   Tensor::view(std::span(m.data(), static_cast<size_t>(m.size())), {m.rows(), m.cols()})
#ifndef TRAINRT_EIGEN_H_
#define TRAINRT_EIGEN_H_

#include <Eigen/Core>
#include <string>

#include "trainrt/tensor.h"

namespace trainrt {

/// data<Eigen::half>() and the maps below reach into float16 and bfloat16 tensors.
template <>
struct DTypeOf<Eigen::half> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<Eigen::bfloat16> {
  static constexpr DType value = DType::kBFloat16;
};

template <typename T>
using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using MatrixMap = Eigen::Map<RowMajorMatrix<T>>;
template <typename T>
using ConstMatrixMap = Eigen::Map<const RowMajorMatrix<T>>;
template <typename T>
using VectorMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;
template <typename T>
using ConstVectorMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>;

namespace eigen_internal {

inline void check_rank(const Tensor& t, int64_t rank, const char* function) {
  if (t.rank() == rank) return;
  throw Error(ErrorCode::kInput, std::string(function) + ": expected a tensor of rank " +
                                     std::to_string(rank) + ", given " +
                                     std::string(dtype_name(t.dtype())) + to_string(t.shape()) +
                                     "; flat_matrix() and flat_vector() take any rank");
}

/// Elements per row when the first `axes` axes make the rows.
inline std::pair<Eigen::Index, Eigen::Index> rows_and_columns(const Tensor& t, int64_t axes) {
  if (axes < 0 || axes > t.rank()) {
    throw Error(ErrorCode::kInput, "flat_matrix: " + std::to_string(axes) +
                                       " leading axes of a tensor of shape " +
                                       to_string(t.shape()));
  }
  const std::span<const int64_t> shape(t.shape());
  const auto leading = static_cast<size_t>(axes);
  return {element_count(shape.first(leading)), element_count(shape.subspan(leading))};
}

}  // namespace eigen_internal

/// A tensor of rank 2 as a row-major matrix. Here and below: Error(kInput) for another rank, and
/// unless T is the tensor's element type.
template <typename T>
MatrixMap<T> as_matrix(Tensor& t) {
  eigen_internal::check_rank(t, 2, "as_matrix");
  return {t.data<T>().data(), t.shape()[0], t.shape()[1]};
}
template <typename T>
ConstMatrixMap<T> as_matrix(const Tensor& t) {
  eigen_internal::check_rank(t, 2, "as_matrix");
  return {t.data<T>().data(), t.shape()[0], t.shape()[1]};
}

/// A tensor of rank 1 as a column vector.
template <typename T>
VectorMap<T> as_vector(Tensor& t) {
  eigen_internal::check_rank(t, 1, "as_vector");
  return {t.data<T>().data(), t.shape()[0]};
}
template <typename T>
ConstVectorMap<T> as_vector(const Tensor& t) {
  eigen_internal::check_rank(t, 1, "as_vector");
  return {t.data<T>().data(), t.shape()[0]};
}

/// A tensor of any rank as a matrix: its first `axes` axes make the rows, the others the columns,
/// as in ONNX's Flatten. [2,3,4] with one leading axis is 2 x 12, with none 1 x 24. Error(kInput)
/// for more axes than there are.
template <typename T>
MatrixMap<T> flat_matrix(Tensor& t, int64_t axes = 1) {
  const auto [rows, columns] = eigen_internal::rows_and_columns(t, axes);
  return {t.data<T>().data(), rows, columns};
}
template <typename T>
ConstMatrixMap<T> flat_matrix(const Tensor& t, int64_t axes = 1) {
  const auto [rows, columns] = eigen_internal::rows_and_columns(t, axes);
  return {t.data<T>().data(), rows, columns};
}

/// All elements of a tensor of any rank.
template <typename T>
VectorMap<T> flat_vector(Tensor& t) {
  return {t.data<T>().data(), t.size()};
}
template <typename T>
ConstVectorMap<T> flat_vector(const Tensor& t) {
  return {t.data<T>().data(), t.size()};
}

/// The values of a matrix or expression, copied; those of a vector become a tensor of rank 1.
template <typename Derived>
Tensor from_eigen(const Eigen::DenseBase<Derived>& values) {
  using T = typename Derived::Scalar;
  const int64_t rows = values.rows(), columns = values.cols();
  Tensor t(dtype_of<T>,
           Derived::IsVectorAtCompileTime ? Shape{rows * columns} : Shape{rows, columns});
  MatrixMap<T>(t.data<T>().data(), rows, columns) = values.derived();
  return t;
}

}  // namespace trainrt

#endif  // TRAINRT_EIGEN_H_
