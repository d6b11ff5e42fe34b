#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/optimizer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

/// Sets gradients and returns their norm.
double set_gradients(const Module& m) {
  double squares = 0;
  for (auto& [name, p] : m.named_parameters()) {
    Parameter parameter = p;
    const Tensor g = numbers(p.shape(), name.size() + static_cast<uint64_t>(p.size()));
    parameter.set_grad(g.dtype() == p.dtype() ? g : g.to(p.dtype()));
    for (double v : g.data<double>()) squares += v * v;
  }
  return std::sqrt(squares);
}

std::vector<Tensor> gradients(const Module& m) {
  std::vector<Tensor> list;
  for (const Parameter& p : m.parameters()) list.push_back(p.grad().clone());
  return list;
}

TEST_CASE("clip_grad_norm_ returns the norm, and scales all gradients together when it is larger") {
  const Module m = testing::load(testing::mlp_model(), exact());
  const double norm = set_gradients(m);
  const std::vector<Tensor> before = gradients(m);
  CHECK(std::abs(clip_grad_norm_(m.parameters(), 2 * norm) - norm) < 1e-14);
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(largest_difference(m.parameters()[i].grad(), before[i]) == 0);
  }
  CHECK(std::abs(clip_grad_norm_(m.parameters(), 0.5) - norm) < 1e-14);
  for (size_t i = 0; i < before.size(); ++i) {
    const Tensor now = m.parameters()[i].grad();
    for (size_t k = 0; k < static_cast<size_t>(now.size()); ++k) {
      CHECK(std::abs(now.data<double>()[k] - before[i].data<double>()[k] * 0.5 / (norm + 1e-6)) <
            1e-15);
    }
  }
}

TEST_CASE("the order of the parameters changes no bit of the norm") {
  const Module m = testing::load(testing::mlp_model());
  set_gradients(m);
  std::vector<Parameter> params = m.parameters();
  const double norm = clip_grad_norm_(params, 1e6);
  std::reverse(params.begin(), params.end());
  CHECK(clip_grad_norm_(params, 1e6) == norm);
}

TEST_CASE("parameters without a gradient do not count") {
  const Module m = testing::load(testing::mlp_model(), exact());
  CHECK(clip_grad_norm_(m.parameters(), 1) == 0);
  CHECK(clip_grad_norm_({}, 1) == 0);
  Parameter p = m.get_parameter("fc2.bias");
  p.set_grad(Tensor::from<double>({0, 3, -4}, {3}));
  CHECK(std::abs(clip_grad_norm_(m.parameters(), 10) - 5) < 1e-15);
  CHECK_FALSE(m.get_parameter("fc1.bias").grad().defined());
}

TEST_CASE("a norm that is no number makes the gradients no numbers") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Parameter p = m.get_parameter("fc2.bias");
  p.set_grad(Tensor::from<double>({1, NAN, 2}, {3}));
  CHECK(std::isnan(clip_grad_norm_({p}, 1)));
  CHECK(std::isnan(p.grad().data<double>()[0]));
}

TEST_CASE("clip_grad_value_ bounds each element in place") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Parameter p = m.get_parameter("fc2.bias");
  Tensor mine = Tensor::from<double>({0.5, -3, 2}, {3});
  p.set_grad(mine);
  clip_grad_value_({p}, 1);
  CHECK(mine.data<double>()[0] == 0.5);
  CHECK(mine.data<double>()[1] == -1);
  CHECK(mine.data<double>()[2] == 1);
}

TEST_CASE("scale_grad_ multiplies in place") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Parameter p = m.get_parameter("fc2.bias");
  p.set_grad(Tensor::from<double>({0.5, -3, 2}, {3}));
  scale_grad_(m.parameters(), 0.5);
  CHECK(p.grad().data<double>()[1] == -1.5);
}

TEST_CASE("lists and bounds that make no sense are refused") {
  const Module m = testing::load(testing::mlp_model(), exact());
  const Module other = testing::load(testing::mlp_model(), exact());
  auto refuse = [](const std::vector<Parameter>& params, double max_norm) {
    return failure([&] { clip_grad_norm_(params, max_norm); }, ErrorCode::kUsage);
  };
  const Parameter p = m.get_parameter("fc1.bias");
  CHECK(contains(refuse({p, other.get_parameter("fc2.bias")}, 1), "'fc2.bias' belongs to another"));
  CHECK(contains(refuse({p, p}, 1), "'fc1.bias' is given twice"));
  CHECK(contains(refuse({p, Parameter()}, 1), "an empty Parameter"));
  CHECK(contains(refuse({p}, 0), "max_norm must be a number above 0"));
  CHECK(contains(refuse({p}, NAN), "max_norm"));
  CHECK(contains(failure([&] { clip_grad_value_({p}, -1); }, ErrorCode::kUsage), "clip_value"));
  CHECK(contains(failure([&] { scale_grad_({p}, NAN); }, ErrorCode::kUsage), "finite"));
  const Parameter orphan = [] {
    const Module gone = testing::load(testing::mlp_model(), exact());
    return gone.get_parameter("fc1.bias");
  }();
  CHECK(contains(refuse({orphan}, 1), "the module of parameter 'fc1.bias' is gone"));
}

}  // namespace
}  // namespace trainrt
