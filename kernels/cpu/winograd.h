// The parts of a Winograd convolution F(4x4, 3x3) on blocks of 16 channels (Lavin and Gray, "Fast
// algorithms for convolutional neural networks", 2015): 36 products of matrices for each 4x4 tile
// of outputs in place of 144.
#ifndef TRAINRT_KERNELS_CPU_WINOGRAD_H_
#define TRAINRT_KERNELS_CPU_WINOGRAD_H_

#include <cstdint>

namespace trainrt {

inline constexpr int64_t kWinogradPoints = 36;  // of a transformed tile
inline constexpr int64_t kWinogradPanel = 64;   // output channels of a panel of weights
inline constexpr int64_t kWinogradRows = 6;     // tiles that a product takes at once

/// Activations of one image as tiles: 4x4 on the side of the results, 6x6, overlapping by two, on
/// the side of the operands.
struct WinogradImage {
  int64_t channels, height, width;  // channels are a multiple of 16
  int64_t pad_top, pad_left;        // of the operands' tiles; 0 for results
  int64_t tiles_down, tiles_across;
};

/// Weights [outputs, inputs, 3, 3], or their adjoint: the same memory read with the roles of the
/// channels swapped and the taps turned round.
struct WinogradWeights {
  const float* w;
  int64_t output_stride, input_stride;  // of neighbouring channels
  bool turned;
};

struct WinogradOps {
  /// v[point][block][tile][16] of tiles [first, first + count) of a batch, for blocks [from, to);
  /// `tiles` is the room for tiles in v.
  void (*transform_input)(const WinogradImage& x, const float* data, int64_t first, int64_t count,
                          int64_t tiles, int64_t from, int64_t to, float* v);
  /// The same for gradients of the results: the adjoint of transform_output.
  void (*transform_gradient)(const WinogradImage& y, const float* data, int64_t first,
                             int64_t count, int64_t tiles, int64_t from, int64_t to, float* v);
  /// Writes tiles of blocks [from, to) from m[point][block - from][tile][16]; `point` is the
  /// distance of points in m. bias may be null.
  void (*transform_output)(const WinogradImage& y, const float* m, int64_t point, int64_t first,
                           int64_t count, int64_t tiles, int64_t from, int64_t to,
                           const float* bias, bool relu, float* data);
  /// u[point][input][width] for inputs [from, to) and `width` outputs from `output` on; `point` is
  /// the distance of points in u.
  void (*transform_weights)(const WinogradWeights& w, int64_t output, int64_t width, int64_t from,
                            int64_t to, int64_t point, float* u);
  /// m[block][tile][16] = or += sum over `inputs` channels of v[block][tile][channel]
  /// u[channel][width] for `rows` tiles, a multiple of kWinogradRows.
  void (*product)(const float* v, const float* u, int64_t inputs, int64_t width, int64_t rows,
                  int64_t tiles, bool add, float* m);
  /// d[c][width] = or += sum over tiles of v[tile][c] z[block][tile][16], four channels c.
  void (*weight_product)(const float* v, const float* z, int64_t width, int64_t count,
                         int64_t tiles, bool add, float* d);
  /// Gradients of the weights of four inputs and `width` outputs from d[point][4][width].
  void (*weight_gradient)(const float* d, int64_t input, int64_t output, int64_t width,
                          int64_t inputs, float* dw);
};

/// For the best target of this processor.
const WinogradOps& winograd_ops();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_WINOGRAD_H_
