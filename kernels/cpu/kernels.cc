#include <vector>

#include "kernels/cpu/rows.h"

namespace trainrt {

std::span<const KernelRow> cpu_kernels() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const auto family : {
             matmul_rows,
             winograd_rows,
             depthwise_rows,
             conv_amx_rows,
             conv_rows,
             activation_rows,
             attention_rows,
             unary_rows,
             binary_rows,
             cast_rows,
             fused_rows,
             reduce_rows,
             softmax_rows,
             cross_entropy_rows,
             layer_norm_rows,
             batch_norm_rows,
             batch_norm_blocked_rows,
             reorder_rows,
             pool_blocked_rows,
             copy_rows,
             transpose_rows,
             gather_rows,
             dropout_rows,
             pool_rows,
             interpolate_rows,
             optimizer_rows,
             recurrent_rows,
             norm_conv_rows,
         }) {
      const auto part = family();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace trainrt
