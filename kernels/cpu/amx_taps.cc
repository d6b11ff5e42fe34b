#include "kernels/cpu/amx_taps.h"

#include <algorithm>

#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

using Pair = AmxConvShape::Pair;

void finish(AmxTaps& t) {
  for (const AmxTaps::Tap& tap : t.taps) {
    for (size_t d = 0; d < 2; ++d) t.reach[d] = std::max(t.reach[d], tap.shift[d]);
  }
  t.pitch = t.grid[1] + t.reach[1];
}

}  // namespace

AmxConvShape rows_as_pixels(AmxConvShape s) {
  if (!s.plain_x) return s;
  s.channels *= s.kernel[1];
  s.x[1] = s.y[1];
  s.kernel[1] = s.strides[1] = s.dilations[1] = 1;
  s.pads[1] = 0;
  return s;
}

AmxTaps forward_taps(const AmxConvShape& s) {
  AmxTaps t;
  t.in = s.x;
  t.out = t.grid = s.y;
  t.in_step = s.strides;
  t.origin = s.pads;
  for (int64_t a = 0; a < s.kernel[0]; ++a) {
    for (int64_t b = 0; b < s.kernel[1]; ++b) {
      const Pair at = {a * s.dilations[0], b * s.dilations[1]},
                 phase = {at[0] % s.strides[0], at[1] % s.strides[1]};
      const auto plane = std::find(t.planes.begin(), t.planes.end(), phase) - t.planes.begin();
      if (plane == std::ssize(t.planes)) t.planes.push_back(phase);
      t.taps.push_back({a * s.kernel[1] + b, plane, {at[0] / s.strides[0], at[1] / s.strides[1]}});
    }
  }
  t.groups.push_back({{0, 0}, s.y, 0, std::ssize(t.taps)});
  finish(t);
  return t;
}

/// dx[h] takes dy[i] by tap a where i stride - pad + a dilation = h: for each phase of h other
/// taps.
AmxTaps data_grad_taps(const AmxConvShape& s) {
  AmxTaps t;
  t.in = s.y;
  t.out = s.x;
  t.out_step = s.strides;
  t.planes.push_back({0, 0});
  Pair least = {0, 0};
  for (size_t d = 0; d < 2; ++d) t.grid[d] = div_up(s.x[d], s.strides[d]);
  const auto shift = [&](size_t d, int64_t phase, int64_t tap, int64_t& result) {
    const int64_t n = phase + s.pads[d] - tap * s.dilations[d];
    result = n / s.strides[d];
    return n % s.strides[d] == 0;
  };
  for (int64_t i = 0; i < std::min(s.strides[0], s.x[0]); ++i) {
    for (int64_t j = 0; j < std::min(s.strides[1], s.x[1]); ++j) {
      const int64_t first = std::ssize(t.taps);
      for (int64_t a = 0; a < s.kernel[0]; ++a) {
        for (int64_t b = 0; b < s.kernel[1]; ++b) {
          Pair by;
          if (!shift(0, i, a, by[0]) || !shift(1, j, b, by[1])) continue;
          t.taps.push_back({a * s.kernel[1] + b, 0, by});
          for (size_t d = 0; d < 2; ++d) {
            least[d] = t.taps.size() == 1 ? by[d] : std::min(least[d], by[d]);
          }
        }
      }
      t.groups.push_back({{i, j},
                          {div_up(s.x[0] - i, s.strides[0]), div_up(s.x[1] - j, s.strides[1])},
                          first,
                          std::ssize(t.taps) - first});
    }
  }
  for (AmxTaps::Tap& tap : t.taps) {
    for (size_t d = 0; d < 2; ++d) tap.shift[d] -= least[d];
  }
  t.origin = {-least[0], -least[1]};
  finish(t);
  return t;
}

}  // namespace trainrt
