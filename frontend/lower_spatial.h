// What convolution, pooling and resizing share. Private to the frontend.
#ifndef TRAINRT_FRONTEND_LOWER_SPATIAL_H_
#define TRAINRT_FRONTEND_LOWER_SPATIAL_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "frontend/lower.h"

namespace trainrt::lowering {

/// strides, dilations and pads of a node, auto_pad resolved. Pads may be negative.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;

  size_t rank() const { return kernel.size(); }
  /// Cells from the first to the last tap.
  int64_t extent(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };
AutoPad auto_pad(const LowerContext& c);

/// Sizes of the dims from the third on; refuses inputs that are not [N,C] and one to three more.
std::vector<int64_t> spatial_dims(const LowerContext& c, Var x);

/// Reads the attributes. `input` are the spatial dims that SAME_UPPER and SAME_LOWER pad; null
/// leaves pads 0 then (ConvTranspose).
Window read_window(const LowerContext& c, std::vector<int64_t> kernel,
                   const std::vector<int64_t>* input);

/// Spatial dims of a convolution's weight; the attribute kernel_shape may repeat them.
std::vector<int64_t> weight_kernel(const LowerContext& c, Var w, size_t rank);

/// The convolution that the node's attributes describe; the bias may be absent.
Var convolve(LowerContext& c, Var x, Var w, Var bias = {});

/// A neighbour of a place along one axis: its cell and its weight.
struct Tap {
  Var cell, weight;
};
/// The cell, a whole number of a float type, as an index; cells outside of [0, size) get weight 0.
/// An absent weight is 1.
Tap bounded(Tap tap, int64_t size);
/// The two cells around a place, for linear interpolation; outside there is nothing.
std::array<Tap, 2> linear_taps(Var place, int64_t size);

/// Elements of a shape that a file asks for; refuses the node when there are too many.
int64_t checked_count(const LowerContext& c, std::span<const int64_t> shape);

std::span<const LoweringRow> deform_lowerings();
std::span<const LoweringRow> pool_lowerings();
std::span<const LoweringRow> resize_lowerings();
std::span<const LoweringRow> roi_lowerings();

}  // namespace trainrt::lowering

#endif  // TRAINRT_FRONTEND_LOWER_SPATIAL_H_
