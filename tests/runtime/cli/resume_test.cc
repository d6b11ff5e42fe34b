#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "runtime/data/npy.h"
#include "tests/runtime/cli/program.h"
#include "tests/runtime/cli/tiny_models.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A run with everything that a checkpoint must keep: shuffling, dropout, running statistics,
/// moments, a schedule, accumulation and partial batches.
class LongRun {
 public:
  LongRun() {
    model_ = folder.write("m.onnx", mlp({.dropout = true, .batch_norm = true}).SerializeAsString());
    Tensor x(DType::kFloat32, {53, 4}), target(DType::kInt64, {53});
    uint32_t state = 99;
    for (float& v : x.data<float>()) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    }
    for (int64_t i = 0; i < 53; ++i) target.data<int64_t>()[static_cast<size_t>(i)] = i * i % 3;
    write_npz(folder.file("d.npz"), {{"x", x}, {"target", target}});
  }

  Arguments arguments(const std::string& name, Arguments more = {}) const {
    Arguments all = {"run",
                     model_,
                     "--data",
                     folder.file("d.npz"),
                     "--batch",
                     "5",
                     "--steps",
                     "240",
                     "--accumulate",
                     "3",
                     "--optimizer",
                     "adamw",
                     "--schedule",
                     "cosine:warmup=20",
                     "--clip-norm",
                     "1",
                     "--seed",
                     "5",
                     "--threads",
                     "1",
                     "--val",
                     folder.file("d.npz"),
                     "--checkpoint-every",
                     "1",
                     "--checkpoint",
                     folder.file(name + ".ckpt"),
                     "--out",
                     folder.file(name + ".onnx")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Arguments resumed(const std::string& name) const {
    return arguments(name, {"--resume", folder.file(name + ".ckpt")});
  }
  std::string result(const std::string& name) const {
    return TemporaryFolder::read(folder.file(name + ".onnx"));
  }
  /// Waits until the run has written a checkpoint, then some more.
  void let_run(const std::string& name, int milliseconds) const {
    for (int i = 0; i < 60000 && !std::filesystem::exists(folder.file(name + ".ckpt")); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

  TemporaryFolder folder;

 private:
  std::string model_;
};

TEST_CASE("a killed run resumes to the same bits", "[cli]") {
  const LongRun run;
  const ProgramResult whole = run_trainrt(run.arguments("whole"));
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  for (const int wait : {0, 3, 11, 29}) {
    const std::string name = "killed" + std::to_string(wait);
    BackgroundProgram victim(run.arguments(name));
    run.let_run(name, wait);
    victim.signal(SIGKILL);
    victim.wait();
    const ProgramResult resumed = run_trainrt(run.resumed(name));
    INFO(resumed.err << resumed.out);
    REQUIRE(resumed.code == 0);
    CHECK(run.result(name) == run.result("whole"));
  }
}

TEST_CASE("a run killed twice resumes to the same bits", "[cli]") {
  const LongRun run;
  REQUIRE(run_trainrt(run.arguments("whole")).code == 0);
  {
    BackgroundProgram victim(run.arguments("twice"));
    run.let_run("twice", 5);
    victim.signal(SIGKILL);
    victim.wait();
  }
  {
    BackgroundProgram victim(run.resumed("twice"));
    run.let_run("twice", 40);
    victim.signal(SIGKILL);
    victim.wait();
  }
  REQUIRE(run_trainrt(run.resumed("twice")).code == 0);
  CHECK(run.result("twice") == run.result("whole"));
}

TEST_CASE("an interrupted run saves, exits cleanly and resumes to the same bits", "[cli]") {
  const LongRun run;
  REQUIRE(run_trainrt(run.arguments("whole")).code == 0);
  const int signal = GENERATE(SIGINT, SIGTERM);
  BackgroundProgram stopped(run.arguments("stopped"));
  run.let_run("stopped", 5);
  stopped.signal(signal);
  CHECK(stopped.wait() == 0);
  CHECK(std::filesystem::exists(run.folder.file("stopped.onnx")));
  REQUIRE(run_trainrt(run.resumed("stopped")).code == 0);
  CHECK(run.result("stopped") == run.result("whole"));
}

TEST_CASE("a finished run resumes to nothing new", "[cli]") {
  const LongRun run;
  REQUIRE(run_trainrt(run.arguments("a")).code == 0);
  const std::string before = run.result("a");
  const ProgramResult again = run_trainrt(run.resumed("a"));
  REQUIRE(again.code == 0);
  CHECK(run.result("a") == before);
  CHECK_THAT(again.out, ContainsSubstring("resumed after step 240"));
}

TEST_CASE("resuming with other data or seed is refused", "[cli]") {
  const LongRun run;
  REQUIRE(run_trainrt(run.arguments("a")).code == 0);
  Arguments batch = run.resumed("a"), seed = run.resumed("a");
  *(std::find(batch.begin(), batch.end(), "--batch") + 1) = "6";
  *(std::find(seed.begin(), seed.end(), "--seed") + 1) = "6";
  const ProgramResult other_batch = run_trainrt(batch), other_seed = run_trainrt(seed);
  CHECK(other_batch.code == 1);
  CHECK_THAT(other_batch.err, ContainsSubstring("other data"));
  CHECK(other_seed.code == 2);
  CHECK_THAT(other_seed.err, ContainsSubstring("with seed 5"));
}

TEST_CASE("a damaged checkpoint is refused", "[cli]") {
  const LongRun run;
  REQUIRE(run_trainrt(run.arguments("a")).code == 0);
  std::string bytes = TemporaryFolder::read(run.folder.file("a.ckpt"));
  bytes[bytes.size() / 2] ^= 1;
  run.folder.write("a.ckpt", bytes);
  const ProgramResult damaged = run_trainrt(run.resumed("a"));
  CHECK(damaged.code == 1);
  CHECK_THAT(damaged.err, ContainsSubstring("a.ckpt"));
  run.folder.write("a.ckpt", bytes.substr(0, 100));
  CHECK(run_trainrt(run.resumed("a")).code == 1);
}

}  // namespace
}  // namespace trainrt
