#include "trainrt/trainer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "runtime/train/checkpoint.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

TensorMap class_batch(int64_t n, uint64_t seed) {
  std::vector<int64_t> target;
  for (int64_t i = 0; i < n; ++i) target.push_back((i + static_cast<int64_t>(seed)) % 3);
  return {{"x", numbers({n, 4}, seed)}, {"target", testing::ids(target)}};
}

TensorMap value_batch(int64_t n, uint64_t seed) {
  return {{"x", numbers({n, 4}, seed)}, {"target", numbers({n, 3}, seed + 100)}};
}

TrainerOptions options_of(const std::string& loss, const std::string& optimizer, double lr) {
  TrainerOptions options;
  options.losses = {loss};
  options.optimizer = optimizer;
  options.lr = lr;
  return options;
}

double difference(const Module& a, const Module& b) {
  double largest = 0;
  const StateDict x = a.state_dict(), y = b.state_dict();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, largest_difference(x[i].second, y[i].second));
  }
  return largest;
}

TEST_CASE("steps make the loss smaller") {
  for (const char* optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw"}) {
    INFO(optimizer);
    Module m = testing::load(testing::mlp_model(), exact());
    Trainer trainer(m, options_of("cross_entropy", optimizer, 0.05));
    const double first = trainer.step(class_batch(6, 1)).loss;
    double last = first;
    for (int i = 0; i < 30; ++i) last = trainer.step(class_batch(6, 1)).loss;
    CHECK(last < 0.8 * first);
    CHECK(trainer.steps_done() == 31);
  }
}

TEST_CASE("one fused sgd step is parameter minus rate times gradient") {
  Module m = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("mse", "sgd", 0.1));
  const TensorMap batch = value_batch(5, 2);
  const GradResult g = trainer.grad(batch);
  std::map<std::string, Tensor> before;
  for (const auto& [name, p] : m.named_parameters()) before[name] = p.value().clone();
  const StepResult s = trainer.step(batch);
  CHECK(s.loss == *g.loss);
  CHECK(s.lr == 0.1);
  for (const auto& [name, p] : m.named_parameters()) {
    for (size_t i = 0; i < static_cast<size_t>(p.size()); ++i) {
      const double expected =
          before[name].data<double>()[i] - 0.1 * g.grads.at(name).data<double>()[i];
      CHECK(std::abs(p.value().data<double>()[i] - expected) < 1e-15);
    }
  }
}

TEST_CASE("forward and backward of the module give the gradients of the fused graph") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.attach_loss({"cross_entropy"});
  Trainer trainer(m, options_of("cross_entropy", "sgd", 0.1));
  const TensorMap batch = class_batch(7, 3);
  const Outputs out = m.forward(batch);
  m.backward();
  const GradResult g = trainer.grad(batch);
  CHECK(out["loss"].item() == *g.loss);
  for (const auto& [name, p] : m.named_parameters()) {
    INFO(name);
    CHECK(largest_difference(p.grad(), g.grads.at(name)) == 0);
  }
  CHECK(g.grads.contains("x"));
}

TEST_CASE("accumulating small batches equals one big batch") {
  for (const char* optimizer : {"sgd", "adam"}) {
    Module small = testing::load(testing::mlp_model(), exact());
    Module big = testing::load(testing::mlp_model(), exact());
    TrainerOptions options = options_of("mse", optimizer, 0.05);
    Trainer whole(big, options);
    options.accumulate = 4;
    Trainer parts(small, options);
    for (uint64_t round = 0; round < 3; ++round) {
      const TensorMap batch = value_batch(8, round + 1);
      for (int64_t i = 0; i < 4; ++i) {
        const StepResult s = parts.step({{"x", batch.at("x").rows(2 * i, 2 * i + 2)},
                                         {"target", batch.at("target").rows(2 * i, 2 * i + 2)}});
        CHECK(s.updated == (i == 3));
        CHECK(s.step == static_cast<int64_t>(round) + (i == 3 ? 1 : 0));
      }
      whole.step(batch);
      CHECK(difference(small, big) < 1e-13);
    }
  }
}

