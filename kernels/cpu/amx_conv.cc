#include "kernels/cpu/amx_conv.h"

#include "kernels/cpu/amx_planes.h"
#if !TRAINRT_AMX
#include "trainrt/error.h"
#endif

namespace trainrt {

#if TRAINRT_AMX

HWY_PUSH_ATTRIBUTES(TRAINRT_AMX_TARGET)

namespace {

using Pair = AmxConvShape::Pair;
using amx::kBlock;
using amx::kChannels;
using amx::kDepth;
using amx::kLines;
using amx::kTile;

constexpr int64_t kWindowBytes = 512 << 10;   // a packed window stays in the second-level cache
constexpr int64_t kSharedBytes = 2048 << 10;  // what all threads share

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
    _mm512_store_si512(
        pairs + 16 * i,
        _mm512_maskz_loadu_epi16(i < lines ? amx::lanes(0, columns) : 0, x + i * line_stride));
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

}  // namespace

/// One run of a forward pass or gradient to x.
struct AmxConvRun {
  const AmxConv& c;
  const AmxTaps& t;
  const uint16_t *in, *w;
  const float* bias;
  void* out;
  uint32_t* weights;  // packed: [pair of strips][depth][tap][strip][tile]

  int64_t tap_count() const { return std::ssize(t.taps); }
  int64_t depth_bytes() const { return static_cast<int64_t>(c.window_bytes_) / c.depths_; }

  /// Pair i of inner dims belongs to the tap that is joined to another one.
  bool is_next(int64_t i) const { return c.joined_ && i >= kDepth / 4; }
  int64_t channel_pair(int64_t i) const { return is_next(i) ? i - kDepth / 4 : i; }
  /// Its place in the filter, or -1.
  int64_t place(const AmxTaps::Tap& tap, int64_t i) const {
    return is_next(i) ? tap.next : tap.filter;
  }

  /// A strip of 16 results' channels by 32 of the operand's: y = x w, lines are filters.
  void pack_forward(int64_t strip, int64_t depth, uint32_t* to, uint32_t* buffer) const {
    const int64_t size = c.s_.filter_size(), line = c.s_.channels * size,
                  columns = std::min(kDepth, c.s_.channels - depth * kDepth) * size;
    const uint16_t* from = w + strip * kLines * line + depth * kDepth * size;
    for (int64_t k = 0; k < kDepth * size; k += 32) {
      load_columns(from + k, line, c.s_.filters - strip * kLines, columns - k, buffer + k / 2 * 16);
    }
    for (const AmxTaps::Tap& tap : t.taps) {
      for (int64_t i = 0; i < kDepth / 2; ++i) {
        const int64_t filter = place(tap, i), column = 2 * channel_pair(i) * size + filter;
        _mm512_store_si512(to + 16 * i, filter < 0
                                            ? _mm512_setzero_si512()
                                            : _mm512_or_si512(low_column(buffer, column),
                                                              high_column(buffer, column + size)));
      }
      to += 2 * kTile;
    }
  }

