// Lets sessions find the tests' GPU.
#ifndef TRAINRT_TESTS_CUDA_RUNTIME_GPU_SOURCE_H_
#define TRAINRT_TESTS_CUDA_RUNTIME_GPU_SOURCE_H_

#include "tests/cuda/emulator/device.h"
#include "trainrt/module.h"

namespace trainrt::testing {

/// Options for a module on the emulated GPU, or with TRAINRT_TEST_DEVICE on a real one.
ModuleOptions on_gpu(DType dtype = DType::kFloat32);
/// Of the emulated GPU that sessions use now; null on a real one. Shared as long as a session
/// lives.
const EmulatedCounts* gpu_counts();

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_CUDA_RUNTIME_GPU_SOURCE_H_
