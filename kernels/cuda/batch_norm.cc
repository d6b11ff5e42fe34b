// BatchNorm and its gradient.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> batch_norm_rows() { return {}; }

}  // namespace trainrt::cuda
