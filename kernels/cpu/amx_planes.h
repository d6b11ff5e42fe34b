// Packing of activations into the planes of AmxTaps. Like amx_tiles.h, for functions of the tile
// unit's target.
#ifndef TRAINRT_KERNELS_CPU_AMX_PLANES_H_
#define TRAINRT_KERNELS_CPU_AMX_PLANES_H_

#include "kernels/cpu/amx_tiles.h"

#if TRAINRT_AMX

#include <algorithm>
#include <array>

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

/// Mask of the lanes [begin, end) of 32.
inline __mmask32 lanes(int64_t begin, int64_t end) {
  const auto below = [](int64_t n) {
    return n >= 32 ? 0xFFFFFFFFu : n <= 0 ? 0 : static_cast<uint32_t>((1u << n) - 1);
  };
  return below(end) & ~below(begin);
}

/// What a row of a plain image gives to pixels (see windows_as_pixels).
struct RowPiece {
  const uint16_t* row;
  __m512i index;  // of the lanes' values behind the window's begin
  __mmask32 mask;
};

/// A row of pixels from the pieces, `kLanes` lanes each.
template <int64_t kLanes, size_t kPieces>
inline void place_pixels(const RowPiece* rows, const AmxConvShape& given, int64_t pixels,
                         uint16_t* out) {
  // Copies, for the compiler to know that the stores leave them alone.
  std::array<RowPiece, kPieces> pieces;
  std::copy_n(rows, kPieces, pieces.begin());
  const int64_t step = given.strides[1], left = given.pads[1], width = given.x[1];
  const auto place = [&](int64_t v, __mmask32 inside) {
    __m512i pixel = _mm512_setzero_si512();
#pragma GCC unroll 32
    for (size_t k = 0; k < kPieces; ++k) {
      const uint16_t* x = pieces[k].row + v * step - left;
      pixel = _mm512_mask_permutexvar_epi16(pixel, pieces[k].mask, pieces[k].index,
                                            _mm512_maskz_loadu_epi16(inside, x));
    }
    if constexpr (kLanes == 32) {
      _mm512_store_si512(out + v * kLanes, pixel);
    } else {
      _mm256_store_si256(reinterpret_cast<__m256i*>(out + v * kLanes),
                         _mm512_castsi512_si256(pixel));
    }
  };
  const auto edge = [&](int64_t from, int64_t to) {
    for (int64_t v = from; v < to; ++v) {
      place(v, lanes(left - v * step, width + left - v * step));
    }
  };
  // Pixels whose vectors lie within the row.
  const int64_t from = std::min(div_up(left, step), pixels), room = width + left - 32,
                to = std::clamp<int64_t>(room < 0 ? 0 : room / step + 1, from, pixels);
  edge(0, from);
  for (int64_t v = from; v < to; ++v) place(v, 0xFFFFFFFFu);
  edge(to, pixels);
}

/// Pixels of a plain image: `kLanes` of their channels from `channel` on, for rows
/// [first, first + rows) of the plane.
template <int64_t kLanes>
inline void place_windows(const AmxTaps& t, const AmxConvShape& given, const uint16_t* image,
                          int64_t channel, const AmxConvShape::Pair& phase, int64_t first,
                          int64_t rows, uint16_t* out) {
  struct Part {  // of the filter
    int64_t channel, row;
    RowPiece piece;
  };
  const int64_t columns = given.kernel[1], held = given.pixel_rows();
  std::array<Part, kAmxDepth> parts;
  size_t part_count = 0;
  for (int64_t c = 0; c < given.channels; ++c) {
    for (int64_t a = 0; a < held; ++a) {
      const int64_t at = (c * held + a) * columns - channel;
      const __mmask32 mask = lanes(at, at + columns) & lanes(0, kLanes);
      if (mask == 0) continue;
      alignas(64) uint16_t index[32];
      for (int64_t b = std::max<int64_t>(at, 0); b < std::min(at + columns, kLanes); ++b) {
        index[b] = static_cast<uint16_t>((b - at) * given.dilations[1]);
      }
      parts[part_count++] = {
          c, a * given.dilations[0], {nullptr, _mm512_maskz_loadu_epi16(mask, index), mask}};
    }
  }
  // Few pieces stay in registers; those without lanes give nothing.
  struct Place {
    size_t pieces;
    void (*run)(const RowPiece*, const AmxConvShape&, int64_t, uint16_t*);
  };
  constexpr Place kPlaces[] = {{1, place_pixels<kLanes, 1>},
                               {3, place_pixels<kLanes, 3>},
                               {5, place_pixels<kLanes, 5>},
                               {9, place_pixels<kLanes, 9>},
                               {kAmxDepth, place_pixels<kLanes, kAmxDepth>}};
  for (int64_t j = 0; j < rows; ++j, out += t.pitch * kLanes) {
    const int64_t top = (first + j) * given.strides[0] + phase[0] - given.pads[0];
    std::array<RowPiece, kAmxDepth> pieces;
    size_t count = 0;
    for (size_t k = 0; k < part_count; ++k) {
      const int64_t h = top + parts[k].row;
      if (h < 0 || h >= given.x[0]) continue;
      pieces[count] = parts[k].piece;
      pieces[count++].row = image + (parts[k].channel * given.x[0] + h) * given.x[1];
    }
    const Place* place = kPlaces;
    while (place->pieces < count) ++place;
    std::fill(pieces.begin() + count, pieces.begin() + place->pieces,
              RowPiece{image, _mm512_setzero_si512(), 0});
    place->run(pieces.data(), given, t.pitch, out);
  }
}

/// Image n of a plain x.
inline const uint16_t* plain_image(const AmxConvShape& given, const uint16_t* x, int64_t n) {
  return x + n * given.channels * given.x[0] * given.x[1];
}
/// Block b of 16 channels of image n in nChw16c; null behind the last one.
inline const uint16_t* blocked_image(const AmxTaps& t, const uint16_t* x, int64_t channels,
                                     int64_t n, int64_t b) {
  const int64_t blocks = div_up(channels, kChannels);
  return b < blocks ? x + (n * blocks + b) * t.in[0] * t.in[1] * kChannels : nullptr;
}

/// Threads of a pass that was planned for so many.
inline int team(int planned) { return omp_in_parallel() ? 1 : std::min(planned, cpu_threads()); }

}  // namespace amx
}  // namespace trainrt

HWY_POP_ATTRIBUTES

#endif  // TRAINRT_AMX

#endif  // TRAINRT_KERNELS_CPU_AMX_PLANES_H_
