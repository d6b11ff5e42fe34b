// The C API from several threads: last errors are each thread's own, calls on one module wait for
// each other, and a handle may be freed while others use it.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

#include "trainrt/trainrt_c.h"

namespace {

const char* const kModel = "examples/digits/digits.onnx";

struct Digits {
  std::vector<float> x = std::vector<float>(size_t{4} * 64, 0.5f);
  std::vector<int64_t> target = {1, 2, 3, 4};
  std::vector<int64_t> x_shape = {4, 1, 8, 8}, target_shape = {4};
  std::vector<trainrt_array> batch = {
      {"x", x.data(), x.size() * 4, x_shape.data(), 4, TRAINRT_FLOAT32},
      {"target", target.data(), target.size() * 8, target_shape.data(), 1, TRAINRT_INT64}};
};

TEST_CASE("each thread has a last error of its own") {
  trainrt_clear_error();
  CHECK(trainrt_options_set(nullptr, "seed", "1") == TRAINRT_ERROR_HANDLE);
  std::string other = "unset";
  std::thread([&] {
    other = trainrt_last_error();
    trainrt_options_create(nullptr);
  }).join();
  CHECK(other.empty());
  CHECK(trainrt_last_error_code() == TRAINRT_ERROR_HANDLE);
}

TEST_CASE("calls on one module from many threads wait for each other") {
  trainrt_module* module = nullptr;
  trainrt_trainer* trainer = nullptr;
  REQUIRE(trainrt_module_load(kModel, nullptr, &module) == TRAINRT_OK);
  REQUIRE(trainrt_trainer_create(module, nullptr, &trainer) == TRAINRT_OK);
  constexpr int kThreads = 4, kSteps = 10;
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Digits digits;
      for (int k = 0; k < kSteps; ++k) {
        if (i % 2 == 0) {
          failures += trainrt_trainer_step(trainer, digits.batch.data(), 2, nullptr) != TRAINRT_OK;
        } else {
          trainrt_arrays* outputs = nullptr;
          failures +=
              trainrt_module_forward(module, digits.batch.data(), 1, &outputs) != TRAINRT_OK;
          failures += trainrt_arrays_free(outputs) != TRAINRT_OK;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  int64_t steps = 0;
  CHECK(trainrt_trainer_steps_done(trainer, &steps) == TRAINRT_OK);
  CHECK(steps == kThreads / 2 * kSteps);
  CHECK(trainrt_trainer_free(trainer) == TRAINRT_OK);
  CHECK(trainrt_module_free(module) == TRAINRT_OK);
}

TEST_CASE("a module freed while another thread uses it ends in an error there") {
  trainrt_module* module = nullptr;
  REQUIRE(trainrt_module_load(kModel, nullptr, &module) == TRAINRT_OK);
  std::atomic<int> good = 0;
  trainrt_status last = TRAINRT_OK;
  std::thread thread([&] {
    Digits digits;
    while (last == TRAINRT_OK) {
      trainrt_arrays* outputs = nullptr;
      last = trainrt_module_forward(module, digits.batch.data(), 1, &outputs);
      trainrt_arrays_free(outputs);
      ++good;
    }
  });
  while (good < 3) std::this_thread::yield();
  CHECK(trainrt_module_free(module) == TRAINRT_OK);
  thread.join();
  CHECK(last == TRAINRT_ERROR_HANDLE);
}

}  // namespace
