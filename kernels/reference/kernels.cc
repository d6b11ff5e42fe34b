#include "kernels/reference/common.h"

namespace trainrt {
namespace {

std::vector<KernelRow> all_rows() {
  using namespace reference;
  std::vector<KernelRow> rows;
  for (std::span<const KernelRow> family : {
           reference_source_kernels(),      reference_unary_kernels(),
           reference_cast_kernels(),        reference_binary_kernels(),
           reference_shape_kernels(),       reference_pad_kernels(),
           reference_indexing_kernels(),    reference_reduction_kernels(),
           reference_scan_kernels(),        reference_matmul_kernels(),
           reference_determinant_kernels(), reference_conv_kernels(),
           reference_pool_kernels(),        reference_interpolate_kernels(),
           reference_roi_kernels(),         reference_softmax_kernels(),
           reference_norm_kernels(),        reference_loss_kernels(),
           reference_random_kernels(),      reference_state_kernels(),
           reference_fused_kernels(),       reference_attention_kernels(),
           reference_recurrent_kernels(),   reference_norm_conv_kernels(),
           reference_call_kernels(),
       }) {
    rows.insert(rows.end(), family.begin(), family.end());
  }
  return rows;
}

}  // namespace

std::span<const KernelRow> reference_kernels() {
  static const std::vector<KernelRow> rows = all_rows();
  return rows;
}

}  // namespace trainrt
