// Ops that only move elements.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> movement_rows() { return {}; }

}  // namespace trainrt::cuda
