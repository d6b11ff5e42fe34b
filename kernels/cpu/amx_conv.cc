#include "kernels/cpu/amx_conv.h"

#include "kernels/cpu/amx_tiles.h"

#if TRAINRT_AMX
#include <omp.h>

#include <algorithm>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#else
#include "trainrt/error.h"
#endif

namespace trainrt {

#if TRAINRT_AMX

namespace {

using Pair = AmxConvShape::Pair;

constexpr int64_t kChannels = 16;             // of a block of nChw16c
constexpr int64_t kWindowBytes = 512 << 10;   // a packed window stays in the second-level cache
constexpr int64_t kSharedBytes = 2048 << 10;  // what all threads share
constexpr int64_t kGradBytes = 4096 << 10;

AmxConvShape rows_as_pixels(AmxConvShape s) {
  if (!s.plain_x) return s;
  s.channels *= s.kernel[1];
  s.x[1] = s.y[1];
  s.kernel[1] = s.strides[1] = s.dilations[1] = 1;
  s.pads[1] = 0;
  return s;
}

int64_t weight_count(const AmxConvShape& s) {
  return s.filters * s.channels * s.kernel[0] * s.kernel[1];
}

/// Weights [filter][channel][row][column] as [filter][column][channel][row], or back.
template <typename T>
void turn_weights(const AmxConvShape& s, bool back, const T* from, T* to) {
  const auto [rows, columns] = s.kernel;
  const int64_t size = s.channels * rows * columns;
  for (int64_t f = 0; f < s.filters; ++f, from += size, to += size) {
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t a = 0; a < rows; ++a) {
        for (int64_t b = 0; b < columns; ++b) {
          const int64_t plain = (c * rows + a) * columns + b,
                        turned = (b * s.channels + c) * rows + a;
          to[back ? plain : turned] = from[back ? turned : plain];
        }
      }
    }
  }
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
  return t;
}

void finish(AmxTaps& t) {
  for (const AmxTaps::Tap& tap : t.taps) {
    for (size_t d = 0; d < 2; ++d) t.reach[d] = std::max(t.reach[d], tap.shift[d]);
  }
  t.pitch = t.grid[1] + t.reach[1];
}

/// Positions of `rows` rows of the grid, from the first to the last one that counts.
int64_t positions(const AmxTaps& t, int64_t rows) { return (rows - 1) * t.pitch + t.grid[1]; }

int64_t filter_size(const AmxConvShape& s) { return s.kernel[0] * s.kernel[1]; }

int team(int planned) { return omp_in_parallel() ? 1 : std::min(planned, cpu_threads()); }

}  // namespace

HWY_PUSH_ATTRIBUTES(TRAINRT_AMX_TARGET)

namespace {

using amx::kBlock;
using amx::kDepth;
using amx::kLines;
using amx::kTile;

__mmask32 first32(int64_t n) {
  return n >= 32 ? 0xFFFFFFFFu : n <= 0 ? 0 : static_cast<__mmask32>((1u << n) - 1);
}

void clear_pixels(uint16_t* out, int64_t from, int64_t to, int64_t pitch) {
  for (int64_t k = from; k < to; ++k) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + k * pitch), _mm256_setzero_si256());
  }
}

