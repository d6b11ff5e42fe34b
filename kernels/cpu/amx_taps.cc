#include "kernels/cpu/amx_taps.h"

#include <algorithm>
#include <tuple>
#include <utility>

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

AmxConvShape windows_as_pixels(AmxConvShape s) {
  if (!s.plain_x) return s;
  const int64_t rows = s.pixel_rows();
  s.channels *= rows * s.kernel[1];
  const auto whole = [&](size_t d) {
    s.x[d] = s.y[d];
    s.kernel[d] = s.strides[d] = s.dilations[d] = 1;
    s.pads[d] = 0;
  };
  if (rows == s.kernel[0]) whole(0);
  whole(1);
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

void join_neighbours(AmxTaps& t) {
  std::vector<AmxTaps::Tap> joined;
  for (AmxTaps::Group& g : t.groups) {
    std::vector<AmxTaps::Tap> taps(t.taps.begin() + g.first, t.taps.begin() + g.first + g.count);
    std::sort(taps.begin(), taps.end(), [](const AmxTaps::Tap& a, const AmxTaps::Tap& b) {
      return std::tie(a.plane, a.shift) < std::tie(b.plane, b.shift);
    });
    g.first = std::ssize(joined);
    for (const AmxTaps::Tap& tap : taps) {
      AmxTaps::Tap* last = std::ssize(joined) == g.first ? nullptr : &joined.back();
      if (last != nullptr && last->next < 0 && last->plane == tap.plane &&
          last->shift[0] == tap.shift[0] && last->shift[1] + 1 == tap.shift[1]) {
        last->next = tap.filter;
      } else {
        joined.push_back(tap);
      }
    }
    g.count = std::ssize(joined) - g.first;
  }
  t.taps = std::move(joined);
}

}  // namespace trainrt
