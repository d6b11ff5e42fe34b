#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

/// Determinant of the matrix without a row and a column, by Laplace's expansion.
double minor_of(const std::vector<std::vector<double>>& m) {
  if (m.empty()) return 1;
  double det = 0;
  for (size_t j = 0; j < m.size(); ++j) {
    std::vector<std::vector<double>> rest;
    for (size_t i = 1; i < m.size(); ++i) {
      rest.push_back(m[i]);
      rest.back().erase(rest.back().begin() + static_cast<ptrdiff_t>(j));
    }
    det += (j % 2 == 0 ? 1 : -1) * m[0][j] * minor_of(rest);
  }
  return det;
}

std::vector<double> cofactors_of(const Tensor& x) {
  const size_t n = static_cast<size_t>(x.shape().back());
  std::vector<double> result;
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      std::vector<std::vector<double>> rest;
      for (size_t i = 0; i < n; ++i) {
        if (i == row) continue;
        rest.emplace_back();
        for (size_t j = 0; j < n; ++j) {
          if (j != column) rest.back().push_back(x.data<double>()[i * n + j]);
        }
      }
      result.push_back(((row + column) % 2 == 0 ? 1 : -1) * minor_of(rest));
    }
  }
  return result;
}

TEST_CASE("Det") {
  check_close(eval(Op::kDet, {tensor<double>({2, -3, 1, 2, 0, -1, 1, 4, 5}, {3, 3})}), {49});
  check_close(eval(Op::kDet, {tensor<double>({0, 1, 1, 0, 0, 0, 0, 5}, {2, 2, 2})}), {-1, 0});
  check_close(eval(Op::kDet, {tensor<float>({1, 2, 3, 4}, {1, 1, 2, 2})}), {-2});
  check_close(eval(Op::kDet, {Tensor(DType::kFloat64, {2, 0, 0})}), {1, 1});
  CHECK(eval(Op::kDet, {Tensor(DType::kFloat64, {0, 3, 3})}).shape() == Shape{0});
}

TEST_CASE("Det of a product is the product of the determinants") {
  const Tensor a = noise({40, 40}, 1), b = noise({40, 40}, 2);
  const double x = eval(Op::kDet, {a}).item(), y = eval(Op::kDet, {b}).item();
  const double z = eval(Op::kDet, {eval(Op::kMatMul, {a, b}, MatMulAttrs{})}).item();
  CHECK(std::abs(z - x * y) < 1e-10 * std::abs(x * y));
}

TEST_CASE("Cofactor of regular matrices") {
  for (int64_t n : {0, 1, 2, 3, 4, 6}) {
    const Tensor x = noise({n, n}, static_cast<unsigned>(n) + 1);
    check_close(eval(Op::kCofactor, {x}), cofactors_of(x));
  }
}

TEST_CASE("Cofactor of singular matrices of every rank") {
  const int64_t n = 5;
  for (int64_t rank = 0; rank < n; ++rank) {
    const Tensor a = noise({n, rank}, 7), b = noise({rank, n}, 8);
    const Tensor x = eval(Op::kMatMul, {a, b}, MatMulAttrs{});
    check_close(eval(Op::kCofactor, {x}), cofactors_of(x));
  }
  const Tensor shift = tensor<double>({0, 1, 0, 0, 0, 1, 0, 0, 0}, {3, 3});
  check_close(eval(Op::kCofactor, {shift}), {0, 0, 0, 0, 0, 0, 1, 0, 0});
}

TEST_CASE("Cofactor of near-singular matrices loses no digits") {
  Tensor x = tensor<double>({1, 2, 2, 4 + 1e-13}, {2, 2});
  check_close(eval(Op::kCofactor, {x}), {4 + 1e-13, -2, -2, 1}, 1e-14);
}

TEST_CASE("BitCast keeps the bits") {
  const Tensor x = vec<float>({1.5F, -0.0F, std::numeric_limits<float>::infinity()});
  const Tensor bits = eval(Op::kBitCast, {x}, CastAttrs{DType::kInt32});
  CHECK(values<int32_t>(bits) ==
        std::vector<int32_t>{0x3fc00000, std::numeric_limits<int32_t>::min(), 0x7f800000});
  CHECK(values<uint32_t>(eval(Op::kBitCast, {x}, CastAttrs{DType::kUInt32}))[1] == 0x80000000U);
  check_close(eval(Op::kBitCast, {bits}, CastAttrs{DType::kFloat32}), x);
  CHECK(values<int64_t>(eval(Op::kBitCast, {vec<double>({-2})}, CastAttrs{DType::kInt64}))[0] ==
        -0x4000000000000000);
  const auto cast_to = [&](DType to) {
    return message_of([&] { eval(Op::kBitCast, {x}, CastAttrs{to}); });
  };
  CHECK(cast_to(DType::kInt64).find("int64") != std::string::npos);
  CHECK(cast_to(DType::kBool).find("bool") != std::string::npos);
}

}  // namespace
}  // namespace trainrt::testing
