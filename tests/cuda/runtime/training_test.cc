// Modules on the GPU beside the same modules on the CPU.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "runtime/gpu_context.h"
#include "tests/cuda/runtime/gpu_source.h"
#include "tests/cuda/test_device.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/optimizer.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using namespace testing;

ModuleOptions on_cpu(DType dtype) {
  ModuleOptions options;
  options.dtype = dtype;
  return options;
}

TensorMap mlp_batch(int64_t n, uint64_t seed = 1) {
  return {{"x", numbers({n, 4}, seed, DType::kFloat32)},
          {"target", ids([&] {
             std::vector<int64_t> classes;
             for (int64_t i = 0; i < n; ++i)
               classes.push_back((i + static_cast<int64_t>(seed)) % 3);
             return classes;
           }())}};
}

TrainerOptions adamw() {
  TrainerOptions options;
  options.losses = {"cross_entropy"};
  options.optimizer = "adamw:lr=0.05";
  return options;
}

void compare_state(const Module& a, const Module& b, double tolerance) {
  const auto own = a.state_dict(), other = b.state_dict();
  REQUIRE(own.size() == other.size());
  for (size_t i = 0; i < own.size(); ++i) {
    INFO(own[i].first);
    CHECK(largest_difference(own[i].second, other[i].second) <= tolerance);
  }
}

TEST_CASE("training on the GPU follows training on the CPU") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const double tolerance = dtype == DType::kFloat32 ? 2e-5 : 1e-12;
    Module cpu = load(mlp_model(), on_cpu(dtype)), gpu = load(mlp_model(), on_gpu(dtype));
    Trainer on_host(cpu, adamw()), on_device(gpu, adamw());
    for (uint64_t i = 0; i < 6; ++i) {
      const TensorMap batch = mlp_batch(i == 4 ? 3 : 5, i);  // a last batch that is not full
      const double want = on_host.step(batch).loss, got = on_device.step(batch).loss;
      CHECK(std::fabs(want - got) <= tolerance * std::fabs(want));
    }
    compare_state(cpu, gpu, tolerance);
    const double want = on_host.evaluate(mlp_batch(4)).loss;
    CHECK(std::fabs(on_device.evaluate(mlp_batch(4)).loss - want) <= tolerance * want);
  }
}

TEST_CASE("submitted steps run behind the caller's back, in one recorded piece") {
  Module gpu = load(mlp_model(), on_gpu()), cpu = load(mlp_model());
  Trainer on_device(gpu, adamw()), on_host(cpu, adamw());
  std::vector<double> want;
  for (uint64_t i = 0; i < 3; ++i) {
    on_device.step(mlp_batch(5, i));
    on_host.step(mlp_batch(5, i));
  }
  const EmulatedCounts* counts = gpu_counts();
  const EmulatedCounts before = counts == nullptr ? EmulatedCounts() : *counts;
  for (uint64_t i = 0; i < 12; ++i) {
    CHECK(std::isnan(on_device.submit(mlp_batch(5, i)).loss));
    want.push_back(on_host.step(mlp_batch(5, i)).loss);
  }
  if (counts != nullptr) {
    CHECK(counts->recordings_run - before.recordings_run == 12);
    CHECK(counts->copies_to_host == before.copies_to_host);
  }
  const std::vector<double> got = on_device.take_losses();
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - want[i]) < 1e-4 * want[i]);
  CHECK(on_device.take_losses().empty());
  compare_state(cpu, gpu, 1e-4);
}

TEST_CASE("what the host writes to parameters reaches the GPU, and the other way") {
  Module gpu = load(mlp_model(), on_gpu()), cpu = load(mlp_model());
  Trainer on_device(gpu, adamw()), on_host(cpu, adamw());
  on_device.step(mlp_batch(5));
  on_host.step(mlp_batch(5));
  for (Module* m : {&gpu, &cpu}) {
    Tensor bias = m->get_parameter("fc2.bias").value();
    bias.fill(0.25);
  }
  on_device.step(mlp_batch(5, 2));
  on_host.step(mlp_batch(5, 2));
  compare_state(cpu, gpu, 1e-5);
}

TEST_CASE("gradients accumulate on the GPU") {
  TrainerOptions options = adamw();
  options.accumulate = 3;
  options.clip_norm = 0.5;
  options.ema = 0.9;
  Module gpu = load(mlp_model(), on_gpu()), cpu = load(mlp_model());
  Trainer on_device(gpu, options), on_host(cpu, options);
  for (uint64_t i = 0; i < 7; ++i) {
    CHECK(std::fabs(on_device.step(mlp_batch(4, i)).loss - on_host.step(mlp_batch(4, i)).loss) <
          1e-5);
  }
  on_device.swap_ema();
  on_host.swap_ema();
  compare_state(cpu, gpu, 1e-5);
}