TEST_CASE("clipping by norm scales all gradients together") {
  Module m = testing::load(testing::mlp_model(), exact());
  TrainerOptions options = options_of("mse", "sgd", 1.0);
  options.clip_norm = 0.01;
  Trainer trainer(m, options);
  const TensorMap batch = value_batch(5, 2);
  const GradResult g = trainer.grad(batch);
  double squares = 0;
  for (const auto& [name, p] : m.named_parameters()) {
    for (double v : g.grads.at(name).data<double>()) squares += v * v;
  }
  REQUIRE(std::sqrt(squares) > 0.01);
  const double scale = 0.01 / (std::sqrt(squares) + 1e-6);
  std::map<std::string, Tensor> before;
  for (const auto& [name, p] : m.named_parameters()) before[name] = p.value().clone();
  trainer.step(batch);
  for (const auto& [name, p] : m.named_parameters()) {
    const double moved = before[name].data<double>()[1] - p.value().data<double>()[1];
    CHECK(std::abs(moved - scale * g.grads.at(name).data<double>()[1]) < 1e-15);
  }
}

TEST_CASE("clipping by value bounds each element") {
  Module m = testing::load(testing::mlp_model(), exact());
  TrainerOptions options = options_of("mse*100", "sgd", 1.0);
  options.clip_value = 0.001;
  Trainer trainer(m, options);
  std::map<std::string, Tensor> before;
  for (const auto& [name, p] : m.named_parameters()) before[name] = p.value().clone();
  trainer.step(value_batch(5, 2));
  for (const auto& [name, p] : m.named_parameters()) {
    CHECK(largest_difference(before[name], p.value()) < 0.001 + 1e-12);
  }
}

TEST_CASE("the schedule sets the rate of each update") {
  Module m = testing::load(testing::mlp_model(), exact());
  TrainerOptions options = options_of("mse", "sgd", 0.4);
  options.schedule = "linear";
  options.total_steps = 4;
  Trainer trainer(m, options);
  for (const double expected : {0.4, 0.3, 0.2, 0.1}) {
    CHECK(std::abs(trainer.learning_rate() - expected) < 1e-15);
    CHECK(std::abs(trainer.step(value_batch(2, 1)).lr - expected) < 1e-15);
  }
  trainer.set_learning_rate(0.7);
  CHECK(trainer.step(value_batch(2, 1)).lr == 0.7);
}

TEST_CASE("the rate comes from the option, then the text, then the default") {
  const Module m = testing::load(testing::mlp_model(), exact());
  TrainerOptions options;
  options.optimizer = "adam";
  CHECK(Trainer(m, options).learning_rate() == 1e-3);
  options.optimizer = "adam:lr=0.5";
  CHECK(Trainer(m, options).learning_rate() == 0.5);
  options.lr = 0.25;
  CHECK(Trainer(m, options).learning_rate() == 0.25);
}

TEST_CASE("the moving average follows the weights, and can be swapped in") {
  Module m = testing::load(testing::mlp_model(), exact());
  TrainerOptions options = options_of("mse", "sgd", 0.1);
  options.ema = 0.75;
  Trainer trainer(m, options);
  const Parameter w = m.get_parameter("fc1.weight");
  Tensor average = w.value().clone();
  for (uint64_t i = 0; i < 3; ++i) {
    trainer.step(value_batch(4, i));
    for (size_t k = 0; k < 32; ++k) {
      average.data<double>()[k] =
          0.75 * average.data<double>()[k] + 0.25 * w.value().data<double>()[k];
    }
  }
  const Tensor weights = w.value().clone();
  trainer.swap_ema();
  CHECK(largest_difference(w.value(), average) < 1e-15);
  trainer.swap_ema();
  CHECK(largest_difference(w.value(), weights) == 0);
  TrainerOptions plain = options_of("mse", "sgd", 0.1);
  Trainer without(m, plain);
  CHECK_THROWS_AS(without.swap_ema(), Error);
}

TEST_CASE("evaluate gives loss, metrics and outputs without changing anything") {
  Module m = testing::load(testing::mlp_model(), exact());
  Module same = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("cross_entropy", "sgd", 0.1));
  const EvalResult r = trainer.evaluate(class_batch(6, 1));
  CHECK(r.samples == 6);
  CHECK(r.outputs["y"].shape() == Shape{6, 3});
  CHECK(r.metrics.classified == 6);
  CHECK(std::abs(r.metrics.value("perplexity") - std::exp(r.loss)) < 1e-12);
  CHECK(difference(m, same) == 0);
  TensorMap inputs = class_batch(6, 1);
  inputs.erase("target");
  CHECK(largest_difference(trainer.predict(inputs)["y"], r.outputs["y"]) == 0);
  CHECK(contains(failure([&] { trainer.evaluate(inputs); }, ErrorCode::kInput), "target"));
}

