#include "tests/frontend/lowering/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace trainrt {
namespace {

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data<double>().size(); ++i) {
    sum += a.data<double>()[i] * b.data<double>()[i];
  }
  return sum;
}

Tensor moved(const Tensor& x, const Tensor& u, double by) {
  Tensor y = x.clone();
  for (size_t i = 0; i < y.data<double>().size(); ++i)
    y.data<double>()[i] += by * u.data<double>()[i];
  return y;
}

}  // namespace

Tensor random_reals(Shape shape, uint64_t seed, double lo, double hi) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(lo, hi);
  Tensor t(DType::kFloat64, std::move(shape));
  for (double& v : t.data<double>()) v = uniform(engine);
  return t;
}

double gradient_error(const MakeNode& make, std::vector<Tensor> inputs) {
  constexpr double kStep = 1e-5;
  std::map<int, Tensor> dy;
  const std::vector<Tensor> y = make(inputs).run();
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i].defined() && is_float(y[i].dtype())) {
      dy[static_cast<int>(i)] = random_reals(y[i].shape(), 100 + i);
    }
  }
  const auto loss = [&](std::span<const Tensor> at) {
    const std::vector<Tensor> outputs = make(at).run();
    double sum = 0;
    for (const auto& [i, d] : dy) sum += dot(outputs[static_cast<size_t>(i)], d);
    return sum;
  };
  const std::map<int, Tensor> gradients = make(inputs).gradients(dy);
  double worst = 0;
  size_t next = 0;  // gradients come by input of the node, absent ones left out
  for (const auto& [place, dx] : gradients) {
    const Tensor x = inputs.at(next);
    const Tensor u = random_reals(x.shape(), 200 + next);
    inputs[next] = moved(x, u, kStep);
    const double up = loss(inputs);
    inputs[next] = moved(x, u, -kStep);
    const double down = loss(inputs);
    inputs[next++] = x;
    const double analytic = dx.defined() ? dot(dx, u) : 0;
    const double scale = dx.defined() ? std::sqrt(dot(dx, dx)) : 0;
    const double error = std::abs((up - down) / (2 * kStep) - analytic) /
                         std::max({scale, std::abs(analytic), 1e-3});
    worst = std::isnan(error) ? error : std::max(worst, error);
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

}  // namespace trainrt
