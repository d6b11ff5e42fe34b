// Vectorised steps of pooling: one tap of the window over a row of outputs.
#ifndef TRAINRT_KERNELS_CPU_POOL_ROWS_H_
#define TRAINRT_KERNELS_CPU_POOL_ROWS_H_

#include <cstdint>

namespace trainrt {

/// In all steps output j in [begin, end) meets input x[j * stride + offset], which lies inside the
/// row of `size` inputs. NaN counts as the largest value.
struct PoolRows {
  /// best[j] = max(best[j], input)
  void (*max)(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
              int64_t end, float* best);
  /// As max; where the input is larger, or at[j] is negative, at[j] = base + j * stride + offset.
  void (*arg_max)(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
                  int64_t end, int32_t base, float* best, int32_t* at);
  /// sum[j] += input
  void (*add)(const float* x, int64_t size, int64_t stride, int64_t offset, int64_t begin,
              int64_t end, float* sum);
};

const PoolRows& pool_rows_of_target();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_POOL_ROWS_H_
