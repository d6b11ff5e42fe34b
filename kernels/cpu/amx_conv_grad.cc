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

constexpr int64_t kGradBytes = 4096 << 10;   // that are packed at once for all threads
constexpr int64_t kOwnBytes = 1024 << 10;    // or for each: stays in the second-level cache
constexpr int64_t kGroupBytes = 2048 << 10;  // of the groups' sums
// Of windows: whatever threads there are, so that sums are the same.
constexpr int64_t kGroups = 16, kLeastGroups = 8;

/// Sums over all positions of `windows` windows of the products of two strips of channels; `add`:
/// to what is there.
template <bool kTwoA, bool kTwoB>
void sum_positions(const uint32_t* a, int64_t a_strip, int64_t a_window, const uint32_t* b,
                   int64_t b_strip, int64_t b_window, int64_t windows, int64_t k_tiles, bool add,
                   float* out) {
  add ? amx::load_sums<kTwoA, kTwoB>(out) : amx::clear_sums<kTwoA, kTwoB>();
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

  /// Work is cut by pairs of strips and taps.
  struct Item {
    int64_t dy_pair, x_pair, first_tap;
  };

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
      if (c.given_.plain_x) {
        amx::place_windows<kChannels>(t, c.given_, amx::plain_image(c.given_, x, image),
                                      strip * kChannels, phase, row, rows, pixels);
      } else {
        amx::place_rows(t, amx::blocked_image(t, x, c.s_.channels, image, strip), phase, row, rows,
                        kChannels, pixels);
      }
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
    const uint16_t* from = block + row * t.grid[1] * kChannels;
    int64_t u = 0, v = 0;
    const auto next_pixel = [&] {
      const bool inside = u < rows && v < t.grid[1];
      const __m256i pixel = _mm256_maskz_loadu_epi16(inside ? 0xFFFF : 0, from);
      if (inside) from += kChannels;
      if (++v == t.pitch) {
        v = 0;
        ++u;
      }
      return pixel;
    };
    for (int64_t tile = 0; tile < c.k_tiles_; ++tile, to += kTile) {
      for (int64_t i = 0; i < 16; ++i) {
        const __m256i even = next_pixel(), odd = next_pixel();
        _mm512_store_si512(to + 16 * i, amx::interleave(even, odd));
      }
      amx::transpose(to);
    }
  }

  void multiply(int64_t dy_pair, int64_t x_pair, const AmxTaps::Tap& tap, int64_t windows, bool add,
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
        add, sums);
  }

  /// Sums of an item, [tap][filter][channel], to where they belong.
  void store(const float* sums, const Item& item, bool add) const {
    const int64_t size = c.s_.filter_size(), filter = item.dy_pair * kBlock,
                  channel = item.x_pair * kBlock, filters = std::min(kBlock, c.s_.filters - filter),
                  channels = std::min(kBlock, c.s_.channels - channel);
    for (int64_t f = 0; f < filters; ++f) {
      float* to = dw + ((filter + f) * c.s_.channels + channel) * size + item.first_tap;
      for (int64_t i = 0; i < channels; ++i, to += size) {
        const float* from = sums + f * kBlock + i;
        for (int64_t tap = 0; tap < c.item_taps_; ++tap) {
          const float sum = from[tap * kBlock * kBlock];
          to[tap] = add ? to[tap] + sum : sum;
        }
      }
    }
  }

  void pack(int64_t window, int64_t slot, int64_t strip, char* pixels) const {
    if (strip < x_strips()) {
      pack_x(window, slot, strip, reinterpret_cast<uint16_t*>(pixels));
    } else {
      pack_dy(window, slot, strip - x_strips());
    }
  }

  int64_t parts() const { return c.s_.filter_size() / c.item_taps_; }
  int64_t x_pairs() const { return div_up(x_strips(), 2); }
  int64_t items() const { return div_up(dy_strips(), 2) * x_pairs() * parts(); }
  Item item(int64_t i) const {
    return {i / parts() / x_pairs(), i / parts() % x_pairs(), i % parts() * c.item_taps_};
  }
  void multiply(const Item& item, int64_t windows, bool add, float* sums) const {
    for (int64_t k = 0; k < c.item_taps_; ++k) {
      multiply(item.dy_pair, item.x_pair, t.taps[static_cast<size_t>(item.first_tap + k)], windows,
               add, sums + k * kBlock * kBlock);
    }
  }

  /// All threads pack windows, then share the items.
  void share(char* own) const {
    const int64_t strips = x_strips() + dy_strips(), windows = c.s_.batch * c.windows_;
    for (int64_t window = 0; window < windows; window += c.round_) {
      const int64_t count = std::min(c.round_, windows - window);
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < count * strips; ++i) {
        pack(window + i % count, i % count, i / count, own);
      }
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < items(); ++i) {
        auto* sums = reinterpret_cast<float*>(own);
        multiply(item(i), count, false, sums);
        store(sums, item(i), window > 0);
      }
    }
  }

  /// A group of windows: a thread packs some of them and adds all items to the group's sums.
  void add_group(int64_t group, float* sums, char* own) const {
    const int64_t windows = c.s_.batch * c.windows_, begin = windows * group / c.groups_,
                  end = windows * (group + 1) / c.groups_;
    for (int64_t window = begin; window < end; window += c.round_) {
      const int64_t count = std::min(c.round_, end - window);
      for (int64_t i = 0; i < count * (x_strips() + dy_strips()); ++i) {
        pack(window + i % count, i % count, i / count, own);
      }
      for (int64_t i = 0; i < items(); ++i) {
        multiply(item(i), count, window > begin, sums + i * c.item_taps_ * kBlock * kBlock);
      }
    }
  }

  void run(char* threads, float* groups) const {
    const int64_t item_sums = c.item_taps_ * kBlock * kBlock, group_sums = items() * item_sums;
#pragma omp parallel num_threads(amx::team(c.threads_))
    {
      amx::configure();
      char* own = threads + static_cast<size_t>(omp_get_thread_num()) * c.thread_bytes_;
      if (c.groups_ == 0) {
        share(own);
      } else {
        AmxWeightGradRun part = *this;
        part.xs = reinterpret_cast<uint32_t*>(own + c.buffer_bytes_);
        part.dys = part.xs + c.x_bytes_ / 4;
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < c.groups_; ++g) part.add_group(g, groups + g * group_sums, own);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < items(); ++i) {
          float* sums = groups + i * item_sums;
          for (int64_t g = 1; g < c.groups_; ++g) {
            for (int64_t k = 0; k < item_sums; ++k) sums[k] += sums[g * group_sums + k];
          }
          store(sums, item(i), false);
        }
      }
      _tile_release();
    }
  }
};

