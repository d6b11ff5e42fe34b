// Losses by class ids and their gradients.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> loss_rows() { return {}; }

}  // namespace trainrt::cuda
