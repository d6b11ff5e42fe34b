// Convolutions of bfloat16 activations in nChw16c and their gradients by the tile unit of x86
// processors. Activations are packed once per pass to padded planes; in them every tap of the
// filter is a shift, and sums of 16 pixels by 16 channels are pieces of nChw16c as they lie.
#ifndef TRAINRT_KERNELS_CPU_AMX_CONV_H_
#define TRAINRT_KERNELS_CPU_AMX_CONV_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainrt {

/// y[n, f, i, j] = sum over c, a, b of w[f, c, a, b] x[n, c, i stride - pad + a dilation, …]; pairs
/// are (rows, columns).
struct AmxConvShape {
  using Pair = std::array<int64_t, 2>;
  int64_t batch, channels, filters;
  Pair x, y, kernel, strides, dilations, pads;  // pads at the beginning
  /// x is plain, and a row of a filter has up to kAmxRow values: a pixel of the operand is then
  /// what such a row meets, and the filter is a column of them.
  bool plain_x = false;
};
inline constexpr int64_t kAmxRow = 32;

/// How a result's pixels come from the pixels of an operand. The operand lies in planes, one for
/// each phase of its step: row j of a plane is row j * in_step + phase - origin of the image, or
/// zeros. A group of results is a grid: its pixel (u, v) is pixel (u, v) * out_step + at of the
/// image.
struct AmxTaps {
  using Pair = AmxConvShape::Pair;
  struct Tap {
    int64_t filter;  // place in the filter
    int64_t plane;
    Pair shift;  // from the result's place in the grid to the operand's in the plane
  };
  struct Group {
    Pair at, size;
    int64_t first, count;  // taps
  };
  Pair in, out;  // of the images
  Pair in_step = {1, 1}, out_step = {1, 1}, origin = {0, 0}, grid = {0, 0}, reach = {0, 0};
  int64_t pitch = 0;          // pixels of a plane's row
  std::vector<Pair> planes;   // their phases
  std::vector<Tap> taps;      // by group
  std::vector<Group> groups;  // one, or one for each phase of out_step
};

/// Forward, or, unless x is plain, the gradient to it; for processors where cpu_has_amx(). The
/// results do not depend on the number of threads. An infinity or NaN in w spreads to all results
/// of its channel, one in the operand to those whose window holds it.
class AmxConv {
 public:
  AmxConv(const AmxConvShape& shape, bool data_grad, bool out_bf16, bool relu);

  /// Bytes of scratch that run() wants, 64-byte aligned.
  size_t scratch_bytes() const { return scratch_; }
  /// `bias` may be null; `in` and `out` are in nChw16c, w is plain.
  void run(const uint16_t* in, const uint16_t* w, const float* bias, void* out,
           void* scratch) const;

 private:
  friend struct AmxConvRun;
  AmxConvShape given_, s_;  // s_: with rows as pixels when x is plain
  AmxTaps taps_;
  bool data_grad_, out_bf16_, relu_;
  int64_t in_channels_, out_channels_, depths_, pairs_;
  int64_t windows_ = 0;  // of an image
  int64_t rows_ = 0;     // of the grid in a window
  int64_t round_ = 0;    // windows that are packed together for all threads; 0: each for its own
  size_t turned_bytes_ = 0, window_bytes_ = 0, weight_bytes_ = 0, buffer_bytes_ = 0,
         thread_bytes_ = 0, scratch_ = 0;
  int threads_;
};

/// The gradient to w, float32. An infinity or NaN in x spreads to all taps of its channel.
class AmxConvWeightGrad {
 public:
  explicit AmxConvWeightGrad(const AmxConvShape& shape);

  size_t scratch_bytes() const { return scratch_; }
  void run(const uint16_t* x, const uint16_t* dy, float* dw, void* scratch) const;

 private:
  friend struct AmxWeightGradRun;
  AmxConvShape given_, s_;
  AmxTaps taps_;
  bool odd_ = false;       // whether a tap starts at an odd pixel
  int64_t windows_ = 1;    // of an image: those of large ones are packed one after another
  int64_t rows_ = 0;       // of the grid in a window
  int64_t k_tiles_ = 0;    // tiles of 32 positions of a window
  int64_t pairs_ = 0;      // pairs of pixels of a plane
  int64_t x_strip_ = 0;    // dwords of 16 channels of a window
  int64_t round_ = 0;      // windows that are packed together
  int64_t item_taps_ = 0;  // taps of an item of work: all or one
  size_t turned_bytes_ = 0, x_bytes_ = 0, dy_bytes_ = 0, thread_bytes_ = 0, scratch_ = 0;
  int threads_;
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_AMX_CONV_H_
