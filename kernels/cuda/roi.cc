// Bins of regions of an image.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> roi_rows() { return {}; }

}  // namespace trainrt::cuda
