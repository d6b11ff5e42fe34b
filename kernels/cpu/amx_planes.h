// Packing of activations into the planes of AmxTaps. Like amx_tiles.h, for functions of the tile
// unit's target.
#ifndef TRAINRT_KERNELS_CPU_AMX_PLANES_H_
#define TRAINRT_KERNELS_CPU_AMX_PLANES_H_

#include "kernels/cpu/amx_tiles.h"

#if TRAINRT_AMX

#include <algorithm>

#include "kernels/cpu/amx_taps.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

HWY_PUSH_ATTRIBUTES(TRAINRT_AMX_TARGET)

namespace trainrt {
namespace amx {

constexpr int64_t kChannels = 16;  // of a block of nChw16c

inline void clear_pixels(uint16_t* out, int64_t from, int64_t to, int64_t pitch) {
  for (int64_t k = from; k < to; ++k) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + k * pitch), _mm256_setzero_si256());
  }
}

/// Rows [first, first + rows) of a plane of 16 channels; pixels lie `pixel` elements apart. `block`
/// null: zeros.
inline void place_rows(const AmxTaps& t, const uint16_t* block, const AmxConvShape::Pair& phase,
                       int64_t first, int64_t rows, int64_t pixel, uint16_t* out) {
  const int64_t step = t.in_step[1], left = t.origin[1] - phase[1];
  // Columns k with 0 <= k step - left < width.
  const int64_t from = std::clamp<int64_t>(left > 0 ? div_up(left, step) : 0, 0, t.pitch),
                end = t.in[1] + left,
                to = std::clamp<int64_t>(end > 0 ? div_up(end, step) : 0, from, t.pitch);
  for (int64_t j = 0; j < rows; ++j, out += t.pitch * pixel) {
    const int64_t h = (first + j) * t.in_step[0] + phase[0] - t.origin[0];
    if (block == nullptr || h < 0 || h >= t.in[0]) {
      clear_pixels(out, 0, t.pitch, pixel);
      continue;
    }
    clear_pixels(out, 0, from, pixel);
    const uint16_t* x = block + (h * t.in[1] - left) * kChannels;
    for (int64_t k = from; k < to; ++k) {
      _mm256_store_si256(
          reinterpret_cast<__m256i*>(out + k * pixel),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k * step * kChannels)));
    }
    clear_pixels(out, to, t.pitch, pixel);
  }
}

/// The same of a plain image: what 16 values from `channel` on of a filter's row meet.
inline void place_filter_rows(const AmxTaps& t, const AmxConvShape& s, const uint16_t* image,
                              int64_t channel, const AmxConvShape::Pair& phase, int64_t first,
                              int64_t rows, int64_t pixel, uint16_t* out) {
  const int64_t step = s.strides[1], end = std::min(channel + kChannels, s.channels * s.kernel[1]);
  for (int64_t j = 0; j < rows; ++j, out += t.pitch * pixel) {
    clear_pixels(out, 0, t.pitch, pixel);
    const int64_t h = (first + j) * t.in_step[0] + phase[0] - t.origin[0];
    if (h < 0 || h >= s.x[0]) continue;
    for (int64_t i = channel; i < end; ++i) {
      const int64_t left = s.pads[1] - i / s.channels * s.dilations[1],
                    from = left > 0 ? div_up(left, step) : 0,
                    to = std::min(s.x[1] + left > 0 ? div_up(s.x[1] + left, step) : 0, t.grid[1]);
      const uint16_t* x = image + (i % s.channels * s.x[0] + h) * s.x[1] - left;
      for (int64_t v = from; v < to; ++v) out[v * pixel + i - channel] = x[v * step];
    }
  }
}

/// Rows of a plane of 16 channels of image `n`; zeros behind the last block. `given`: the shape as
/// the caller has it.
inline void place_block(const AmxTaps& t, const AmxConvShape& given, const uint16_t* in,
                        int64_t channels, int64_t n, int64_t b, const AmxConvShape::Pair& phase,
                        int64_t first, int64_t rows, int64_t pixel, uint16_t* out) {
  if (given.plain_x) {
    return place_filter_rows(t, given, in + n * given.channels * given.x[0] * given.x[1],
                             b * kChannels, phase, first, rows, pixel, out);
  }
  const int64_t blocks = div_up(channels, kChannels);
  const uint16_t* block = in + (n * blocks + b) * t.in[0] * t.in[1] * kChannels;
  place_rows(t, b < blocks ? block : nullptr, phase, first, rows, pixel, out);
}

/// Threads of a pass that was planned for so many.
inline int team(int planned) { return omp_in_parallel() ? 1 : std::min(planned, cpu_threads()); }

}  // namespace amx
}  // namespace trainrt

HWY_POP_ATTRIBUTES

#endif  // TRAINRT_AMX

#endif  // TRAINRT_KERNELS_CPU_AMX_PLANES_H_
