// Which cells the windows of a pool meet.
#ifndef TRAINRT_KERNELS_CPU_POOL_AXIS_H_
#define TRAINRT_KERNELS_CPU_POOL_AXIS_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace trainrt {

/// One dim of the window.
struct PoolAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, pad_end = 0;

  /// Input cell of output o and tap 0.
  int64_t first_cell(int64_t o) const { return o * stride - pad; }
  /// Taps of output o that lie in [low, high).
  std::array<int64_t, 2> taps(int64_t o, int64_t low, int64_t high) const {
    const int64_t cell = first_cell(o);
    const int64_t first = cell < low ? (low - cell + dilation - 1) / dilation : 0;
    const int64_t last = cell < high ? std::min(kernel, (high - 1 - cell) / dilation + 1) : 0;
    return {first, std::max(first, last)};
  }
  std::array<int64_t, 2> taps(int64_t o) const { return taps(o, 0, in); }
  /// Outputs whose tap t lies inside the input.
  std::array<int64_t, 2> outputs(int64_t t) const {
    const int64_t offset = t * dilation - pad;
    const int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    const int64_t last = offset < in ? std::min(out, (in - 1 - offset) / stride + 1) : 0;
    return {first, std::max(first, last)};
  }
  int64_t cells(int64_t o, bool padding) const {
    const auto [first, last] = padding ? taps(o, -pad, in + pad_end) : taps(o);
    return last - first;
  }
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_POOL_AXIS_H_