TEST_CASE("grad leaves running statistics and the random state alone") {
  Module m = testing::load(testing::batch_norm_model(), exact());
  Module same = testing::load(testing::batch_norm_model(), exact());
  Trainer trainer(m, options_of("mean", "sgd", 0.1));
  const TensorMap batch = {{"x", numbers({4, 2, 5}, 3)}};
  const GradResult a = trainer.grad(batch), b = trainer.grad(batch);
  CHECK(difference(m, same) == 0);
  CHECK(*a.loss == *b.loss);
  Module d = testing::load(testing::dropout_model(), exact());
  Trainer dropout(d, options_of("mean", "sgd", 0.1));
  const TensorMap x = {{"x", numbers({4, 4}, 3)}};
  CHECK(*dropout.grad(x).loss == *dropout.grad(x).loss);
}

TEST_CASE("grad in eval mode uses running statistics") {
  Module m = testing::load(testing::batch_norm_model(), exact());
  Trainer trainer(m, options_of("sum", "sgd", 0.1));
  const TensorMap batch = {{"x", numbers({4, 2, 5}, 3)}};
  GradOptions eval;
  eval.training = false;
  // y = (x - mean) / sd * scale + bias: the gradient of the sum is scale / sd.
  const GradResult g = trainer.grad(batch, eval);
  CHECK(std::abs(g.grads.at("x").data<double>()[0] - 1.5 / std::sqrt(2.0 + 1e-5)) < 1e-12);
  // Batch statistics take the sum out: no gradient is left.
  CHECK(std::abs(trainer.grad(batch).grads.at("x").data<double>()[0]) < 1e-12);
}

TEST_CASE("gradients of outputs from dy arrays") {
  Module m = testing::load(testing::two_output_model(), exact());
  TrainerOptions options;
  options.losses = {"sum"};
  Trainer trainer(m, options);
  GradOptions dy;
  dy.output_grads = true;
  const Tensor x = numbers({2, 2}, 3), d = numbers({2, 2}, 4);
  const GradResult g = trainer.grad({{"x", x}, {"dy/a", d}}, dy);
  CHECK_FALSE(g.loss.has_value());
  const double w0 = m.get_parameter("w").value().data<double>()[0];
  CHECK(std::abs(g.grads.at("x").data<double>()[0] - d.data<double>()[0] * w0) < 1e-15);
  CHECK_THROWS_AS(trainer.grad({{"x", x}}, dy), Error);
  CHECK_THROWS_AS(trainer.grad({{"x", x}, {"dy/q", d}}, dy), Error);
}

TEST_CASE("bad targets are refused before the step, and nothing has changed") {
  Module m = testing::load(testing::mlp_model(), exact());
  Module same = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("cross_entropy", "sgd", 0.1));
  const Tensor x = numbers({3, 4});
  auto step = [&](const Tensor& target) {
    return failure([&] { trainer.step({{"x", x}, {"target", target}}); }, ErrorCode::kInput);
  };
  const std::string range = step(testing::ids({0, 7, 1}));
  CHECK(contains(range, "7"));
  CHECK(contains(range, "3 classes"));
  CHECK_FALSE(step(testing::ids({0, 1, 2, 0})).empty());
  CHECK(contains(step(numbers({3})), "class ids"));
  CHECK(contains(failure([&] { trainer.step({{"x", x}}); }, ErrorCode::kInput), "'target'"));
  CHECK(difference(m, same) == 0);
  CHECK(trainer.steps_done() == 0);
  trainer.step({{"x", x}, {"target", testing::ids({0, -100, 2})}});
}

TEST_CASE("rows and targets that do not match are counted in the message") {
  Module m = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("cross_entropy", "sgd", 0.1));
  const std::string text = failure(
      [&] {
        trainer.step({{"x", numbers({5, 4})}, {"target", testing::ids({0, 1, 2, 0})}});
      },
      ErrorCode::kInput);
  CHECK(contains(text, "5 rows of y, 4 targets"));
}

