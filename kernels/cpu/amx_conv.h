// Convolutions of bfloat16 activations in nChw16c and their gradients by the tile unit of x86
// processors. Activations are packed once per pass to padded planes; in them every tap of the
// filter is a shift, and sums of 16 pixels by 16 channels are pieces of nChw16c as they lie.
#ifndef TRAINRT_KERNELS_CPU_AMX_CONV_H_
#define TRAINRT_KERNELS_CPU_AMX_CONV_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/amx_taps.h"

namespace trainrt {

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
  AmxConvShape given_, s_;  // s_: with windows as pixels when x is plain
  AmxTaps taps_;
  std::vector<int64_t> offsets_;  // of the taps in a window, bytes
  bool data_grad_, out_bf16_, relu_;
  bool joined_ = false;  // pixels of 16 channels and the 16 of their right neighbours
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
  int64_t groups_ = 0;     // of windows, if a thread packs them and keeps sums for each; 0: no
  int64_t item_taps_ = 0;  // taps of an item of work: all or one
  size_t turned_bytes_ = 0, x_bytes_ = 0, dy_bytes_ = 0, group_bytes_ = 0, buffer_bytes_ = 0,
         thread_bytes_ = 0, scratch_ = 0;
  int threads_;
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_AMX_CONV_H_