TEST_CASE("the facade's loop runs on the GPU") {
  Module gpu = load(mlp_model(), on_gpu()), cpu = load(mlp_model());
  for (Module* m : {&gpu, &cpu}) {
    m->attach_loss({"cross_entropy"});
    Optimizer optimizer(*m, "adam:lr=0.05");
    for (uint64_t i = 0; i < 4; ++i) {
      m->forward(mlp_batch(5, i));
      m->backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  compare_state(cpu, gpu, 1e-5);
}

TEST_CASE("a module moves between devices, and a checkpoint knows none") {
  const TemporaryFolder folder;
  Module gpu = load(mlp_model(), on_gpu()), cpu = load(mlp_model());
  Trainer on_device(gpu, adamw()), on_host(cpu, adamw());
  const auto both = [&](uint64_t seed) {
    on_device.step(mlp_batch(5, seed));
    on_host.step(mlp_batch(5, seed));
  };
  both(1);
  both(2);
  gpu.cpu();
  both(3);
  gpu.cuda();
  both(4);
  compare_state(cpu, gpu, 1e-5);
  on_device.save_checkpoint(folder / "gpu.ckpt");
  Module other = load(mlp_model());
  Trainer resumed(other, adamw());
  resumed.load_checkpoint(folder / "gpu.ckpt");
  compare_state(other, gpu, 0);
  resumed.step(mlp_batch(5, 5));
  both(5);
  compare_state(other, gpu, 1e-5);
}

TEST_CASE("batch norm, dropout and convolutions on the GPU") {
  Module gpu = load(conv_model(), on_gpu()), cpu = load(conv_model());
  TrainerOptions options;
  options.losses = {"mean"};
  options.optimizer = "momentum:lr=0.01";
  Trainer on_device(gpu, options), on_host(cpu, options);
  for (uint64_t i = 0; i < 3; ++i) {
    const TensorMap batch = {{"x", numbers({2, 3, 16, 16}, i, DType::kFloat32)}};
    const double want = on_host.step(batch).loss;
    CHECK(std::fabs(on_device.step(batch).loss - want) < 1e-4);
  }
  compare_state(cpu, gpu, 1e-4);
}

TEST_CASE("an index out of range on the GPU names its node when the loss is read") {
  Module gpu = load(embedding_model(), on_gpu());
  TrainerOptions options;
  options.losses = {"mean"};
  Trainer trainer(gpu, options);
  trainer.step({{"ids", ids({1, 4})}});
  const std::string text = failure(
      [&] {
        trainer.step({{"ids", ids({1, 7})}});
      },
      ErrorCode::kRuntime);
  CHECK(contains(text, "out of range"));
  CHECK(contains(text, "Gather"));
  trainer.step({{"ids", ids({1, 2})}});  // the next one is fine
}

TEST_CASE("memory of the GPU is given back") {
  size_t after_first = 0;
  for (int i = 0; i < 3; ++i) {
    Module keeper = load(mlp_model(), on_gpu());  // keeps the device open
    size_t before = gpu_counts() == nullptr ? 0 : gpu_counts()->allocated_bytes;
    {
      Module gpu = load(mlp_model(), on_gpu());
      Trainer trainer(gpu, adamw());
      for (uint64_t k = 0; k < 3; ++k) trainer.step(mlp_batch(5, k));
    }
    if (gpu_counts() != nullptr) CHECK(gpu_counts()->allocated_bytes == before);
    if (i == 0) after_first = before;
    CHECK(before == after_first);
  }
}

TEST_CASE("memory stays flat over many sessions") {
  Module keeper = load(mlp_model(), on_gpu());
  const std::shared_ptr<gpu::Device> device = find_gpu(0);
  const int sessions = on_real_device() ? 500 : 20;
  size_t free_before = 0;
  for (int i = 0; i < sessions; ++i) {
    {
      Module gpu = load(conv_model(), on_gpu());
      TrainerOptions options;
      options.losses = {"mean"};
      Trainer trainer(gpu, options);
      for (uint64_t k = 0; k < 3; ++k) {
        trainer.step({{"x", numbers({2, 3, 16, 16}, k, DType::kFloat32)}});
      }
    }
    // The first sessions load libraries and compile.
    if (i == sessions / 10) free_before = device->free_memory();
  }
  CHECK(device->free_memory() + (size_t{16} << 20) >= free_before);
}

TEST_CASE("options that need a GPU, or none") {
  ModuleOptions tf32;
  tf32.precision = Precision::kTf32;
  CHECK(contains(failure([&] { load(mlp_model(), tf32); }, ErrorCode::kUsage), "cuda"));
  ModuleOptions reference = on_gpu();
  reference.backend = Backend::kReference;
  CHECK(contains(failure([&] { load(mlp_model(), reference); }, ErrorCode::kUsage), "CPU only"));
  ModuleOptions planned = on_gpu();
  planned.plan_only = true;
  Module module = load(mlp_model(), planned);
  Trainer trainer(module, adamw());
  CHECK(contains(failure([&] { trainer.step(mlp_batch(5)); }, ErrorCode::kUsage), "plan_only"));
  CHECK(contains(trainer.dump(GraphStage::kPlanned, GraphFormat::kText, mlp_batch(5)), "cuda:"));
}

}  // namespace
}  // namespace trainrt
