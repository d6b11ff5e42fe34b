// Cells of recurrent layers: what happens between a step's products, on units [0, n) of one sample.
#ifndef TRAINRT_KERNELS_CPU_RECURRENT_CELLS_H_
#define TRAINRT_KERNELS_CPU_RECURRENT_CELLS_H_

#include <cstdint>

namespace trainrt {

/// Parts of rows that hold several gates lie `width` apart. `h0` and `c0` are the state before the
/// step. The formulas are those of the kernels in recurrent.cc.
struct RecurrentCells {
  /// gates (i o f g), c and y from the step's x and its recurrent `product`
  void (*lstm)(const float* x, const float* product, const float* c0, float* gates, float* c,
               float* y, int64_t width, int64_t n);
  /// dx, and dc to that of the step before; `cell_gradient` (may be null) is added to dc first
  void (*lstm_grad)(const float* dy, const float* dh, const float* cell_gradient, const float* c0,
                    const float* c, const float* gates, float* dx, float* dc, int64_t width,
                    int64_t n);

  /// All of a step whose reset gate scales the product; gates are z, r, n, q.
  void (*gru_linear)(const float* x, const float* product, const float* bias, const float* h0,
                     float* gates, float* y, int64_t width, int64_t n);
  /// Reset first: z, r and q = r h', then, with `product` that of q, n and y.
  void (*gru_reset)(const float* x, const float* product, const float* bias, const float* h0,
                    float* gates, int64_t width, int64_t n);
  void (*gru_fresh)(const float* x, const float* product, const float* bias, const float* h0,
                    float* gates, float* y, int64_t width, int64_t n);
  /// dx, the gradient `dr` of the recurrent parts, and dh to its share before the products
  void (*gru_linear_grad)(const float* dy, const float* h0, const float* gates, float* dx,
                          float* dr, float* dh, int64_t width, int64_t n);
  /// Reset first: dx of z and n, and dh; then, given q's gradient dq, dx of r, and dh.
  void (*gru_fresh_grad)(const float* dy, const float* h0, const float* gates, float* dx, float* dh,
                         int64_t width, int64_t n);
  void (*gru_reset_grad)(const float* dq, const float* h0, const float* gates, float* dx, float* dh,
                         int64_t width, int64_t n);
};

/// For the best target of this processor.
const RecurrentCells& recurrent_cells();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_RECURRENT_CELLS_H_
