#include "trainrt/dlpack.h"

#include <dlpack/dlpack.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/runtime/gpu_source.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using namespace testing;

TEST_CASE("state on the GPU is lent without a copy, and comes back with one") {
  Module module = load(mlp_model(), on_gpu());
  TrainerOptions options;
  options.losses = {"mean"};
  Trainer trainer(module, options);
  trainer.step({{"x", numbers({5, 4}, 1, DType::kFloat32)}});
  const Tensor want = module.get_parameter("fc1.weight").value().clone();

  DLManagedTensorVersioned* lent = state_to_dlpack(module, "fc1.weight");
  CHECK(lent->dl_tensor.device.device_type == kDLCUDA);
  CHECK(lent->dl_tensor.device.device_id == 0);
  CHECK(lent->dl_tensor.ndim == 2);
  const std::string text = failure([&] { from_dlpack(lent); }, ErrorCode::kInput);
  CHECK(contains(text, "cuda:0"));
  const Tensor copy = from_dlpack(lent, DlpackCopy::kIfNeeded);
  CHECK(largest_difference(copy, want) == 0);

  // Twice the same memory; it outlives the module's stay on the GPU.
  DLManagedTensorVersioned *a = state_to_dlpack(module, "fc1.weight"),
                           *b = state_to_dlpack(module, "fc1.weight");
  CHECK(a->dl_tensor.data == b->dl_tensor.data);
  module.cpu();
  CHECK(largest_difference(from_dlpack(a, DlpackCopy::kAlways), want) == 0);
  b->deleter(b);

  DLManagedTensorVersioned* host = state_to_dlpack(module, "fc1.weight");
  CHECK(host->dl_tensor.device.device_type == kDLCPU);
  CHECK(host->dl_tensor.data == module.get_parameter("fc1.weight").value().raw());
  host->deleter(host);
  failure([&] { state_to_dlpack(module, "no such"); }, ErrorCode::kUsage);
}

TEST_CASE("a strided tensor of a GPU is copied to dense rows") {
  Module module = load(mlp_model(), on_gpu());
  const Tensor weight = module.get_parameter("fc1.weight").value().clone();  // [4, 8]
  DLManagedTensorVersioned* lent = state_to_dlpack(module, "fc1.weight");
  // Its transpose, rows from the last to the first.
  int64_t shape[] = {8, 4}, strides[] = {-1, 8};
  lent->dl_tensor.shape = shape;
  lent->dl_tensor.strides = strides;
  lent->dl_tensor.byte_offset = 7 * sizeof(float);
  const Tensor copy = from_dlpack(lent, DlpackCopy::kIfNeeded);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      CHECK(copy.data<float>()[i * 4 + j] == weight.data<float>()[j * 8 + 7 - i]);
    }
  }
}

}  // namespace
}  // namespace trainrt