TEST_CASE("losses on several outputs take targets of their own") {
  Module m = testing::load(testing::two_output_model(), exact());
  TrainerOptions options;
  options.losses = {"mse:a*0.5", "l1:b"};
  Trainer trainer(m, options);
  const Tensor x = numbers({3, 2}, 2), ta = numbers({3, 2}, 5), tb = numbers({3, 2}, 6);
  const EvalResult r = trainer.evaluate({{"x", x}, {"target/a", ta}, {"target/b", tb}});
  double mse = 0, l1 = 0;
  for (size_t i = 0; i < 6; ++i) {
    mse += std::pow(r.outputs["a"].data<double>()[i] - ta.data<double>()[i], 2) / 6;
    l1 += std::abs(r.outputs["b"].data<double>()[i] - tb.data<double>()[i]) / 6;
  }
  CHECK(std::abs(r.loss - (0.5 * mse + l1)) < 1e-14);
  CHECK(contains(failure(
                     [&] {
                       trainer.evaluate({{"x", x}, {"target", ta}});
                     },
                     ErrorCode::kInput),
                 "target/a"));
  options.losses = {"mse:c"};
  Trainer wrong(m, options);
  CHECK(contains(failure(
                     [&] {
                       wrong.evaluate({{"x", x}, {"target", ta}});
                     },
                     ErrorCode::kUsage),
                 "'c'"));
}

TEST_CASE("batches of changing sizes train") {
  Module m = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("cross_entropy", "adam", 0.01));
  for (const int64_t n : {32, 7, 64, 1, 32}) trainer.step(class_batch(n, 1));
  CHECK(trainer.steps_done() == 5);
}

TEST_CASE("float32 on the fast kernels follows float64 on the reference kernels") {
  Module fast = testing::load(testing::mlp_model());
  Module slow = testing::load(testing::mlp_model(), exact());
  Trainer a(fast, options_of("cross_entropy", "adam", 0.01));
  Trainer b(slow, options_of("cross_entropy", "adam", 0.01));
  for (uint64_t i = 0; i < 10; ++i) {
    const double x = a.step(class_batch(9, i)).loss, y = b.step(class_batch(9, i)).loss;
    CHECK(std::abs(x - y) < 1e-5);
  }
}

TEST_CASE("an embedding trains by the rows that were looked up") {
  Module m = testing::load(testing::embedding_model(), exact());
  Trainer trainer(m, options_of("sum", "sgd", 1.0));
  const Tensor before = m.get_parameter("table").value().clone();
  trainer.step({{"ids", testing::ids({1, 1, 3})}});
  const Tensor after = m.get_parameter("table").value();
  CHECK(after.data<double>()[0] == before.data<double>()[0]);
  CHECK(std::abs(after.data<double>()[3] - (before.data<double>()[3] - 2)) < 1e-15);
  CHECK(std::abs(after.data<double>()[9] - (before.data<double>()[9] - 1)) < 1e-15);
  const std::string text = failure(
      [&] {
        trainer.step({{"ids", testing::ids({1, 5, 3})}});
      },
      ErrorCode::kRuntime);
  CHECK(contains(text, "y_node"));
}

TEST_CASE("a resumed run continues bit by bit") {
  for (const int64_t accumulate : {1, 3}) {
    INFO("accumulate " << accumulate);
    const TemporaryFolder folder;
    TrainerOptions options = options_of("cross_entropy", "adamw", 0.02);
    options.accumulate = accumulate;
    options.ema = 0.9;
    options.schedule = "cosine";
    options.total_steps = 20;
    Module a = testing::load(testing::dropout_model(), exact());
    Trainer first(a, options);
    for (uint64_t i = 0; i < 5; ++i) first.step(class_batch(6, i));
    first.set_position({2, 5, "shuffle state"});
    first.save_checkpoint(folder / "c");

    ModuleOptions other_seed = exact();
    other_seed.seed = 99;
    Module b = testing::load(testing::dropout_model(), other_seed);
    Trainer second(b, options);
    second.step(class_batch(6, 50));  // state to be replaced
    second.load_checkpoint(folder / "c");
    CHECK(second.steps_done() == first.steps_done());
    CHECK(second.position().epoch == 2);
    CHECK(second.position().batch == 5);
    CHECK(second.position().extra == "shuffle state");
    for (uint64_t i = 5; i < 12; ++i) {
      const StepResult x = first.step(class_batch(6, i)), y = second.step(class_batch(6, i));
      CHECK(x.loss == y.loss);
      CHECK(x.lr == y.lr);
    }
    CHECK(difference(a, b) == 0);
    first.swap_ema();
    second.swap_ema();
    CHECK(difference(a, b) == 0);
  }
}

