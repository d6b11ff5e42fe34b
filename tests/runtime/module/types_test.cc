// Types, devices, shared memory, threads.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <thread>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/flat.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

TensorMap batch(DType dtype = DType::kFloat32) {
  return {{"x", numbers({4, 4}, 1, dtype)}, {"target", numbers({4, 3}, 2, dtype)}};
}

TrainerOptions adam() {
  TrainerOptions options;
  options.losses = {"mse"};
  options.optimizer = "adam:lr=0.01";
  return options;
}

double wide(const Tensor& a, const Tensor& b) {
  return largest_difference(a.to(DType::kFloat64), b.to(DType::kFloat64));
}

TEST_CASE("a module changes its type in place and training goes on",
          "[float32][float64][type][to]") {
  Module model = testing::load(testing::mlp_model());
  Module same = testing::load(testing::mlp_model());
  Trainer trainer(model, adam()), reference(same, adam());
  trainer.step(batch());
  reference.step(batch());
  Parameter w = model.get_parameter("fc1.weight");
  const Tensor before = w.value().clone();
  model.float64();
  CHECK(w.dtype() == DType::kFloat64);
  CHECK(wide(w.value(), before) == 0);
  CHECK(model.options().dtype == DType::kFloat64);
  for (int i = 0; i < 3; ++i) {
    trainer.step(batch());
    reference.step(batch());
  }
  CHECK(wide(w.value(), same.get_parameter("fc1.weight").value()) < 1e-5);
  CHECK(wide(w.value(), before) > 1e-3);
  model.to(DType::kFloat32);
  CHECK(w.dtype() == DType::kFloat32);
  trainer.step(batch());
  reference.step(batch());
  CHECK(wide(w.value(), same.get_parameter("fc1.weight").value()) < 1e-5);
  CHECK(model.forward({batch().at("x")})[0].dtype() == DType::kFloat32);
  failure([&] { model.type(DType::kInt64); }, ErrorCode::kUsage);
}

TEST_CASE("16-bit types store every value rounded, and training goes on", "[half][bfloat16]") {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Module model = testing::load(testing::batch_norm_model());
    if (dtype == DType::kFloat16) {
      model.half();
    } else {
      model.bfloat16();
    }
    Parameter w = model.get_parameter("bn.weight");
    CHECK(w.dtype() == dtype);
    CHECK(model.get_buffer("bn.mean").dtype() == dtype);
    TrainerOptions options;
    options.losses = {"mse"};
    options.lr = 0.1;
    Trainer trainer(model, options);
    const Tensor before = w.value().clone(), mean = model.get_buffer("bn.mean").clone();
    const TensorMap data = {{"x", numbers({4, 2, 3}, 1, DType::kFloat32)},
                            {"target", numbers({4, 2, 3}, 2, DType::kFloat32)}};
    const double first = trainer.step(data).loss;
    double last = first;
    for (int i = 0; i < 20; ++i) last = trainer.step(data).loss;
    CHECK(last < first);
    CHECK(wide(w.value(), before) > 0);
    CHECK(wide(model.get_buffer("bn.mean"), mean) > 0);
    // Writing to the stored value changes the parameter.
    w.value().fill(0);
    model.eval();
    const Tensor bias = model.get_parameter("bn.bias").value().to(DType::kFloat32);
    const Tensor y = model.forward({data.at("x")})[0];
    CHECK(y.data<float>()[0] == bias.data<float>()[0]);
    model.train();
    model.forward({data.at("x")});
    model.backward({data.at("x")});
    CHECK(w.grad().dtype() == DType::kFloat32);
    w.set_grad(w.grad().clone());
    model.float32();
    CHECK(w.dtype() == DType::kFloat32);
    CHECK(w.value().data<float>()[0] == 0);
    trainer.step(data);
  }
}

