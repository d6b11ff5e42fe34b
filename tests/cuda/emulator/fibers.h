// Runs kernels of emulated device code: blocks one after the other, the threads of a block as
// fibers.
#ifndef TRAINRT_TESTS_CUDA_EMULATOR_FIBERS_H_
#define TRAINRT_TESTS_CUDA_EMULATOR_FIBERS_H_

#include <string>
#include <vector>

#include "kernels/gpu.h"
#include "tests/cuda/emulator/cuda.h"

namespace trainrt_emulated {

using KernelFunction = void (*)(const void* arguments);

/// A kernel that is linked in; null when there is none of this name.
KernelFunction find_kernel(const std::string& name);
std::vector<std::string> kernel_names();

/// What kernels see of the block and thread that runs.
Context* current_context();

/// Throws std::runtime_error where CUDA leaves open what happens: a barrier that not every thread
/// of the block or warp reaches, more than 256 threads. `backwards`: threads run from the last to
/// the first, which shows missing barriers.
void run_kernel(KernelFunction kernel, trainrt::gpu::Size3 grid, unsigned threads,
                const void* arguments, bool backwards);

}  // namespace trainrt_emulated

#endif  // TRAINRT_TESTS_CUDA_EMULATOR_FIBERS_H_
