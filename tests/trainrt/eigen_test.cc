#include "trainrt/eigen.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/failure.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::failure;

Tensor counting(Shape shape) {
  Tensor t(DType::kFloat32, std::move(shape));
  float next = 0;
  for (float& v : t.data<float>()) v = next++;
  return t;
}

TEST_CASE("a matrix is mapped row by row, and written through") {
  Tensor t = counting({2, 3});
  MatrixMap<float> m = as_matrix<float>(t);
  REQUIRE(m.rows() == 2);
  REQUIRE(m.cols() == 3);
  CHECK(m.data() == t.raw());
  CHECK(m(1, 0) == 3);
  m.row(0) *= 10;
  CHECK(t.data<float>()[2] == 20);
}

TEST_CASE("a const tensor is mapped read-only") {
  const Tensor t = counting({2, 2});
  static_assert(std::is_same_v<decltype(as_matrix<float>(t)), ConstMatrixMap<float>>);
  static_assert(std::is_same_v<decltype(as_vector<float>(t)), ConstVectorMap<float>>);
  static_assert(std::is_same_v<decltype(flat_matrix<float>(t)), ConstMatrixMap<float>>);
  static_assert(std::is_same_v<decltype(flat_vector<float>(t)), ConstVectorMap<float>>);
  const RowMajorMatrix<float> square = as_matrix<float>(t) * as_matrix<float>(t);
  CHECK(square(1, 1) == 11);
  CHECK(flat_vector<float>(t).sum() == 6);
  CHECK(as_vector<float>(static_cast<const Tensor&>(t.reshape({4}))).size() == 4);
}

TEST_CASE("a vector is a column") {
  Tensor t = Tensor::from<int64_t>({1, 2, 3}, {3});
  VectorMap<int64_t> v = as_vector<int64_t>(t);
  CHECK(v.rows() == 3);
  CHECK(v.cols() == 1);
  v.array() += 1;
  CHECK(t.to_ints() == std::vector<int64_t>{2, 3, 4});
}

TEST_CASE("more axes fold into rows and columns") {
  Tensor t = counting({2, 3, 4});
  const auto shape = [&](int64_t axes) {
    const auto m = flat_matrix<float>(t, axes);
    return Shape{m.rows(), m.cols()};
  };
  CHECK(shape(0) == Shape{1, 24});
  CHECK(shape(1) == Shape{2, 12});
  CHECK(shape(2) == Shape{6, 4});
  CHECK(shape(3) == Shape{24, 1});
  CHECK(flat_matrix<float>(t)(1, 5) == 17);
  CHECK(flat_matrix<float>(t, 2)(4, 1) == 17);
  flat_vector<float>(t).setZero();
  CHECK(t.data<float>()[17] == 0);
}

TEST_CASE("scalars and empty tensors have maps too") {
  Tensor one = Tensor::scalar<double>(5), none(DType::kFloat64, {0, 3});
  CHECK(flat_vector<double>(one)(0) == 5);
  CHECK(flat_matrix<double>(one, 0)(0, 0) == 5);
  CHECK(as_matrix<double>(none).rows() == 0);
  CHECK(as_matrix<double>(none).cols() == 3);
  CHECK(flat_vector<double>(none).sum() == 0);
}

TEST_CASE("half-width floats are Eigen's") {
  Tensor t = Tensor::from<float>({1.5f, -2}, {2}).to(DType::kFloat16);
  as_vector<Eigen::half>(t) *= Eigen::half(2);
  CHECK(t.to(DType::kFloat32).data<float>()[0] == 3);
  Tensor b = Tensor::from<float>({1.5f, -2}, {2}).to(DType::kBFloat16);
  CHECK(static_cast<float>(as_vector<Eigen::bfloat16>(b)(1)) == -2);
  CHECK_FALSE(failure([&] { as_vector<Eigen::bfloat16>(t); }, ErrorCode::kInput).empty());
}

TEST_CASE("another rank or type is refused with what came") {
  Tensor t = counting({2, 3, 4});
  const Tensor& c = t;
  for (const auto& text : {failure([&] { as_matrix<float>(t); }, ErrorCode::kInput),
                           failure([&] { as_matrix<float>(c); }, ErrorCode::kInput)}) {
    CHECK(contains(text, "as_matrix: expected a tensor of rank 2, given float32[2,3,4]"));
    CHECK(contains(text, "flat_matrix()"));
  }
  CHECK(contains(failure([&] { as_vector<float>(t); }, ErrorCode::kInput), "rank 1"));
  CHECK(contains(failure([&] { as_vector<float>(c); }, ErrorCode::kInput), "rank 1"));
  CHECK(contains(failure([&] { flat_matrix<float>(t, 4); }, ErrorCode::kInput),
                 "4 leading axes of a tensor of shape [2,3,4]"));
  CHECK(contains(failure([&] { flat_matrix<float>(c, -1); }, ErrorCode::kInput), "-1 leading"));
  CHECK(contains(failure([&] { flat_matrix<double>(t); }, ErrorCode::kInput),
                 "holds float32, asked for float64"));
  CHECK(contains(failure([&] { flat_vector<int32_t>(c); }, ErrorCode::kInput), "asked for int32"));
}

TEST_CASE("expressions become tensors") {
  Eigen::Matrix2d columns;  // column-major
  columns << 1, 2, 3, 4;
  const Tensor t = from_eigen(columns * 2);
  CHECK(t.shape() == Shape{2, 2});
  CHECK(as_matrix<double>(t) == columns * 2);
  CHECK(t.data<double>()[1] == 4);
  const Tensor v = from_eigen(Eigen::Vector3f(1, 2, 3));
  CHECK(v.shape() == Shape{3});
  CHECK(v.dtype() == DType::kFloat32);
  const Tensor row = from_eigen(columns.row(1).array() + 1);
  CHECK(row.shape() == Shape{2});
  CHECK(row.data<double>()[1] == 5);
}

TEST_CASE("row-major Eigen storage becomes a tensor without a copy") {
  RowMajorMatrix<float> m = RowMajorMatrix<float>::Zero(2, 3);
  Tensor t = Tensor::view(std::span(m.data(), static_cast<size_t>(m.size())), {m.rows(), m.cols()});
  t.data<float>()[4] = 7;
  CHECK(m(1, 1) == 7);
}

}  // namespace
}  // namespace trainrt
