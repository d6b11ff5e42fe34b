#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
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

TensorMap batch_of(uint64_t seed) {
  return {{"x", numbers({4, 4}, seed)}, {"target", numbers({4, 3}, seed + 100)}};
}

TEST_CASE("averages follow the weights by the formula") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.attach_loss({"mse"});
  ExponentialMovingAverage averages(m, 0.75);
  Optimizer optimizer(m, "sgd:lr=0.1");
  const Parameter w = m.get_parameter("fc1.weight");
  Tensor expected = w.value().clone();
  for (uint64_t i = 0; i < 4; ++i) {
    train_step(m, optimizer, batch_of(i));
    averages.update();
    for (size_t k = 0; k < 32; ++k) {
      expected.data<double>()[k] =
          0.75 * expected.data<double>()[k] + 0.25 * w.value().data<double>()[k];
    }
  }
  const Tensor weights = w.value().clone();
  averages.swap();
  CHECK(largest_difference(w.value(), expected) < 1e-15);
  CHECK(contains(failure([&] { averages.update(); }, ErrorCode::kUsage), "swap()"));
  CHECK(contains(failure([&] { averages.copy_to(); }, ErrorCode::kUsage), "swap()"));
  averages.swap();
  CHECK(largest_difference(w.value(), weights) == 0);

  CHECK(contains(failure([&] { averages.restore(); }, ErrorCode::kUsage), "store()"));
  averages.store();
  averages.copy_to();
  CHECK(largest_difference(w.value(), expected) < 1e-15);
  averages.restore();
  CHECK(largest_difference(w.value(), weights) == 0);
}

TEST_CASE("averages have the bits of the trainer's, and go on where it stopped") {
  ModuleOptions options;
  options.dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  Module one = testing::load(testing::mlp_model(), options);
  Module two = testing::load(testing::mlp_model(), options);
  TrainerOptions trained;
  trained.losses = {"mse"};
  trained.optimizer = "momentum:lr=0.1";
  trained.ema = 0.9;
  Trainer trainer(one, trained), first(two, trained);
  for (uint64_t i = 0; i < 6; ++i) trainer.step(batch_of(i));
  for (uint64_t i = 0; i < 3; ++i) first.step(batch_of(i));
  two.attach_loss({"mse"});
  Optimizer optimizer(two, "momentum:lr=0.1");
  ExponentialMovingAverage averages(two, 0.9);
  for (uint64_t i = 3; i < 6; ++i) {
    train_step(two, optimizer, batch_of(i));
    averages.update();
  }
  trainer.swap_ema();
  averages.swap();
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    const Tensor a = one.parameters()[i].value(), b = two.parameters()[i].value();
    CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
  }
}

TEST_CASE("averages of some parameters, their state, and what is refused") {
  ModuleOptions frozen = exact();
  frozen.freeze = {"fc1.*"};
  const Module m = testing::load(testing::mlp_model(), frozen);
  const Module other = testing::load(testing::mlp_model(), exact());
  ExponentialMovingAverage averages(m, 0.5);
  StateDict state = averages.state_dict();
  REQUIRE(state.size() == 2);
  CHECK(state[0].first == "fc2.weight");
  CHECK(largest_difference(state[0].second, m.get_parameter("fc2.weight").value()) == 0);

  averages.load_state_dict({{"fc2.weight", numbers({8, 3}, 5)}, {"fc2.bias", numbers({3}, 6)}});
  averages.copy_to();
  CHECK(largest_difference(m.get_parameter("fc2.bias").value(), numbers({3}, 6)) == 0);
  const std::string text = failure(
      [&] {
        averages.load_state_dict({{"fc2.bias", numbers({4})}, {"fc3", numbers({1})}});
      },
      ErrorCode::kInput);
  CHECK(contains(text, "'fc2.weight' is missing"));
  CHECK(contains(text, "'fc2.bias': expected float64[3], given float64[4]"));
  CHECK(contains(text, "'fc3' is unknown"));

  auto refuse = [&](double decay, std::vector<Parameter> params) {
    return failure([&] { ExponentialMovingAverage(m, decay, std::move(params)); },
                   ErrorCode::kUsage);
  };
  const Parameter p = m.get_parameter("fc2.bias");
  CHECK(contains(refuse(1, {p}), "between 0 and 1"));
  CHECK(contains(refuse(0.5, {}), "no parameters"));
  CHECK(contains(refuse(0.5, {p, p}), "'fc2.bias' is given twice"));
  CHECK(contains(refuse(0.5, {other.get_parameter("fc2.bias")}), "belongs to another module"));
}

}  // namespace
}  // namespace trainrt