HWY_POP_ATTRIBUTES

AmxConvWeightGrad::AmxConvWeightGrad(const AmxConvShape& shape)
    : given_(shape),
      s_(windows_as_pixels(shape)),
      taps_(forward_taps(s_)),
      threads_(cpu_threads()) {
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
  const int64_t pairs = div_up(x_strips, 2) * div_up(dy_strips, 2), taps = s_.filter_size();
  const int64_t sums = 4 * pairs * taps * kBlock * kBlock;
  divide(1);
  if (kGroupBytes / sums >= kGroups) {
    const int64_t windows = std::max(div_up(window, kOwnBytes), div_up(kLeastGroups, s_.batch));
    divide(std::min(windows, taps_.grid[0]));
    groups_ = std::min(kGroups, s_.batch * windows_);
    round_ = std::clamp<int64_t>(kOwnBytes / window, 1, div_up(s_.batch * windows_, groups_));
  } else {
    if (window > kGradBytes) divide(std::min(div_up(window, kGradBytes), taps_.grid[0]));
    round_ = std::clamp<int64_t>(kGradBytes / window, 1, s_.batch * windows_);
  }
  item_taps_ = pairs >= 4 * threads_ ? taps : 1;
  x_bytes_ = static_cast<size_t>(4 * round_ * x_strips * x_strip_);
  dy_bytes_ = static_cast<size_t>(4 * round_ * dy_strips * k_tiles_ * kTile);
  const int64_t item_sums = 4 * item_taps_ * kBlock * kBlock, pixels = (2 * pairs_ + 2) * 32;
  buffer_bytes_ = static_cast<size_t>(std::max(item_sums, round_up(pixels, 64)));
  group_bytes_ = static_cast<size_t>(groups_ * sums);
  thread_bytes_ = buffer_bytes_ + (groups_ > 0 ? x_bytes_ + dy_bytes_ : 0);
  if (s_.plain_x && s_.kernel[0] > 1)
    turned_bytes_ = static_cast<size_t>(round_up(4 * s_.weights(), 64));
  scratch_ = turned_bytes_ + group_bytes_ + static_cast<size_t>(threads_) * thread_bytes_ +
             (groups_ > 0 ? 0 : x_bytes_ + dy_bytes_);
}

void AmxConvWeightGrad::run(const uint16_t* x, const uint16_t* dy, float* dw, void* scratch) const {
  auto* turned = static_cast<float*>(scratch);
  char* groups = static_cast<char*>(scratch) + turned_bytes_;
  char* threads = groups + group_bytes_;
  char* shared = threads + static_cast<size_t>(threads_) * thread_bytes_;
  const AmxWeightGradRun pass{*this,
                              taps_,
                              x,
                              dy,
                              turned_bytes_ > 0 ? turned : dw,
                              reinterpret_cast<uint32_t*>(shared),
                              reinterpret_cast<uint32_t*>(shared + x_bytes_)};
  pass.run(threads, reinterpret_cast<float*>(groups));
  if (turned_bytes_ > 0) turn_weights(given_, true, turned, dw);
}

#else

AmxConvWeightGrad::AmxConvWeightGrad(const AmxConvShape&) {
  throw Error(ErrorCode::kInternal, "a convolution for tiles on a processor without them");
}
void AmxConvWeightGrad::run(const uint16_t*, const uint16_t*, float*, void*) const {}

#endif

}  // namespace trainrt
