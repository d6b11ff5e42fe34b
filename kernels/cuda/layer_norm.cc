// LayerNorm and RmsNorm with their gradients.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> layer_norm_rows() { return {}; }

}  // namespace trainrt::cuda