TEST_CASE("an optimizer goes on after its parameters changed their type", "[type][train_step]") {
  Module model = testing::load(testing::mlp_model());
  model.attach_loss({"mse"});
  Optimizer optimizer(model, "adam:lr=0.01");
  Parameter w = model.get_parameter("fc1.weight");
  const auto step = [&] {
    optimizer.zero_grad();
    model.forward(batch());
    model.backward();
    const Tensor before = w.value().to(DType::kFloat64);
    optimizer.step();
    return wide(w.value(), before);
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat32}) {
    model.type(dtype);
    // Adam's steps are of the size of its rate.
    const double moved = step();
    CHECK(moved > 0.001);
    CHECK(moved < 0.02);
    CHECK(model.train_step(batch(), optimizer).loss > 0);
  }
  CHECK(optimizer.steps_done() == 8);
}

TEST_CASE("state, flat views and averages work with 16-bit storage", "[half][bfloat16]") {
  Module model = testing::load(testing::batch_norm_model());
  model.attach_loss({"mse"});
  model.bfloat16();
  Parameter w = model.get_parameter("bn.weight");
  StateDict state = model.state_dict();
  for (auto& [name, tensor] : state) {
    tensor = Tensor(DType::kFloat32, tensor.shape());
    tensor.fill(0.5);
  }
  model.load_state_dict(state);
  const TensorMap data = {{"x", numbers({4, 2, 3}, 1, DType::kFloat32)},
                          {"target", numbers({4, 2, 3}, 2, DType::kFloat32)}};
  model.eval();
  model.forward(data);  // reads what was loaded
  CHECK(w.value().to(DType::kFloat32).data<float>()[1] == 0.5f);
  CHECK(model.get_buffer("bn.var").to(DType::kFloat32).data<float>()[1] == 0.5f);
  model.train();

  CHECK(w.grad_dtype() == DType::kFloat32);
  std::vector<float> flat(static_cast<size_t>(flat_size(model)), 0.25f);
  set_flat(model, std::span<const float>(flat));
  CHECK(w.value().to(DType::kFloat32).data<float>()[0] == 0.25f);
  set_flat_grad(model, std::span<const float>(flat));
  CHECK(w.grad().data<float>()[0] == 0.25f);

  Optimizer optimizer(model, "sgd:lr=0.5");
  ExponentialMovingAverage average(model, 0.5);
  average.store();
  optimizer.step();
  const float stepped = w.value().to(DType::kFloat32).data<float>()[0];
  CHECK(stepped == 0.125f);
  average.update();
  average.swap();
  CHECK(w.value().to(DType::kFloat32).data<float>()[0] == 0.5f * 0.25f + 0.5f * stepped);
  average.swap();
  CHECK(w.value().to(DType::kFloat32).data<float>()[0] == stepped);
  average.copy_to();
  average.restore();
  CHECK(w.value().to(DType::kFloat32).data<float>()[0] == 0.25f);
  average.load_state_dict(average.state_dict());
}

TEST_CASE("a module moves to a tensor's type, and to devices that are there",
          "[to][cpu][cuda][ipu][mtia][xpu][to_empty]") {
  Module model = testing::load(testing::mlp_model());
  model.to(Tensor(DType::kFloat64, {1}));
  CHECK(model.parameters()[0].dtype() == DType::kFloat64);
  CHECK(&model.cpu() == &model);
  CHECK(&model.to(Device{}, true, MemoryFormat::kChannelsLast) == &model);
  setenv("TRAINRT_CUDA_LIBRARY", "/nowhere", 1);
  CHECK(contains(failure([&] { model.cuda(1); }, ErrorCode::kUnsupported), "no CUDA backend"));
  CHECK(contains(failure([&] { model.ipu(); }, ErrorCode::kUnsupported), "ipu:0"));
  CHECK(contains(failure([&] { model.mtia(); }, ErrorCode::kUnsupported), "mtia"));
  CHECK(contains(failure([&] { model.xpu(); }, ErrorCode::kUnsupported), "xpu"));
  failure([&] { model.to(Device{DeviceType::kCuda, 0}); }, ErrorCode::kUnsupported);
  model.to_empty(Device{});
  for (const Parameter& p : model.parameters()) CHECK(p.value().data<double>()[0] == 0);
}

