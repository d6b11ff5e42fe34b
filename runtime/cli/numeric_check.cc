#include "runtime/cli/numeric_check.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/philox.h"

namespace trainrt::cli {
namespace {

constexpr double kWidths[] = {1e-4, 1e-5, 1e-6, 1e-7};

/// Normal numbers, scaled to length 1.
std::vector<double> random_direction(int64_t size, uint64_t seed, uint32_t stream) {
  std::vector<double> out(static_cast<size_t>(size));
  const Philox philox{seed, 0, stream};
  double sum = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto words = philox(i);
    const double radius = std::sqrt(-2 * std::log(1 - to_uniform(words[0])));
    out[i] = radius * std::cos(2 * std::numbers::pi * to_uniform(words[1]));
    sum += out[i] * out[i];
  }
  for (double& v : out) v /= std::max(std::sqrt(sum), 1e-300);
  return out;
}

}  // namespace

double loss_value(const GradResult& result, const TensorMap& batch) {
  if (result.loss) return *result.loss;
  double sum = 0;
  for (const auto& [name, output] : result.outputs) {
    const auto dy = batch.find("dy/" + name);
    if (dy == batch.end()) continue;
    const Tensor a = output.to(DType::kFloat64), b = dy->second.to(DType::kFloat64);
    for (size_t i = 0; i < static_cast<size_t>(a.size()); ++i) {
      sum += a.data<double>()[i] * b.data<double>()[i];
    }
  }
  return sum;
}

std::vector<DirectionCheck> check_numerically(const Module& module, Trainer& trainer,
                                              const TensorMap& batch, const GradOptions& options,
                                              const NumericOptions& check) {
  const GradResult reference = trainer.grad(batch, options);
  TensorMap probe = batch;
  for (auto& [name, tensor] : probe) {
    if (is_float(tensor.dtype())) tensor = tensor.to(DType::kFloat64);
  }
  std::vector<DirectionCheck> out;
  double largest = 0;
  uint32_t stream = 0;
  for (const auto& [name, gradient] : reference.grads) {
    const auto input = probe.find(name);
    if (trainer.options().static_inputs.contains(name)) continue;
    Tensor values = input != probe.end() ? input->second : module.get_parameter(name).value();
    const Tensor saved = values.clone();
    for (int d = 0; d < check.directions; ++d) {
      const std::vector<double> u = random_direction(values.size(), check.seed, ++stream);
      DirectionCheck c{name};
      const Tensor g = gradient.to(DType::kFloat64);
      for (size_t i = 0; i < u.size(); ++i) c.analytic += u[i] * g.data<double>()[i];
      largest = std::max(largest, std::abs(c.analytic));
      c.error = std::numeric_limits<double>::infinity();
      for (const double h : kWidths) {
        double f[2];
        for (const int side : {0, 1}) {
          for (size_t i = 0; i < u.size(); ++i) {
            values.data<double>()[i] = saved.data<double>()[i] + (side == 0 ? h : -h) * u[i];
          }
          f[side] = loss_value(trainer.grad(probe, options), probe);
        }
        const double difference = (f[0] - f[1]) / (2 * h);
        const double error = std::abs(difference - c.analytic);
        if (!(error >= c.error)) {
          c.error = error;
          c.numeric = difference;
        }
      }
      values.copy_from(saved);
      out.push_back(std::move(c));
    }
  }
  for (DirectionCheck& c : out) {
    const double scale =
        std::max({std::abs(c.analytic), std::abs(c.numeric), 1e-3 * largest, 1e-12});
    c.error /= scale;
    c.ok = c.error <= check.tolerance;
  }
  return out;
}

}  // namespace trainrt::cli
