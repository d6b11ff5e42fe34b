// The gradient of a convolution to its weights: a product whose inner dim are the pixels.
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

constexpr int64_t kGradBytes = 4096 << 10;  // that are packed at once

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

struct AmxWeightGradRun {
  const AmxConvWeightGrad& c;
  const AmxTaps& t;
  const uint16_t *x, *dy;
  float* dw;
  uint32_t *xs, *dys;  // packed: [strip][window][plane][alignment][pair], [strip][window][tile]

  int64_t x_strips() const { return div_up(c.s_.channels, kLines); }
  int64_t dy_strips() const { return div_up(c.s_.filters, kLines); }

  void pack_x(int64_t window, int64_t slot, int64_t strip, uint16_t* pixels) const {
    const int64_t image = window / c.windows_, row = window % c.windows_ * c.rows_,
                  rows = c.rows_ + t.reach[0], filled = rows * t.pitch, wanted = 2 * c.pairs_ + 1;
    uint32_t* to = xs + (strip * c.round_ + slot) * c.x_strip_;
    const auto pixel = [&](int64_t i) {
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(pixels + i * kChannels));
    };
    for (const Pair& phase : t.planes) {
      amx::place_block(t, c.given_, x, c.s_.channels, image, strip, phase, row, rows, kChannels,
                       pixels);
      amx::clear_pixels(pixels, filled, wanted, kChannels);
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
    const int64_t offset = t.offset(tap), plane = c.pairs_ * 16 * (c.odd_ ? 2 : 1);
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
    const int64_t size = c.s_.filter_size(), filter = dy_pair * kBlock, channel = x_pair * kBlock,
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
    const int64_t strips = x_strips() + dy_strips(), taps = c.s_.filter_size(),
                  x_pairs = div_up(x_strips(), 2), parts = taps / c.item_taps_,
                  items = div_up(dy_strips(), 2) * x_pairs * parts;
#pragma omp parallel num_threads(amx::team(c.threads_))
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

AmxConvWeightGrad::AmxConvWeightGrad(const AmxConvShape& shape)
    : given_(shape), s_(rows_as_pixels(shape)), taps_(forward_taps(s_)), threads_(cpu_threads()) {
  int64_t last = 0;
  for (const AmxTaps::Tap& tap : taps_.taps) {
    const int64_t offset = taps_.offset(tap);
    odd_ |= offset % 2 != 0;
    last = std::max(last, offset);
  }
  const int64_t x_strips = div_up(s_.channels, kLines), dy_strips = div_up(s_.filters, kLines);
  int64_t window = 0;  // bytes
  const auto divide = [&](int64_t windows) {
    rows_ = div_up(taps_.grid[0], windows);
    windows_ = div_up(taps_.grid[0], rows_);
    k_tiles_ = div_up(taps_.positions(rows_), kDepth);
    pairs_ = std::max(last / 2 + k_tiles_ * 16, div_up((rows_ + taps_.reach[0]) * taps_.pitch, 2));
    x_strip_ = std::ssize(taps_.planes) * (odd_ ? 2 : 1) * pairs_ * 16;
    window = 4 * (x_strips * x_strip_ + dy_strips * k_tiles_ * kTile);
  };
  divide(1);
  if (window > kGradBytes) divide(std::min(div_up(window, kGradBytes), taps_.grid[0]));
  round_ = std::clamp<int64_t>(kGradBytes / window, 1, s_.batch * windows_);
  const int64_t pairs = div_up(x_strips, 2) * div_up(dy_strips, 2), taps = s_.filter_size();
  item_taps_ = pairs >= 4 * threads_ ? taps : 1;
  x_bytes_ = static_cast<size_t>(4 * round_ * x_strips * x_strip_);
  dy_bytes_ = static_cast<size_t>(4 * round_ * dy_strips * k_tiles_ * kTile);
  const int64_t sums = 4 * item_taps_ * kBlock * kBlock, pixels = (2 * pairs_ + 2) * 32;
  thread_bytes_ = static_cast<size_t>(std::max(sums, round_up(pixels, 64)));
  if (s_.plain_x) turned_bytes_ = static_cast<size_t>(round_up(4 * s_.weights(), 64));
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

AmxConvWeightGrad::AmxConvWeightGrad(const AmxConvShape&) {
  throw Error(ErrorCode::kInternal, "a convolution for tiles on a processor without them");
}
void AmxConvWeightGrad::run(const uint16_t*, const uint16_t*, float*, void*) const {}

#endif

}  // namespace trainrt
