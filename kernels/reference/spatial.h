// Convolution and pooling windows over up to three spatial dims; fewer are preceded by dims of
// size 1. Shape inference admits no more.
#ifndef TRAINRT_KERNELS_REFERENCE_SPATIAL_H_
#define TRAINRT_KERNELS_REFERENCE_SPATIAL_H_

#include "kernels/reference/common.h"

namespace trainrt::reference {

using Dims3 = std::array<int64_t, 3>;

inline int64_t volume(const Dims3& d) { return d[0] * d[1] * d[2]; }

/// The last dims of `dims` (all behind the first `skip`), with `missing` put before them.
inline Dims3 last_three(std::span<const int64_t> dims, int64_t missing, size_t skip = 0) {
  Dims3 out = {missing, missing, missing};
  for (size_t i = skip; i < dims.size(); ++i) out[3 - (dims.size() - i)] = dims[i];
  return out;
}

/// Output o and tap t meet input cell o * stride + t * dilation - pad.
struct Window {
  Dims3 in, out, kernel, stride, dilation, pad, pad_end;

  int64_t cell(size_t d, int64_t o, int64_t t) const {
    return o * stride[d] + t * dilation[d] - pad[d];
  }
  bool inside(size_t d, int64_t cell) const { return cell >= 0 && cell < in[d]; }
};

/// Taps [first, last) of output o that lie in [0, size) along a dim; empty when none does.
struct TapRange {
  int64_t first, last;
};
inline TapRange taps_inside(const Window& w, size_t d, int64_t o, int64_t size) {
  const int64_t begin = o * w.stride[d] - w.pad[d];  // cell of tap 0
  const int64_t first = begin < 0 ? div_up(-begin, w.dilation[d]) : 0;
  const int64_t last = begin < size ? (size - 1 - begin) / w.dilation[d] + 1 : 0;
  return {first, std::max(first, std::min(w.kernel[d], last))};
}

}  // namespace trainrt::reference

#endif  // TRAINRT_KERNELS_REFERENCE_SPATIAL_H_
