// Determinants and cofactors of small matrices.
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::span<const KernelRow> determinant_rows() { return {}; }

}  // namespace trainrt::cuda