  /// The same for dx = dy w: lines are x's channels, columns filters.
  void pack_turned(int64_t strip, int64_t depth, uint32_t* to, uint32_t* buffer) const {
    const int64_t size = c.s_.filter_size(), channels = c.s_.channels,
                  lines = channels - strip * kLines, half = round_up(size, 32) / 2 * 16;
    for (int64_t i = 0; i < kDepth / 2; ++i) {
      for (int64_t k = 0; k < 2; ++k) {
        const int64_t filter = depth * kDepth + 2 * channel_pair(i) + k;
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
        const int64_t column = place(t.taps[static_cast<size_t>(tap)], i);
        _mm512_store_si512(to + tap * 2 * kTile + 16 * i,
                           column < 0 ? _mm512_setzero_si512()
                                      : _mm512_or_si512(low_column(buffer, column),
                                                        high_column(buffer + half, column)));
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
                  rows = c.rows_ + t.reach[0], plane_bytes = rows * t.pitch * 64;
    for (int64_t depth = 0; depth < c.depths_; ++depth) {
      for (const Pair& phase : t.planes) {
        auto* pixels = reinterpret_cast<uint16_t*>(to);
        to += plane_bytes;
        if (c.given_.plain_x) {
          amx::place_windows<kDepth>(t, c.given_, amx::plain_image(c.given_, in, image), 0, phase,
                                     row, rows, pixels);
          continue;
        }
        for (int64_t half = 0; half < 2; ++half) {
          const bool again = c.joined_ && half == 1;  // a pixel further right
          amx::place_rows(
              t, amx::blocked_image(t, in, c.in_channels_, image, again ? 0 : 2 * depth + half),
              {phase[0], phase[1] + (again ? t.in_step[1] : 0)}, row, rows, kDepth,
              pixels + half * kChannels);
        }
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
                  rows = std::min(c.rows_, t.grid[0] - row), end = t.positions(rows),
                  strips = std::min<int64_t>(2, div_up(c.out_channels_, kLines) - 2 * pair),
                  w_depth = tap_count() * 2 * kTile;
    for (const AmxTaps::Group& g : t.groups) {
      const uint32_t* b = weights + pair * c.depths_ * w_depth + g.first * 2 * kTile;
      const int64_t* offsets = c.offsets_.data() + g.first;
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
#pragma omp parallel num_threads(amx::team(c.threads_))
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

HWY_POP_ATTRIBUTES

AmxConv::AmxConv(const AmxConvShape& shape, bool data_grad, bool out_bf16, bool relu)
    : given_(shape),
      s_(windows_as_pixels(shape)),
      taps_(data_grad ? data_grad_taps(s_) : forward_taps(s_)),
      data_grad_(data_grad),
      out_bf16_(out_bf16),
      relu_(relu),
      in_channels_(data_grad ? s_.filters : s_.channels),
      out_channels_(data_grad ? s_.channels : s_.filters),
      depths_(div_up(in_channels_, kDepth)),
      pairs_(div_up(out_channels_, kBlock)),
      threads_(cpu_threads()) {
  if (in_channels_ <= kChannels) join_neighbours(taps_);
  for (const AmxTaps::Tap& tap : taps_.taps) joined_ |= tap.next >= 0;
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
  const int64_t size = s_.filter_size(),
                buffer = data_grad ? 2 * round_up(size, 32) / 2 * 64 : 16 * size * 64;
  buffer_bytes_ = static_cast<size_t>(buffer);
  // A last block reads past the last row.
  const auto slack = static_cast<size_t>(kBlock * 64);
  thread_bytes_ = static_cast<size_t>(4 * kBlock * kBlock) + buffer_bytes_ +
                  (shared ? 0 : window_bytes_ + slack);
  if (s_.plain_x && s_.kernel[0] > 1)
    turned_bytes_ = static_cast<size_t>(round_up(2 * s_.weights(), 64));
  scratch_ = turned_bytes_ + weight_bytes_ + static_cast<size_t>(threads_) * thread_bytes_ +
             (shared ? static_cast<size_t>(round_) * window_bytes_ + slack : 0);
  const int64_t plane = (rows_ + taps_.reach[0]) * taps_.pitch;
  for (const AmxTaps::Tap& tap : taps_.taps) {
    offsets_.push_back(64 * (tap.plane * plane + taps_.offset(tap)));
  }
}

void AmxConv::run(const uint16_t* in, const uint16_t* w, const float* bias, void* out,
                  void* scratch) const {
  if (turned_bytes_ > 0) {
    auto* turned = static_cast<uint16_t*>(scratch);
    turn_weights(given_, false, w, turned);
    w = turned;
  }
  char* base = static_cast<char*>(scratch) + turned_bytes_;
  char* threads = base + weight_bytes_;
  char* shared = threads + static_cast<size_t>(threads_) * thread_bytes_;
  const AmxConvRun pass{*this, taps_, in, w, bias, out, reinterpret_cast<uint32_t*>(base)};
  pass.run(shared, threads);
}

#else

AmxConv::AmxConv(const AmxConvShape&, bool, bool, bool) {
  throw Error(ErrorCode::kInternal, "a convolution for tiles on a processor without them");
}
void AmxConv::run(const uint16_t*, const uint16_t*, const float*, void*, void*) const {}

#endif

}  // namespace trainrt
