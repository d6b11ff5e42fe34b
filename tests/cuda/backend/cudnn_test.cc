// cuDNN is asked which engines it would run the calls with on devices of which there is none here.
#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "kernels/cuda/backend/cudnn_graphs.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

/// Engines that are compiled at run time ask for the driver, which the toolkit has a stand-in for.
const bool kDriver = dlopen(TRAINRT_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) != nullptr;

constexpr int kCapabilities[] = {80, 90};

template <typename Call>
void check_engines(const Call& call) {
  for (const int capability : kCapabilities) {
    INFO("compute capability " << capability);
    try {
      CHECK(cuda::CudnnGraph(call, capability).engines_without_device() > 0);
    } catch (const Error& e) {
      FAIL_CHECK(std::string(e.what()).substr(0, 1500));
    }
  }
}

gpu::ConvCall conv(gpu::ConvPass pass, DType type, bool last = false) {
  gpu::ConvCall call;
  call.pass = pass;
  call.x = {8, 32, 28, 28};
  call.w = {64, 32, 3, 3};
  call.y = {8, 64, 14, 14};
  call.strides = {2, 2};
  call.dilations = {1, 1};
  call.pads_begin = {1, 1};
  call.pads_end = {1, 1};
  call.x_type = call.w_type = call.y_type = type;
  call.channels_last = last;
  return call;
}

constexpr gpu::ConvPass kPasses[] = {gpu::ConvPass::kForward, gpu::ConvPass::kData,
                                     gpu::ConvPass::kWeight};

TEST_CASE("convolutions find engines") {
  for (const gpu::ConvPass pass : kPasses) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const bool last : {false, true}) {
        INFO("pass " << static_cast<int>(pass) << " " << dtype_name(type) << " " << last);
        check_engines(conv(pass, type, last));
        if (type == DType::kFloat32) {
          gpu::ConvCall tf32 = conv(pass, type, last);
          tf32.products = gpu::Products::kTf32;
          check_engines(tf32);
        }
      }
    }
  }
}

TEST_CASE("one spatial dim, groups and a bias with ReLU") {
  for (const gpu::ConvPass pass : kPasses) {
    gpu::ConvCall line = conv(pass, DType::kFloat32);
    line.x = {4, 16, 100};
    line.w = {24, 16, 5};
    line.y = {4, 24, 96};
    line.strides = line.dilations = {1};
    line.pads_begin = line.pads_end = {0};
    check_engines(line);
    gpu::ConvCall grouped = conv(pass, DType::kFloat32);
    grouped.group = 4;
    grouped.w = {64, 8, 3, 3};
    check_engines(grouped);
  }
  gpu::ConvCall fused = conv(gpu::ConvPass::kForward, DType::kBFloat16, true);
  fused.bias = fused.relu = true;
  check_engines(fused);
}

TEST_CASE("attention and its gradient find engines") {
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      gpu::AttentionCall call;
      call.backward = backward;
      call.batch = 2;
      call.heads = call.kv_heads = 4;
      call.queries = call.keys = 128;
      call.size = call.value_size = 64;
      call.scale = 0.125;
      call.causal = causal;
      const gpu::AttentionCall::Operand token_major{128 * 4 * 64, 64, 4 * 64};
      call.q = call.k = call.v = call.y = call.dy = call.dq = call.dk = call.dv = token_major;
      INFO("backward " << backward << " causal " << causal);
      check_engines(call);
    }
  }
}

TEST_CASE("a call that makes no sense is refused with a reason") {
  gpu::ConvCall call = conv(gpu::ConvPass::kForward, DType::kFloat32);
  call.y_type = call.x_type = call.w_type = DType::kFloat64;
  CHECK_THROWS_AS(cuda::CudnnGraph(call), Error);
}

}  // namespace
}  // namespace trainrt