/// Rows [first, first + rows) of a plane of 16 channels; pixels lie `pixel` elements apart. `block`
/// null: zeros.
void place_rows(const AmxTaps& t, const uint16_t* block, const Pair& phase, int64_t first,
                int64_t rows, int64_t pixel, uint16_t* out) {
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
void place_filter_rows(const AmxTaps& t, const AmxConvShape& s, const uint16_t* image,
                       int64_t channel, const Pair& phase, int64_t first, int64_t rows,
                       int64_t pixel, uint16_t* out) {
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

/// Element `column` of 16 lines, from pairs of neighbouring columns that a transposition left.
__m512i low_column(const uint32_t* pairs, int64_t column) {
  const __m512i v = _mm512_load_si512(pairs + column / 2 * 16);
  return column % 2 == 0 ? _mm512_and_si512(v, _mm512_set1_epi32(0xFFFF))
                         : _mm512_srli_epi32(v, 16);
}
__m512i high_column(const uint32_t* pairs, int64_t column) {
  return _mm512_slli_epi32(low_column(pairs, column), 16);
}

/// Up to 32 elements of 16 lines as pairs of columns.
void load_columns(const uint16_t* x, int64_t line_stride, int64_t lines, int64_t columns,
                  uint32_t* pairs) {
  for (int64_t i = 0; i < kLines; ++i) {
    _mm512_store_si512(pairs + 16 * i, _mm512_maskz_loadu_epi16(i < lines ? first32(columns) : 0,
                                                                x + i * line_stride));
  }
  amx::transpose(pairs);
}

/// Sums of up to 32 positions by up to 32 channels.
template <bool kTwoA, bool kTwoB>
void sum_taps(const char* x, const int64_t* offsets, int64_t taps, int64_t depths,
              int64_t depth_bytes, const uint32_t* w, int64_t w_depth, float* out) {
  amx::clear_sums<kTwoA, kTwoB>();
  for (int64_t k = 0; k < depths; ++k, x += depth_bytes, w += w_depth) {
    const uint32_t* b = w;
    for (int64_t t = 0; t < taps; ++t, b += 2 * kTile) {
      const char* a = x + offsets[t];
      amx::fetch(b + 2 * kTile);
      if (kTwoB) amx::fetch(b + 3 * kTile);
      amx::add_products<kTwoA, kTwoB>(a, a + 64 * kLines, b, b + kTile);
    }
  }
  amx::store_sums<kTwoA, kTwoB>(out);
}

/// Sums over all positions of `windows` windows of the products of two strips of channels.
template <bool kTwoA, bool kTwoB>
void sum_positions(const uint32_t* a, int64_t a_strip, int64_t a_window, const uint32_t* b,
                   int64_t b_strip, int64_t b_window, int64_t windows, int64_t k_tiles,
                   float* out) {
  amx::clear_sums<kTwoA, kTwoB>();
  for (int64_t n = 0; n < windows; ++n) {
    const uint32_t *pa = a + n * a_window, *pb = b + n * b_window;
    for (int64_t k = 0; k < k_tiles; ++k, pa += kTile, pb += kTile) {
      amx::fetch(pa + kTile);
      if (kTwoA) amx::fetch(pa + a_strip + kTile);
      amx::add_products<kTwoA, kTwoB>(pa, pa + a_strip, pb, pb + b_strip);
    }
  }
  amx::store_sums<kTwoA, kTwoB>(out);
}

}  // namespace

/// One run of a forward pass or gradient to x.
struct AmxConvRun {
  const AmxConv& c;
  const AmxTaps& t;
  const uint16_t *in, *w;
  const float* bias;
  void* out;
  uint32_t* weights;           // packed: [pair of strips][depth][tap][strip][tile]
  const int64_t* tap_offsets;  // bytes, in a window

  int64_t tap_count() const { return std::ssize(t.taps); }
  int64_t depth_bytes() const { return static_cast<int64_t>(c.window_bytes_) / c.depths_; }

  /// A strip of 16 results' channels by 32 of the operand's: y = x w, lines are filters.
  void pack_forward(int64_t strip, int64_t depth, uint32_t* to, uint32_t* buffer) const {
    const int64_t size = filter_size(c.s_), line = c.s_.channels * size,
                  columns = std::min(kDepth, c.s_.channels - depth * kDepth) * size;
    const uint16_t* from = w + strip * kLines * line + depth * kDepth * size;
    for (int64_t k = 0; k < kDepth * size; k += 32) {
      load_columns(from + k, line, c.s_.filters - strip * kLines, columns - k, buffer + k / 2 * 16);
    }
    for (const AmxTaps::Tap& tap : t.taps) {
      for (int64_t i = 0; i < kDepth / 2; ++i) {
        const int64_t column = 2 * i * size + tap.filter;
        _mm512_store_si512(to + 16 * i, _mm512_or_si512(low_column(buffer, column),
                                                        high_column(buffer, column + size)));
      }
      to += 2 * kTile;
    }
  }

  /// The same for dx = dy w: lines are x's channels, columns filters.
  void pack_turned(int64_t strip, int64_t depth, uint32_t* to, uint32_t* buffer) const {
    const int64_t size = filter_size(c.s_), channels = c.s_.channels,
                  lines = channels - strip * kLines, half = round_up(size, 32) / 2 * 16;
    for (int64_t i = 0; i < kDepth / 2; ++i) {
      for (int64_t k = 0; k < 2; ++k) {
        const int64_t filter = depth * kDepth + 2 * i + k;
        const uint16_t* from = w + (filter * channels + strip * kLines) * size;
        const bool inside = filter < c.s_.filters;
        if (size == 1) {
          const __m256i x = _mm256_maskz_loadu_epi16(inside ? amx::first(lines) : 0, from);
          _mm512_store_si512(buffer + k * half, _mm512_cvtepu16_epi32(x));
          continue;
        }
        for (int64_t column = 0; column < size; column += 32) {
          load_columns(from + column, size, inside ? lines : 0, size - column,
                       buffer + k * half + column / 2 * 16);
        }
      }
      for (int64_t tap = 0; tap < tap_count(); ++tap) {
        const int64_t column = t.taps[static_cast<size_t>(tap)].filter;
        _mm512_store_si512(
            to + tap * 2 * kTile + 16 * i,
            _mm512_or_si512(low_column(buffer, column), high_column(buffer + half, column)));
      }
    }
  }

  void pack_weights(int64_t item, uint32_t* buffer) const {
    const int64_t strip = item / c.depths_, depth = item % c.depths_;
    uint32_t* to =
        weights + (strip / 2 * c.depths_ + depth) * tap_count() * 2 * kTile + strip % 2 * kTile;
    c.data_grad_ ? pack_turned(strip, depth, to, buffer) : pack_forward(strip, depth, to, buffer);
  }

  void pack_window(int64_t window, char* to) const {
    const int64_t image = window / c.windows_, row = window % c.windows_ * c.rows_,
                  rows = c.rows_ + t.reach[0], blocks = div_up(c.in_channels_, kChannels),
                  plane_bytes = rows * t.pitch * 64;
    const auto place = [&](int64_t b, const Pair& phase, uint16_t* out) {
      const AmxConvShape& s = c.given_;
      if (s.plain_x) {
        return place_filter_rows(t, s, in + image * s.channels * s.x[0] * s.x[1], b * kChannels,
                                 phase, row, rows, kDepth, out);
      }
      const uint16_t* block = in + (image * blocks + b) * t.in[0] * t.in[1] * kChannels;
      place_rows(t, b < blocks ? block : nullptr, phase, row, rows, kDepth, out);
    };
    for (int64_t depth = 0; depth < c.depths_; ++depth) {
      for (const Pair& phase : t.planes) {
        for (int64_t half = 0; half < 2; ++half) {
          place(2 * depth + half, phase, reinterpret_cast<uint16_t*>(to) + half * kChannels);
        }
        to += plane_bytes;
      }
    }
  }

  /// Stores the sums of positions [from, from + 32) of a window's grid.
  void store(const float* sums, const AmxTaps::Group& g, int64_t image, int64_t row, int64_t from,
             int64_t to, int64_t strip, int64_t strips) const {
    for (int64_t half = 0; half < strips; ++half) {
      const int64_t channel = (strip + half) * kLines,
                    plane = (image * div_up(c.out_channels_, kChannels) + strip + half) * t.out[0];
      const __m512 b = bias == nullptr ? _mm512_setzero_ps()
                                       : _mm512_maskz_loadu_ps(
                                             amx::first(c.out_channels_ - channel), bias + channel);
      for (int64_t q = from; q < to;) {
        const int64_t u = row + q / t.pitch, v = q % t.pitch;
        if (u >= g.size[0]) break;
        const int64_t run = std::min(g.size[1] - v, to - q);
        const int64_t pixel =
            (plane + u * t.out_step[0] + g.at[0]) * t.out[1] + v * t.out_step[1] + g.at[1];
        const float* x = sums + (q - from) * kBlock + half * kLines;
        for (int64_t i = 0; i < run; ++i, x += kBlock) {
          __m512 y = _mm512_add_ps(_mm512_load_ps(x), b);
          // The second operand is the result when one is NaN.
          if (c.relu_) y = _mm512_max_ps(_mm512_setzero_ps(), y);
          const int64_t at = (pixel + i * t.out_step[1]) * kChannels;
          if (c.out_bf16_) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<uint16_t*>(out) + at),
                                reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(y)));
          } else {
            _mm512_storeu_ps(static_cast<float*>(out) + at, y);
          }
        }
        q += t.pitch - v;
      }
    }
  }

  void multiply_window(int64_t window, const char* x, int64_t pair, float* sums) const {
    const int64_t image = window / c.windows_, row = window % c.windows_ * c.rows_,
                  rows = std::min(c.rows_, t.grid[0] - row), end = positions(t, rows),
                  strips = std::min<int64_t>(2, div_up(c.out_channels_, kLines) - 2 * pair),
                  w_depth = tap_count() * 2 * kTile;
    for (const AmxTaps::Group& g : t.groups) {
      const uint32_t* b = weights + pair * c.depths_ * w_depth + g.first * 2 * kTile;
      const int64_t* offsets = tap_offsets + g.first;
      for (int64_t q = 0; q < end; q += kBlock) {
        const char* a = x + q * 64;
        const bool two = end - q > kLines;
        const auto sum = strips == 2 ? (two ? sum_taps<true, true> : sum_taps<false, true>)
                                     : (two ? sum_taps<true, false> : sum_taps<false, false>);
        sum(a, offsets, g.count, c.depths_, depth_bytes(), b, w_depth, sums);
        store(sums, g, image, row, q, std::min(q + kBlock, end), 2 * pair, strips);
      }
    }
  }

  void run(char* shared, char* threads) const {
    const int64_t windows = c.s_.batch * c.windows_,
                  weight_items = div_up(c.out_channels_, kLines) * c.depths_;
#pragma omp parallel num_threads(team(c.threads_))
    {
      amx::configure();
      char* own = threads + static_cast<size_t>(omp_get_thread_num()) * c.thread_bytes_;
      auto* sums = reinterpret_cast<float*>(own);
      own += kBlock * kBlock * sizeof(float);
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < weight_items; ++i) pack_weights(i, reinterpret_cast<uint32_t*>(own));
      own += c.buffer_bytes_;
      if (c.round_ == 0) {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < windows; ++i) {
          pack_window(i, own);
          for (int64_t pair = 0; pair < c.pairs_; ++pair) multiply_window(i, own, pair, sums);
        }
      } else {
        for (int64_t from = 0; from < windows; from += c.round_) {
          const int64_t to = std::min(windows, from + c.round_);
#pragma omp for schedule(dynamic)
          for (int64_t i = from; i < to; ++i) {
            pack_window(i, shared + (i - from) * static_cast<int64_t>(c.window_bytes_));
          }
#pragma omp for schedule(dynamic)
          for (int64_t pair = 0; pair < c.pairs_; ++pair) {
            for (int64_t i = from; i < to; ++i) {
              multiply_window(i, shared + (i - from) * static_cast<int64_t>(c.window_bytes_), pair,
                              sums);
            }
          }
        }
      }
      _tile_release();
    }
  }
};