TEST_CASE("another process reads the weights while training runs", "[share_memory]") {
  Module model = testing::load(testing::batch_norm_model());
  const std::string name = model.share_memory();
  // The child waits for the sign that the weights have changed, and for the values that they have.
  int to_child[2], to_parent[2];
  REQUIRE(pipe(to_child) == 0);
  REQUIRE(pipe(to_parent) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char sign = 0;
    int code = 1;
    const StateDict state = attach_shared(name);
    const float first = state[0].second.data<float>()[0];
    if (write(to_parent[1], "r", 1) == 1 && read(to_child[0], &sign, 1) == 1) {
      float expected[2];
      if (read(to_child[0], expected, sizeof(expected)) == sizeof(expected)) {
        const bool same = state[0].second.data<float>()[0] == expected[0] &&
                          state[2].second.data<float>()[0] == expected[1];
        code = same && first != expected[0] && state[2].first == "bn.mean" ? 0 : 2;
      }
    }
    _exit(code);
  }
  char ready = 0;
  REQUIRE(read(to_parent[0], &ready, 1) == 1);
  TrainerOptions options;
  options.losses = {"mse"};
  options.lr = 0.1;
  Trainer trainer(model, options);
  trainer.step({{"x", numbers({4, 2, 3}, 1, DType::kFloat32)},
                {"target", numbers({4, 2, 3}, 2, DType::kFloat32)}});
  const float values[2] = {model.parameters()[0].value().data<float>()[0],
                           model.get_buffer("bn.mean").data<float>()[0]};
  REQUIRE(write(to_child[1], "g", 1) == 1);
  REQUIRE(write(to_child[1], values, sizeof(values)) == sizeof(values));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  failure([] { attach_shared("/trainrt-no-such"); }, ErrorCode::kInput);
}

TEST_CASE("shared memory goes with its module", "[share_memory]") {
  std::string name;
  {
    Module model = testing::load(testing::mlp_model());
    name = model.share_memory();
    CHECK(attach_shared(name).size() == 4);
  }
  failure([&] { attach_shared(name); }, ErrorCode::kInput);
}

TEST_CASE("modules of their own train in parallel threads to the same bits", "[threads]") {
  ModuleOptions options;
  options.threads = 1;
  const auto train = [&] {
    Module model = testing::load(testing::conv_model(), options);
    TrainerOptions how;
    how.losses = {"cross_entropy"};
    Trainer trainer(model, how);
    for (int i = 0; i < 3; ++i) {
      trainer.step(
          {{"x", numbers({2, 3, 16, 16}, 1, DType::kFloat32)}, {"target", testing::ids({3, 5})}});
    }
    return model.parameters()[0].value().clone();
  };
  const Tensor alone = train();
  std::vector<Tensor> results(3);
  std::vector<std::thread> threads;
  for (Tensor& result : results) threads.emplace_back([&] { result = train(); });
  for (std::thread& t : threads) t.join();
  for (const Tensor& result : results) CHECK(wide(result, alone) == 0);
}

TEST_CASE("one module is shared for inference by several threads", "[threads]") {
  ModuleOptions options;
  options.threads = 1;
  Module model = testing::load(testing::conv_model(), options);
  model.eval();
  std::vector<Tensor> inputs, expected;
  for (int64_t n = 1; n <= 4; ++n) {
    inputs.push_back(numbers({n, 3, 16, 16}, static_cast<uint64_t>(n), DType::kFloat32));
    expected.push_back(model.forward({inputs.back()})[0]);
  }
  std::vector<double> worst(4, 1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      worst[t] = 0;
      for (int i = 0; i < 10; ++i) {
        worst[t] = std::max(worst[t], wide(model.forward({inputs[t]})[0], expected[t]));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (double w : worst) CHECK(w == 0);
}

}  // namespace
}  // namespace trainrt
