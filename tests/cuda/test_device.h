// The GPU that tests run on: the emulated one, or with TRAINRT_TEST_DEVICE=cuda[:N] a real one.
#ifndef TRAINRT_TESTS_CUDA_TEST_DEVICE_H_
#define TRAINRT_TESTS_CUDA_TEST_DEVICE_H_

#include "kernels/gpu.h"

namespace trainrt::testing {

gpu::Device& test_device();
bool on_real_device();

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_CUDA_TEST_DEVICE_H_