struct AmxWeightGradRun {
  const AmxConvWeightGrad& c;
  const AmxTaps& t;
  const uint16_t *x, *dy;
  float* dw;
  uint32_t *xs, *dys;  // packed: [strip][window][plane][alignment][pair], [strip][window][tile]

  int64_t x_strips() const { return div_up(c.s_.channels, kLines); }
  int64_t dy_strips() const { return div_up(c.s_.filters, kLines); }

  void pack_x(int64_t window, int64_t slot, int64_t strip, uint16_t* pixels) const {
    const AmxConvShape& given = c.given_;
    const int64_t image = window / c.windows_, row = window % c.windows_ * c.rows_,
                  rows = c.rows_ + t.reach[0], filled = rows * t.pitch, wanted = 2 * c.pairs_ + 1;
    uint32_t* to = xs + (strip * c.round_ + slot) * c.x_strip_;
    const auto pixel = [&](int64_t i) {
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(pixels + i * kChannels));
    };
    for (const Pair& phase : t.planes) {
      if (given.plain_x) {
        place_filter_rows(t, given, x + image * given.channels * given.x[0] * given.x[1],
                          strip * kChannels, phase, row, rows, kChannels, pixels);
      } else {
        place_rows(t, x + (image * x_strips() + strip) * t.in[0] * t.in[1] * kChannels, phase, row,
                   rows, kChannels, pixels);
      }
      clear_pixels(pixels, filled, wanted, kChannels);
      for (int64_t odd = 0; odd <= (c.odd_ ? 1 : 0); ++odd) {
        for (int64_t i = 0; i < c.pairs_; ++i, to += 16) {
          _mm512_store_si512(to, amx::interleave(pixel(2 * i + odd), pixel(2 * i + odd + 1)));
        }
      }
    }
  }

  void pack_dy(int64_t window, int64_t slot, int64_t strip) const {
    const int64_t image = window / c.windows_, row = window % c.windows_ * c.rows_,
                  rows = std::min(c.rows_, t.grid[0] - row);
    const uint16_t* block = dy + (image * dy_strips() + strip) * t.out[0] * t.out[1] * kChannels;
    uint32_t* to = dys + (strip * c.round_ + slot) * c.k_tiles_ * kTile;
    // Positions between the rows of the grid count for nothing.
    const auto pixel = [&](int64_t q) {
      const int64_t u = q / t.pitch, v = q % t.pitch;
      const bool inside = u < rows && v < t.grid[1];
      return _mm256_maskz_loadu_epi16(inside ? 0xFFFF : 0,
                                      block + ((row + u) * t.grid[1] + v) * kChannels);
    };
    for (int64_t tile = 0; tile < c.k_tiles_; ++tile, to += kTile) {
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t q = tile * kDepth + 2 * i;
        _mm512_store_si512(to + 16 * i, amx::interleave(pixel(q), pixel(q + 1)));
      }
      amx::transpose(to);
    }
  }

  void multiply(int64_t dy_pair, int64_t x_pair, const AmxTaps::Tap& tap, int64_t windows,
                float* sums) const {
    const int64_t offset = tap.shift[0] * t.pitch + tap.shift[1],
                  plane = c.pairs_ * 16 * (c.odd_ ? 2 : 1);
    const uint32_t* b = xs + 2 * x_pair * c.round_ * c.x_strip_ + tap.plane * plane +
                        (offset % 2 * c.pairs_ + offset / 2) * 16;
    const int64_t a_window = c.k_tiles_ * kTile;
    const uint32_t* a = dys + 2 * dy_pair * c.round_ * a_window;
    const bool two_a = 2 * dy_pair + 1 < dy_strips(), two_b = 2 * x_pair + 1 < x_strips();
    const auto sum = two_a ? (two_b ? sum_positions<true, true> : sum_positions<true, false>)
                           : (two_b ? sum_positions<false, true> : sum_positions<false, false>);
    sum(a, c.round_ * a_window, a_window, b, c.round_ * c.x_strip_, c.x_strip_, windows, c.k_tiles_,
        sums);
  }

  /// Sums of the taps from `first` on, [tap][filter][channel], to where they belong.
  void store(const float* sums, int64_t dy_pair, int64_t x_pair, int64_t first, bool add) const {
    const int64_t size = filter_size(c.s_), filter = dy_pair * kBlock, channel = x_pair * kBlock,
                  filters = std::min(kBlock, c.s_.filters - filter),
                  channels = std::min(kBlock, c.s_.channels - channel);
    for (int64_t f = 0; f < filters; ++f) {
      float* to = dw + ((filter + f) * c.s_.channels + channel) * size + first;
      for (int64_t i = 0; i < channels; ++i, to += size) {
        const float* from = sums + f * kBlock + i;
        for (int64_t tap = 0; tap < c.item_taps_; ++tap) {
          const float sum = from[tap * kBlock * kBlock];
          to[tap] = add ? to[tap] + sum : sum;
        }
      }
    }
  }

  void run(char* threads) const {
    const int64_t strips = x_strips() + dy_strips(), taps = filter_size(c.s_),
                  x_pairs = div_up(x_strips(), 2), parts = taps / c.item_taps_,
                  items = div_up(dy_strips(), 2) * x_pairs * parts;
#pragma omp parallel num_threads(team(c.threads_))
    {
      amx::configure();
      char* own = threads + static_cast<size_t>(omp_get_thread_num()) * c.thread_bytes_;
      const int64_t windows = c.s_.batch * c.windows_;
      for (int64_t window = 0; window < windows; window += c.round_) {
        const int64_t count = std::min(c.round_, windows - window);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < count * strips; ++i) {
          const int64_t strip = i / count, slot = i % count;
          if (strip < x_strips()) {
            pack_x(window + slot, slot, strip, reinterpret_cast<uint16_t*>(own));
          } else {
            pack_dy(window + slot, slot, strip - x_strips());
          }
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < items; ++i) {
          const int64_t first = i % parts * c.item_taps_, x_pair = i / parts % x_pairs,
                        dy_pair = i / parts / x_pairs;
          auto* sums = reinterpret_cast<float*>(own);
          for (int64_t k = 0; k < c.item_taps_; ++k) {
            multiply(dy_pair, x_pair, t.taps[static_cast<size_t>(first + k)], count,
                     sums + k * kBlock * kBlock);
          }
          store(sums, dy_pair, x_pair, first, window > 0);
        }
      }
      _tile_release();
    }
  }
};