TEST_CASE("a checkpoint that does not fit is refused and changes nothing") {
  const TemporaryFolder folder;
  Module m = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("cross_entropy", "adam", 0.02));
  trainer.step(class_batch(4, 1));
  trainer.save_checkpoint(folder / "c");

  Module other = testing::load(testing::mlp_model(), exact());
  Module untouched = testing::load(testing::mlp_model(), exact());
  Trainer sgd(other, options_of("cross_entropy", "sgd", 0.02));
  CHECK(
      contains(failure([&] { sgd.load_checkpoint(folder / "c"); }, ErrorCode::kInput), "options"));
  Module single = testing::load(testing::mlp_model());
  Trainer narrow(single, options_of("cross_entropy", "adam", 0.02));
  CHECK(contains(failure([&] { narrow.load_checkpoint(folder / "c"); }, ErrorCode::kInput),
                 "float64"));
  Module table = testing::load(testing::embedding_model(), exact());
  Trainer wrong(table, options_of("cross_entropy", "adam", 0.02));
  CHECK_FALSE(failure([&] { wrong.load_checkpoint(folder / "c"); }, ErrorCode::kInput).empty());

  Trainer same(other, options_of("cross_entropy", "adam", 0.02));
  m.save(folder / "weights");
  CHECK(contains(failure([&] { same.load_checkpoint(folder / "weights"); }, ErrorCode::kInput),
                 "weights only"));
  Checkpoint c = read_checkpoint(folder / "c");
  c.tensors.pop_back();
  c.text["step"] = "-4";
  write_checkpoint(folder / "c2", c);
  CHECK_FALSE(failure([&] { same.load_checkpoint(folder / "c2"); }, ErrorCode::kFile).empty());
  CHECK(difference(other, untouched) == 0);
  CHECK(same.steps_done() == 0);
}

TEST_CASE("a trainer's checkpoint gives its weights to a module") {
  const TemporaryFolder folder;
  Module m = testing::load(testing::mlp_model(), exact());
  Trainer trainer(m, options_of("cross_entropy", "adam", 0.02));
  trainer.step(class_batch(4, 1));
  trainer.save_checkpoint(folder / "c");
  Module other = testing::load(testing::mlp_model(), exact());
  other.load(folder / "c");
  CHECK(difference(m, other) == 0);
}

TEST_CASE("options that make no sense are refused at once") {
  const Module m = testing::load(testing::mlp_model(), exact());
  auto refuse = [&](const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions options;
    change(options);
    return failure([&] { Trainer(m, options); }, ErrorCode::kUsage);
  };
  CHECK_FALSE(refuse([](auto& o) { o.losses = {}; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.losses = {"crossentropy"}; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.optimizer = "adamax"; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.lr = -1; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.accumulate = 0; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.clip_norm = 0; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.ema = 1; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.weight_decay = std::nan(""); }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.label_smoothing = 2; }).empty());
  CHECK_FALSE(refuse([](auto& o) { o.schedule = "cosine"; }).empty());
}

TEST_CASE("the NaN check names the node") {
  Module m = testing::load(testing::two_output_model(), exact());
  TrainerOptions options;
  options.losses = {"mean:b"};
  options.nan_check = true;
  Trainer trainer(m, options);
  Tensor x = numbers({2, 2});
  x.data<double>()[1] = std::nan("");
  CHECK(contains(failure([&] { trainer.step({{"x", x}}); }, ErrorCode::kRuntime), "a_node"));
}

/// Losses of steps, then all state.
std::pair<std::vector<double>, StateDict> train(const Module& m, const TensorMap& batch) {
  Trainer trainer(m, options_of("cross_entropy", "adam", 0.01));
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(trainer.step(batch).loss);
  return {losses, m.state_dict()};
}

