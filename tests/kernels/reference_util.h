// Runs single ops on the reference kernels, types inferred.
#ifndef TESTS_KERNELS_REFERENCE_UTIL_H_
#define TESTS_KERNELS_REFERENCE_UTIL_H_

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "graph/infer.h"
#include "kernels/reference/evaluate.h"

namespace trainrt::testing {

inline std::vector<Tensor> eval_all(Op op, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  std::vector<TensorType> types;
  for (const Tensor& t : in) types.push_back({t.dtype(), t.shape()});
  return evaluate_node(op, attrs, in, infer_types(op, types, attrs));
}
inline Tensor eval(Op op, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  return eval_all(op, in, attrs)[0];
}

template <typename T>
Tensor tensor(std::initializer_list<T> values, Shape shape) {
  return Tensor::from<T>(values, std::move(shape));
}
template <typename T>
Tensor vec(std::initializer_list<T> values) {
  return Tensor::from<T>(values, {static_cast<int64_t>(values.size())});
}

template <typename T>
std::vector<T> values(const Tensor& t) {
  const auto data = t.data<T>();
  return {data.begin(), data.end()};
}

/// 0, 1, 2, …
inline Tensor counting(Shape shape, DType type = DType::kFloat64) {
  Tensor t(DType::kFloat64, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i) t.data<double>()[static_cast<size_t>(i)] = double(i);
  return t.to(type);
}

inline Tensor noise(Shape shape, unsigned seed, double low = -1, double high = 1) {
  Tensor t(DType::kFloat64, std::move(shape));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(low, high);
  for (double& v : t.data<double>()) v = draw(random);
  return t;
}

inline double dot(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double sum = 0;
  for (size_t i = 0; i < a.data<double>().size(); ++i)
    sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

inline void check_close(const std::vector<double>& got, const std::vector<double>& want,
                        double tolerance = 1e-12) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])) ||
                      std::abs(got[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i]));
    CHECK(same);
  }
}
inline void check_close(const Tensor& got, const std::vector<double>& want,
                        double tolerance = 1e-12) {
  check_close(values<double>(got.to(DType::kFloat64)), want, tolerance);
}
inline void check_close(const Tensor& got, const Tensor& want, double tolerance = 1e-12) {
  CHECK(got.shape() == want.shape());
  check_close(got, values<double>(want.to(DType::kFloat64)), tolerance);
}

/// Whether `gradient` is that of sum(dy * f(x)) in x, by central differences.
inline void check_gradient(const Tensor& x, const Tensor& dy, const Tensor& gradient,
                           const std::function<Tensor(const Tensor&)>& f) {
  REQUIRE(gradient.shape() == x.shape());
  const double h = 1e-5;
  for (size_t i = 0; i < x.data<double>().size(); ++i) {
    Tensor up = x.clone(), down = x.clone();
    up.data<double>()[i] += h;
    down.data<double>()[i] -= h;
    const double slope = (dot(dy, f(up)) - dot(dy, f(down))) / (2 * h);
    INFO("element " << i << ": " << gradient.data<double>()[i] << ", by differences " << slope);
    CHECK(std::abs(gradient.data<double>()[i] - slope) < 1e-7);
  }
}

template <typename F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace trainrt::testing

#endif  // TESTS_KERNELS_REFERENCE_UTIL_H_