HWY_POP_ATTRIBUTES

AmxConv::AmxConv(const AmxConvShape& shape, bool data_grad, bool out_bf16, bool relu)
    : given_(shape),
      s_(rows_as_pixels(shape)),
      taps_(data_grad ? data_grad_taps(s_) : forward_taps(s_)),
      data_grad_(data_grad),
      out_bf16_(out_bf16),
      relu_(relu),
      in_channels_(data_grad ? s_.filters : s_.channels),
      out_channels_(data_grad ? s_.channels : s_.filters),
      depths_(div_up(in_channels_, kDepth)),
      pairs_(div_up(out_channels_, kBlock)),
      threads_(cpu_threads()) {
  finish(taps_);
  const int64_t taps = std::ssize(taps_.taps), planes = std::ssize(taps_.planes),
                rows = taps_.grid[0], row_bytes = depths_ * planes * taps_.pitch * 64;
  const int64_t weights = pairs_ * depths_ * taps * 2 * kTile * 4;
  const bool shared = (rows + taps_.reach[0]) * row_bytes <= std::min(weights, kSharedBytes);
  if (shared) {
    windows_ = 1;
  } else {
    windows_ =
        std::max<int64_t>(div_up(rows * row_bytes, kWindowBytes), div_up(2 * threads_, s_.batch));
    windows_ = std::min(windows_, rows);
  }
  rows_ = div_up(rows, windows_);
  windows_ = div_up(rows, rows_);
  const int64_t window = (rows_ + taps_.reach[0]) * row_bytes;
  if (shared) round_ = std::clamp<int64_t>(kSharedBytes / window, 1, s_.batch);
  window_bytes_ = static_cast<size_t>(window);
  weight_bytes_ = static_cast<size_t>(weights);
  const int64_t size = filter_size(s_),
                buffer = data_grad ? 2 * round_up(size, 32) / 2 * 64 : 16 * size * 64;
  buffer_bytes_ = static_cast<size_t>(buffer);
  // A last block reads past the last row.
  const auto slack = static_cast<size_t>(kBlock * 64);
  thread_bytes_ = static_cast<size_t>(4 * kBlock * kBlock) + buffer_bytes_ +
                  (shared ? 0 : window_bytes_ + slack);
  if (s_.plain_x) turned_bytes_ = static_cast<size_t>(round_up(2 * weight_count(s_), 64));
  scratch_ = turned_bytes_ + weight_bytes_ + static_cast<size_t>(threads_) * thread_bytes_ +
             (shared ? static_cast<size_t>(round_) * window_bytes_ + slack : 0) +
             static_cast<size_t>(round_up(8 * taps, 64));
}