TEST_CASE("a memory budget changes no bit") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  ModuleOptions options;
  options.dtype = dtype;
  const std::string bytes = testing::conv_model();
  const TensorMap batch = {{"x", numbers({8, 3, 16, 16})},
                           {"target", testing::ids({0, 1, 2, 3, 4, 5, 6, 7})}};
  const Module free = testing::load(bytes, options);
  const PlanStats unlimited = Trainer(free, options_of("cross_entropy", "adam", 0.01)).plan(batch);
  const auto want = train(free, batch);
  for (const double part : {0.9, 0.8, 0.7}) {
    options.memory_budget = static_cast<size_t>(static_cast<double>(unlimited.arena_bytes) * part);
    const Module m = testing::load(bytes, options);
    const PlanStats plan = Trainer(m, options_of("cross_entropy", "adam", 0.01)).plan(batch);
    INFO(part);
    CHECK(plan.arena_bytes <= options.memory_budget);
    CHECK(plan.recomputed_values > unlimited.recomputed_values);
    CHECK(plan.flops - plan.recomputed_flops == unlimited.flops - unlimited.recomputed_flops);
    const auto got = train(m, batch);
    CHECK(got.first == want.first);
    REQUIRE(got.second.size() == want.second.size());
    for (size_t i = 0; i < got.second.size(); ++i) {
      INFO(got.second[i].first);
      const Tensor &a = got.second[i].second, &b = want.second[i].second;
      CHECK(std::memcmp(a.raw(), b.raw(), b.bytes()) == 0);
    }
  }
}

TEST_CASE("a memory budget that no plan fits names the smallest that one does") {
  ModuleOptions options;
  options.memory_budget = 1000;
  const std::string bytes = testing::conv_model();
  const TensorMap batch = {{"x", numbers({4, 3, 16, 16})}, {"target", testing::ids({0, 1, 2, 3})}};
  const auto plan = [&] {
    const Module m = testing::load(bytes, options);
    return Trainer(m, options_of("cross_entropy", "adam", 0.01)).plan(batch);
  };
  const std::string message = failure(plan, ErrorCode::kMemory);
  CHECK(contains(message, "budget of 1000 bytes"));
  const std::string before = "at least ";
  REQUIRE(contains(message, before));
  options.memory_budget = std::stoul(message.substr(message.find(before) + before.size()));
  CHECK(plan().arena_bytes <= options.memory_budget);
}

TEST_CASE("bench, profile, plan and dumps") {
  Module m = testing::load(testing::mlp_model());
  Trainer trainer(m, options_of("cross_entropy", "adam", 0.01));
  const TensorMap batch = class_batch(16, 1);
  const BenchResult b = trainer.bench(batch, 0.01);
  CHECK(b.steps >= 3);
  CHECK(b.step_ms > 0);
  CHECK(b.forward_ms > 0);
  CHECK(b.plan.arena_bytes >= b.plan.arena_lower_bound_bytes);
  // 16 rows through 4x8 and 8x3, once forward; backward: both weights and the hidden layer.
  const int64_t forward = 2 * 16 * (4 * 8 + 8 * 3);
  CHECK(b.plan.flops == 2 * forward + 2 * 16 * 8 * 3);
  const auto profile = trainer.profile(batch);
  CHECK(static_cast<int64_t>(profile.size()) == trainer.plan(batch).nodes);
  CHECK_FALSE(profile[0].kernel.empty());
  CHECK(trainer.trainable(batch).size() == 4);
  CHECK(contains(trainer.dump(GraphStage::kImported, GraphFormat::kText, batch), "MatMul"));
  CHECK(contains(trainer.dump(GraphStage::kJoint, GraphFormat::kText, batch), "OptimizerUpdate"));
  CHECK(contains(trainer.dump(GraphStage::kPlanned, GraphFormat::kText, batch), "arena"));
}

TEST_CASE("synthetic targets fit their losses") {
  const Module m = testing::load(testing::mlp_model(), exact());
  for (const char* loss : {"cross_entropy", "mse", "bce_with_logits", "sum"}) {
    INFO(loss);
    const TrainerOptions options = options_of(loss, "sgd", 0.01);
    TensorMap batch = synthetic_inputs(m, 4, 1);
    for (auto& [name, value] : synthetic_targets(m, options, batch, 2)) batch[name] = value;
    Trainer(m, options).step(batch);
  }
}

TEST_CASE("static inputs are part of the plan") {
  Module m = testing::load(testing::reshape_model(), exact());
  TrainerOptions options = options_of("mean", "sgd", 0.1);
  options.static_inputs = {{"shape", testing::ids({4, 3})}};
  Trainer trainer(m, options);
  CHECK(trainer.predict({{"x", numbers({2, 6})}})[0].shape() == Shape{4, 3});
  trainer.step({{"x", numbers({2, 6})}});
}

}  // namespace
}  // namespace trainrt
