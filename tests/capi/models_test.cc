// Inputs of other kinds through the C API (bools, sequences, nothing at all), and what becomes of
// exceptions.
#include "tests/runtime/models.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/capi/errors.h"
#include "tests/frontend/model_util.h"
#include "trainrt/trainrt_c.h"

namespace trainrt {
namespace {

/// Module of a model in memory, freed at the end.
class Loaded {
 public:
  explicit Loaded(const std::string& bytes) {
    REQUIRE(trainrt_module_load_memory(bytes.data(), bytes.size(), nullptr, nullptr, &module_) ==
            TRAINRT_OK);
    REQUIRE(trainrt_module_train(module_, 0) == TRAINRT_OK);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { trainrt_module_free(module_); }
  operator trainrt_module*() const { return module_; }

 private:
  trainrt_module* module_ = nullptr;
};

/// The floats of the first output.
std::vector<float> forward(trainrt_module* module, const std::vector<trainrt_array>& inputs) {
  trainrt_arrays* outputs = nullptr;
  const trainrt_status status =
      trainrt_module_forward(module, inputs.data(), static_cast<int64_t>(inputs.size()), &outputs);
  INFO(trainrt_last_error());
  REQUIRE(status == TRAINRT_OK);
  trainrt_array first;
  REQUIRE(trainrt_arrays_get(outputs, 0, &first) == TRAINRT_OK);
  REQUIRE(first.dtype == TRAINRT_FLOAT32);
  std::vector<float> values(first.bytes / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), first.data, first.bytes);
  REQUIRE(trainrt_arrays_free(outputs) == TRAINRT_OK);
  return values;
}

std::string mask_model() {
  return model_bytes(
      graph_text("g (bool[n] keep, float[n] x) => (float[m] y) <float[1] w = {2}>"
                 "{ k = Compress<axis = 0>(x, keep) y = Mul(k, w) }"));
}

trainrt_array array_of(const char* name, const void* data, size_t bytes, const int64_t& count,
                       int32_t dtype) {
  return {name, data, bytes, &count, 1, dtype};
}

TEST_CASE("any byte but 0 is a true bool") {
  const Loaded module(mask_model());
  const std::vector<uint8_t> keep = {0, 1, 2, 255};
  const std::vector<float> x = {1, 2, 3, 4};
  const int64_t count = 4;
  CHECK(forward(module, {array_of("keep", keep.data(), 4, count, TRAINRT_BOOL),
                         array_of("x", x.data(), 16, count, TRAINRT_FLOAT32)}) ==
        std::vector<float>{4, 6, 8});
}

TEST_CASE("memory that a call was given can be freed afterwards") {
  const Loaded module(mask_model());
  const std::vector<float> x(100, 1);
  const int64_t count = 100;
  for (size_t kept = 1; kept < 4; ++kept) {
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second finds the plan made
      std::vector<uint8_t> keep(100);
      for (size_t i = 0; i < kept; ++i) keep[i] = 1;
      CHECK(forward(module, {array_of("keep", keep.data(), 100, count, TRAINRT_BOOL),
                             array_of("x", x.data(), 400, count, TRAINRT_FLOAT32)}) ==
            std::vector<float>(kept, 2));
    }
  }
}

TEST_CASE("a sequence goes in by its entries, of any number") {
  const Loaded module(testing::sequence_model());
  trainrt_port port;
  REQUIRE(trainrt_module_input(module, 0, &port) == TRAINRT_OK);
  CHECK(port.is_sequence == 1);
  const std::vector<float> ones = {1, 1};
  const int64_t shape[2] = {1, 2};
  const trainrt_array entry = {"xs[0]", ones.data(), 8, shape, 2, TRAINRT_FLOAT32};
  CHECK(forward(module, {entry}).size() == 2);
  trainrt_arrays* outputs = nullptr;
  REQUIRE(trainrt_module_forward(module, nullptr, 0, &outputs) == TRAINRT_OK);
  int64_t count = -1;
  CHECK(trainrt_arrays_count(outputs, &count) == TRAINRT_OK);
  CHECK(count == 0);
  CHECK(trainrt_arrays_free(outputs) == TRAINRT_OK);
}

TEST_CASE("a batch of no samples needs no memory") {
  const Loaded module(testing::mlp_model());
  const int64_t shape[2] = {0, 4};
  CHECK(forward(module, {{"x", nullptr, 0, shape, 2, TRAINRT_FLOAT32}}).empty());
}

TEST_CASE("gradients of some outputs only") {
  const Loaded module(testing::two_output_model());
  REQUIRE(trainrt_module_train(module, 1) == TRAINRT_OK);
  const std::vector<float> x = {1, 2, 3, 4}, dy = {1, 1, 1, 1};
  const int64_t shape[2] = {2, 2};
  forward(module, {{"x", x.data(), 16, shape, 2, TRAINRT_FLOAT32}});
  const trainrt_array grad = {"a", dy.data(), 16, shape, 2, TRAINRT_FLOAT32};
  REQUIRE(trainrt_module_backward(module, &grad, 1) == TRAINRT_OK);
  float dw[2] = {0, 0};
  REQUIRE(trainrt_module_get_grad(module, "w", dw, sizeof dw, nullptr) == TRAINRT_OK);
  CHECK(dw[0] == 1 + 3);
  CHECK(dw[1] == 2 + 4);
}

TEST_CASE("every exception becomes a status with a message") {
  using capi::guarded;
  CHECK(guarded([] {}) == TRAINRT_OK);
  CHECK(guarded([] { throw std::bad_alloc(); }) == TRAINRT_ERROR_MEMORY);
  CHECK(trainrt_last_error() == std::string("out of memory"));
  CHECK(guarded([] { throw std::length_error("odd"); }) == TRAINRT_ERROR_INTERNAL);
  CHECK(trainrt_last_error() == std::string("internal error: odd"));
  CHECK(guarded([] { throw 7; }) == TRAINRT_ERROR_INTERNAL);
  CHECK(trainrt_last_error_code() == TRAINRT_ERROR_INTERNAL);
  const std::vector<std::pair<ErrorCode, trainrt_status>> codes = {
      {ErrorCode::kUsage, TRAINRT_ERROR_USAGE},
      {ErrorCode::kFile, TRAINRT_ERROR_FILE},
      {ErrorCode::kInvalidModel, TRAINRT_ERROR_INVALID_MODEL},
      {ErrorCode::kUnsupported, TRAINRT_ERROR_UNSUPPORTED},
      {ErrorCode::kInput, TRAINRT_ERROR_INPUT},
      {ErrorCode::kRuntime, TRAINRT_ERROR_RUNTIME},
      {ErrorCode::kMemory, TRAINRT_ERROR_MEMORY},
      {ErrorCode::kInternal, TRAINRT_ERROR_INTERNAL}};
  for (const auto& [code, status] : codes) {
    CHECK(guarded([&] { throw Error(code, "text"); }) == status);
    CHECK(trainrt_last_error() == std::string("text"));
    CHECK(trainrt_status_name(status) == std::string(error_code_name(code)));
  }
}

}  // namespace
}  // namespace trainrt