void AmxConv::run(const uint16_t* in, const uint16_t* w, const float* bias, void* out,
                  void* scratch) const {
  if (s_.plain_x) {
    auto* turned = static_cast<uint16_t*>(scratch);
    turn_weights(given_, false, w, turned);
    w = turned;
  }
  char* base = static_cast<char*>(scratch) + turned_bytes_;
  auto* offsets = reinterpret_cast<int64_t*>(base + weight_bytes_);
  const int64_t plane = (rows_ + taps_.reach[0]) * taps_.pitch;
  for (size_t i = 0; i < taps_.taps.size(); ++i) {
    const AmxTaps::Tap& tap = taps_.taps[i];
    offsets[i] = 64 * (tap.plane * plane + tap.shift[0] * taps_.pitch + tap.shift[1]);
  }
  char* threads = base + weight_bytes_ + round_up(8 * std::ssize(taps_.taps), 64);
  char* shared = threads + static_cast<size_t>(threads_) * thread_bytes_;
  const AmxConvRun pass{*this, taps_, in, w, bias, out, reinterpret_cast<uint32_t*>(base), offsets};
  pass.run(shared, threads);
}

AmxConvWeightGrad::AmxConvWeightGrad(const AmxConvShape& shape)
    : given_(shape), s_(rows_as_pixels(shape)), taps_(forward_taps(s_)), threads_(cpu_threads()) {
  finish(taps_);
  int64_t last = 0;
  for (const AmxTaps::Tap& tap : taps_.taps) {
    const int64_t offset = tap.shift[0] * taps_.pitch + tap.shift[1];
    odd_ |= offset % 2 != 0;
    last = std::max(last, offset);
  }
  const int64_t x_strips = div_up(s_.channels, kLines), dy_strips = div_up(s_.filters, kLines);
  int64_t window = 0;  // bytes
  const auto divide = [&](int64_t windows) {
    rows_ = div_up(taps_.grid[0], windows);
    windows_ = div_up(taps_.grid[0], rows_);
    k_tiles_ = div_up(positions(taps_, rows_), kDepth);
    pairs_ = std::max(last / 2 + k_tiles_ * 16, div_up((rows_ + taps_.reach[0]) * taps_.pitch, 2));
    x_strip_ = std::ssize(taps_.planes) * (odd_ ? 2 : 1) * pairs_ * 16;
    window = 4 * (x_strips * x_strip_ + dy_strips * k_tiles_ * kTile);
  };
  divide(1);
  if (window > kGradBytes) divide(std::min(div_up(window, kGradBytes), taps_.grid[0]));
  round_ = std::clamp<int64_t>(kGradBytes / window, 1, s_.batch * windows_);
  const int64_t pairs = div_up(x_strips, 2) * div_up(dy_strips, 2), taps = filter_size(s_);
  item_taps_ = pairs >= 4 * threads_ ? taps : 1;
  x_bytes_ = static_cast<size_t>(4 * round_ * x_strips * x_strip_);
  dy_bytes_ = static_cast<size_t>(4 * round_ * dy_strips * k_tiles_ * kTile);
  const int64_t sums = 4 * item_taps_ * kBlock * kBlock, pixels = (2 * pairs_ + 2) * 32;
  thread_bytes_ = static_cast<size_t>(std::max(sums, round_up(pixels, 64)));
  if (s_.plain_x) turned_bytes_ = static_cast<size_t>(round_up(4 * weight_count(s_), 64));
  scratch_ = turned_bytes_ + x_bytes_ + dy_bytes_ + static_cast<size_t>(threads_) * thread_bytes_;
}

void AmxConvWeightGrad::run(const uint16_t* x, const uint16_t* dy, float* dw, void* scratch) const {
  auto* turned = static_cast<float*>(scratch);
  char* base = static_cast<char*>(scratch) + turned_bytes_;
  const AmxWeightGradRun pass{*this,
                              taps_,
                              x,
                              dy,
                              s_.plain_x ? turned : dw,
                              reinterpret_cast<uint32_t*>(base),
                              reinterpret_cast<uint32_t*>(base + x_bytes_)};
  pass.run(base + x_bytes_ + dy_bytes_);
  if (s_.plain_x) turn_weights(given_, true, turned, dw);
}

#else

AmxConv::AmxConv(const AmxConvShape&, bool, bool, bool) {
  throw Error(ErrorCode::kInternal, "a convolution for tiles on a processor without them");
}
void AmxConv::run(const uint16_t*, const uint16_t*, const float*, void*, void*) const {}
AmxConvWeightGrad::AmxConvWeightGrad(const AmxConvShape&) {
  throw Error(ErrorCode::kInternal, "a convolution for tiles on a processor without them");
}
void AmxConvWeightGrad::run(const uint16_t*, const uint16_t*, float*, void*) const {}

#endif

}  // namespace trainrt
