// Vectorised operations on rows of floats, from which the kernels of reductions, norms, softmax
// and resampling are made.
#ifndef TRAINRT_KERNELS_CPU_VECTOR_OPS_H_
#define TRAINRT_KERNELS_CPU_VECTOR_OPS_H_

#include <cstdint>

namespace trainrt {

/// Sums run in float32 over blocks of 64 vectors, whose sums are added in double. Functions on
/// columns read `rows` rows that lie `stride` apart and give one result per column; they add up 64
/// rows at a time. An output row may be an input row.
struct VectorOps {
  double (*sum)(const float* x, int64_t n);
  double (*max)(const float* x, int64_t n);  // NaN when there is one; -inf for n = 0
  double (*min)(const float* x, int64_t n);
  double (*dot)(const float* x, const float* y, int64_t n);
  /// sum of (x - mean)^2
  double (*square_deviation)(const float* x, float mean, int64_t n);
  /// sum of (x - mean) y
  double (*deviation_dot)(const float* x, float mean, const float* y, int64_t n);
  /// sum of e^(x - shift)
  double (*exp_sum)(const float* x, float shift, int64_t n);
  /// out = e^(x - shift); their sum
  double (*exp_store)(const float* x, float shift, float* out, int64_t n);

  /// out = a x + b
  void (*affine)(const float* x, float a, float b, float* out, int64_t n);
  /// out = a (x - mean) + b
  void (*centered)(const float* x, float mean, float a, float b, float* out, int64_t n);
  /// out = a (x - mean) + b y + c
  void (*centered2)(const float* x, float mean, float a, const float* y, float b, float c,
                    float* out, int64_t n);
  /// out += a x
  void (*add_scaled)(const float* x, float a, float* out, int64_t n);
  /// out = (x - mean) rsd scale[j] + bias[j]; scale and bias may be null
  void (*normalize)(const float* x, float mean, float rsd, const float* scale, const float* bias,
                    float* out, int64_t n);
  /// out = (dy - d) y
  void (*softmax_grad)(const float* dy, const float* y, float d, float* out, int64_t n);
  /// out = dy - e^y d
  void (*log_softmax_grad)(const float* dy, const float* y, float d, float* out, int64_t n);
  /// out = a e^(x - shift)
  void (*exp_scaled)(const float* x, float shift, float a, float* out, int64_t n);

  /// With g = dy scale[j] (scale may be null) and z = (x - mean) rsd: *g_sum = sum g, *gz_sum = sum
  /// g z.
  void (*layer_norm_sums)(const float* dy, const float* x, const float* scale, float mean,
                          float rsd, int64_t n, double* g_sum, double* gz_sum);
  /// dx = rsd (g - a - z b); adds dy z to dscale and dy to dbias unless those are null.
  void (*layer_norm_grad)(const float* dy, const float* x, const float* scale, float mean,
                          float rsd, float a, float b, float* dx, float* dscale, float* dbias,
                          int64_t n);

  void (*column_sum)(const float* x, int64_t rows, int64_t stride, float* out, int64_t n);
  void (*column_max)(const float* x, int64_t rows, int64_t stride, float* out, int64_t n);
  void (*column_min)(const float* x, int64_t rows, int64_t stride, float* out, int64_t n);
  void (*column_dot)(const float* x, const float* y, int64_t rows, int64_t stride, float* out,
                     int64_t n);
  void (*column_square_deviation)(const float* x, const float* mean, int64_t rows, int64_t stride,
                                  float* out, int64_t n);
  void (*column_deviation_dot)(const float* x, const float* mean, const float* y, int64_t rows,
                               int64_t stride, float* out, int64_t n);

  // Elementwise over two or more rows.
  void (*add)(const float* x, const float* y, float* out, int64_t n);
  void (*max2)(const float* x, const float* y, float* out, int64_t n);
  void (*min2)(const float* x, const float* y, float* out, int64_t n);
  void (*multiply)(const float* x, const float* y, float* out, int64_t n);
  /// out = a[j] x + b[j]
  void (*affine_rows)(const float* x, const float* a, const float* b, float* out, int64_t n);
  /// out = a[j] (x - mean[j]) + b[j]
  void (*centered_rows)(const float* x, const float* mean, const float* a, const float* b,
                        float* out, int64_t n);
  /// out = a[j] (x - mean[j]) + b[j] y + c[j]
  void (*centered2_rows)(const float* x, const float* mean, const float* a, const float* y,
                         const float* b, const float* c, float* out, int64_t n);
  /// out = e^(x - shift[j]), added to sum[j]; out may be null
  void (*exp_rows)(const float* x, const float* shift, float* out, float* sum, int64_t n);
  /// out = a[j] e^(x - shift[j])
  void (*exp_scaled_rows)(const float* x, const float* shift, const float* a, float* out,
                          int64_t n);
  /// out = (dy - d[j]) y
  void (*softmax_grad_rows)(const float* dy, const float* y, const float* d, float* out, int64_t n);
  /// out = dy - e^y d[j]
  void (*log_softmax_grad_rows)(const float* dy, const float* y, const float* d, float* out,
                                int64_t n);
};

/// For the best target of this processor.
const VectorOps& vector_ops();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_VECTOR_OPS_H_
