// Dropout and random numbers: the bits of the CPU.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> random_rows() { return {}; }

}  // namespace trainrt::cuda
