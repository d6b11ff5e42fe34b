#include <vector>

#include "kernels/cuda/rows.h"

namespace trainrt {

std::span<const KernelRow> cuda_kernels() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const auto family : {
             cuda::matmul_rows,     cuda::conv_rows,        cuda::attention_rows,
             cuda::recurrent_rows,  cuda::elementwise_rows, cuda::fused_rows,
             cuda::reduce_rows,     cuda::softmax_rows,     cuda::layer_norm_rows,
             cuda::batch_norm_rows, cuda::loss_rows,        cuda::movement_rows,
             cuda::indexing_rows,   cuda::pool_rows,        cuda::interpolate_rows,
             cuda::random_rows,     cuda::state_rows,       cuda::source_rows,
             cuda::scan_rows,       cuda::roi_rows,         cuda::determinant_rows,
         }) {
      const auto part = family();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace trainrt
