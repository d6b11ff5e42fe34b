#include "kernels/cpu/depthwise.h"

#include <algorithm>

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/depthwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kMaxKernel = 5;

/// Copies a row of pixels, or normalises it.
template <Activation A, bool kNorm, typename T>
HWY_INLINE void copy_row_as(const T* x, int64_t pixels, const BlockNorm* norm, float* to) {
  const D d;
  for_each_part([&](int64_t c) HWY_ATTR {
    if constexpr (kNorm) {
      const Part part(d, *norm, c);
      BlockNorm fixed = *norm;
      fixed.activation = A;
      for (int64_t i = c; i < pixels * kStride; i += kStride) {
        hn::StoreU(activated(d, fixed, part.apply(load(d, x + i))), d, to + i);
      }
    } else {
      for (int64_t i = c; i < pixels * kStride; i += kStride) {
        hn::StoreU(load(d, x + i), d, to + i);
      }
    }
  });
}

template <typename T>
void copy_row(const T* x, int64_t pixels, const BlockNorm* norm, float* to) {
  if (norm == nullptr) return copy_row_as<Activation::kNone, false>(x, pixels, norm, to);
  switch (norm->activation) {
    case Activation::kNone:
      return copy_row_as<Activation::kNone, true>(x, pixels, norm, to);
    case Activation::kRelu:
      return copy_row_as<Activation::kRelu, true>(x, pixels, norm, to);
    case Activation::kClip:
      return copy_row_as<Activation::kClip, true>(x, pixels, norm, to);
  }
}

/// The rows of a plane that a row of results reads, between zeros, and a row of zeros.
template <typename T>
class Rows {
 public:
  Rows(const T* plane, int64_t height, int64_t width, int64_t pad, int64_t padded, int64_t depth,
       const BlockNorm* norm, float* buffer)
      : plane_(plane),
        height_(height),
        width_(width),
        pad_(pad),
        padded_(padded),
        depth_(depth),
        norm_(norm),
        buffer_(buffer) {
    std::fill_n(buffer, (depth + 1) * padded * kStride, 0.0f);
  }

  /// Rows up to `row` are there from now on, the last `depth` of them.
  HWY_INLINE void fill(int64_t row) {
    for (; next_ <= std::min(row, height_ - 1); ++next_) {
      copy_row(plane_ + next_ * width_ * kStride, std::min(width_, padded_ - pad_), norm_,
               buffer_ + (next_ % depth_ * padded_ + pad_) * kStride);
    }
  }
  bool inside(int64_t row) const { return row >= 0 && row < height_; }
  const float* at(int64_t row) const {
    return buffer_ + (inside(row) ? row % depth_ : depth_) * padded_ * kStride;
  }

 private:
  const T* plane_;
  int64_t height_, width_, pad_, padded_, depth_;
  const BlockNorm* norm_;
  float* buffer_;
  int64_t next_ = 0;
};

/// The padded rows of x for row `o` of y.
template <typename T>
Rows<T> operand_rows(const DepthwiseShape& s, const T* x, const BlockNorm* norm, float* buffer) {
  return Rows<T>(x, s.height, s.width, s.pad_left, (s.out_width - 1) * s.stride + s.kernel,
                 s.kernel, norm, buffer);
}

struct Tap {
  const float *x, *w;  // what the first result multiplies, channel 0
};

/// kCount results from `first` on, whose operands lie kStep pixels apart.
template <int64_t kStep, int kCount, typename Finish>
HWY_INLINE void tile(const Tap* taps, int64_t count, int64_t first, int64_t c,
                     const Finish& finish) {
  const D d;
  V sum[kCount];
#pragma GCC unroll 8
  for (int b = 0; b < kCount; ++b) sum[b] = hn::Zero(d);
  for (int64_t t = 0; t < count; ++t) {
    const V w = hn::LoadU(d, taps[t].w + c);
    const float* x = taps[t].x + first * kStep * kStride + c;
#pragma GCC unroll 8
    for (int b = 0; b < kCount; ++b) {
      sum[b] = hn::MulAdd(w, hn::LoadU(d, x + b * kStep * kStride), sum[b]);
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < kCount; ++b) finish(first + b, sum[b]);
}

/// finish(i, sum) for results [0, n) of a row, in tiles of up to eight, about equally large.
template <int64_t kStep, typename Finish>
HWY_INLINE void row_of(const Tap* taps, int64_t count, int64_t n, int64_t c, const Finish& finish) {
  int64_t i = 0;
  for (int64_t tiles = (n + 7) / 8; tiles > 0; --tiles) {
    const int64_t size = (n - i + tiles - 1) / tiles;
    switch (size) {
#define TRAINRT_TILE(k)                        \
  case k:                                      \
    tile<kStep, k>(taps, count, i, c, finish); \
    break;
      TRAINRT_TILE(1)
      TRAINRT_TILE(2)
      TRAINRT_TILE(3)
      TRAINRT_TILE(4)
      TRAINRT_TILE(5)
      TRAINRT_TILE(6)
      TRAINRT_TILE(7)
      TRAINRT_TILE(8)
#undef TRAINRT_TILE
    }
    i += size;
  }
}

template <int64_t kStep, bool kPastCache, typename T>
void forward_as(const DepthwiseShape& s, const T* x, const BlockNorm* norm, const float* w,
                float* buffer, T* y) {
  Rows<T> rows = operand_rows(s, x, norm, buffer);
  Tap taps[kMaxKernel * kMaxKernel];
  for (int64_t o = 0; o < s.out_height; ++o) {
    const int64_t top = o * s.stride - s.pad_top;
    rows.fill(top + s.kernel - 1);
    int64_t count = 0;
    for (int64_t r = 0; r < s.kernel; ++r) {
      if (!rows.inside(top + r)) continue;
      for (int64_t v = 0; v < s.kernel; ++v) {
        taps[count++] = {rows.at(top + r) + v * kStride, w + (r * s.kernel + v) * kStride};
      }
    }
    T* to = y + o * s.out_width * kStride;
    for_each_part([&](int64_t c) HWY_ATTR {
      row_of<kStep>(taps, count, s.out_width, c,
                    [&](int64_t j, V sum) HWY_ATTR { put<kPastCache>(sum, to + j * kStride + c); });
    });
  }
}

template <typename T>
void forward(const DepthwiseShape& s, const T* x, const BlockNorm* norm, const float* w,
             bool stream, float* buffer, T* y) {
  if (s.stride == 1) {
    stream ? forward_as<1, true>(s, x, norm, w, buffer, y)
           : forward_as<1, false>(s, x, norm, w, buffer, y);
  } else {
    stream ? forward_as<2, true>(s, x, norm, w, buffer, y)
           : forward_as<2, false>(s, x, norm, w, buffer, y);
  }
  hwy::FlushStream();
}

/// f(h, row) with each row of dx.
// Row h of dx belongs to tap r of row o of y where h + pad = o stride + r; so with
// h + pad = q stride + phase, tap phase + u stride meets row q - u. Columns likewise: pixels of one
// phase have the same taps. They go through a row in the cache, so that memory is written in order.
template <typename T, typename F>
HWY_INLINE void for_each_gradient_row(const DepthwiseShape& s, const T* dy, const float* w,
                                      float* buffer, const F& f) {
  const D d;
  const int64_t reach = (s.kernel + s.stride - 1) / s.stride;  // most taps of a phase
  float* row = buffer;
  Rows<T> rows(dy, s.out_height, s.out_width, reach - 1,
               (s.width - 1 + s.pad_left) / s.stride + reach, reach, nullptr,
               buffer + s.width * kStride);
  Tap taps[kMaxKernel * kMaxKernel];
  for (int64_t h = 0; h < s.height; ++h) {
    const int64_t q = (h + s.pad_top) / s.stride, row_phase = (h + s.pad_top) % s.stride;
    rows.fill(q);
    for (int64_t phase = 0; phase < s.stride; ++phase) {
      const int64_t m = std::max<int64_t>(s.pad_left - phase + s.stride - 1, 0) / s.stride;
      const int64_t first = m * s.stride + phase - s.pad_left;  // column of dx
      if (first >= s.width) continue;
      int64_t count = 0;
      for (int64_t r = row_phase, o = q; r < s.kernel; r += s.stride, --o) {
        if (!rows.inside(o)) continue;
        for (int64_t v = phase, t = 0; v < s.kernel; v += s.stride, ++t) {
          taps[count++] = {rows.at(o) + (m - t + reach - 1) * kStride,
                           w + (r * s.kernel + v) * kStride};
        }
      }
      const int64_t n = (s.width - first + s.stride - 1) / s.stride, step = s.stride * kStride;
      float* to = row + first * kStride;
      for_each_part([&](int64_t c) HWY_ATTR {
        row_of<1>(taps, count, n, c,
                  [&](int64_t j, V sum) HWY_ATTR { hn::StoreU(sum, d, to + j * step + c); });
      });
    }
    f(h, row);
  }
}

template <bool kPastCache, typename T>
void data_grad_as(const DepthwiseShape& s, const T* dy, const float* w, float* buffer, T* dx) {
  const D d;
  for_each_gradient_row(s, dy, w, buffer, [&](int64_t h, const float* row) HWY_ATTR {
    T* to = dx + h * s.width * kStride;
    for_each_part([&](int64_t c) HWY_ATTR {
      for (int64_t i = c; i < s.width * kStride; i += kStride) {
        put<kPastCache>(hn::LoadU(d, row + i), to + i);
      }
    });
  });
  if constexpr (kPastCache) hwy::FlushStream();
}

template <typename T>
void data_grad(const DepthwiseShape& s, const T* dy, const float* w, bool stream, float* buffer,
               T* dx) {
  stream ? data_grad_as<true>(s, dy, w, buffer, dx) : data_grad_as<false>(s, dy, w, buffer, dx);
}

template <typename T>
void norm_grad_sums(const DepthwiseShape& s, const T* dy, const float* w, const BlockNorm& norm,
                    const T* x, float* buffer, T* g, BlockSums& sums) {
  const BlockOps<T>& ops = block_ops<T>();
  for_each_gradient_row(s, dy, w, buffer, [&](int64_t h, const float* row) {
    const int64_t at = h * s.width * kStride;
    ops.row_grad_sums(norm, row, x + at, g != nullptr ? g + at : nullptr, s.width, sums);
  });
}

template <typename T>
void norm_grad(const DepthwiseShape& s, const T* dy, const float* w, const BlockNorm& norm,
               const BlockNormGrad& k, const T* x, float* buffer, T* dx) {
  const BlockOps<T>& ops = block_ops<T>();
  for_each_gradient_row(s, dy, w, buffer, [&](int64_t h, const float* row) {
    const int64_t at = h * s.width * kStride;
    ops.row_grad(norm, k, row, x + at, dx + at, s.width);
  });
  hwy::FlushStream();
}

template <int64_t kStep, int kKernel, typename T>
void weight_grad_as(const DepthwiseShape& s, const T* x, const BlockNorm* norm, const T* dy,
                    float* buffer, float* dw) {
  const D d;
  std::fill_n(dw, s.taps() * kStride, 0.0f);
  Rows<T> rows = operand_rows(s, x, norm, buffer);
  for (int64_t o = 0; o < s.out_height; ++o) {
    const int64_t top = o * s.stride - s.pad_top;
    rows.fill(top + kKernel - 1);
    const float* row[kKernel];
    for (int r = 0; r < kKernel; ++r) row[r] = rows.at(top + r);
    const T* from = dy + o * s.out_width * kStride;
    for_each_part([&](int64_t c) HWY_ATTR {
      V sum[kKernel][kKernel];
#pragma GCC unroll 8
      for (int r = 0; r < kKernel; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < kKernel; ++v) sum[r][v] = hn::Zero(d);
      }
      for (int64_t i = c; i < s.out_width * kStride; i += kStride) {
        const V g = load(d, from + i);
#pragma GCC unroll 8
        for (int r = 0; r < kKernel; ++r) {
          const float* p = row[r] + (i - c) * kStep + c;
#pragma GCC unroll 8
          for (int v = 0; v < kKernel; ++v) {
            sum[r][v] = hn::MulAdd(g, hn::LoadU(d, p + v * kStride), sum[r][v]);
          }
        }
      }
      float* to = dw + c;
#pragma GCC unroll 8
      for (int r = 0; r < kKernel; ++r) {
#pragma GCC unroll 8
        for (int v = 0; v < kKernel; ++v) {
          hn::StoreU(hn::Add(hn::LoadU(d, to), sum[r][v]), d, to);
          to += kStride;
        }
      }
    });
  }
}

template <typename T>
void weight_grad(const DepthwiseShape& s, const T* x, const BlockNorm* norm, const T* dy,
                 float* buffer, float* dw) {
  if (s.kernel == 3) {
    s.stride == 1 ? weight_grad_as<1, 3>(s, x, norm, dy, buffer, dw)
                  : weight_grad_as<2, 3>(s, x, norm, dy, buffer, dw);
  } else {
    s.stride == 1 ? weight_grad_as<1, 5>(s, x, norm, dy, buffer, dw)
                  : weight_grad_as<2, 5>(s, x, norm, dy, buffer, dw);
  }
}

template <typename T>
DepthwiseOps<T> make_ops() {
  return {forward<T>, data_grad<T>, weight_grad<T>, norm_grad_sums<T>, norm_grad<T>};
}

}  // namespace

DepthwiseOps<float> make_float_depthwise() { return make_ops<float>(); }
DepthwiseOps<uint16_t> make_bf16_depthwise() { return make_ops<uint16_t>(); }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(make_float_depthwise);
HWY_EXPORT(make_bf16_depthwise);

template <>
const DepthwiseOps<float>& depthwise_ops<float>() {
  static const DepthwiseOps<float> ops = HWY_DYNAMIC_DISPATCH(make_float_depthwise)();
  return ops;
}

template <>
const DepthwiseOps<uint16_t>& depthwise_ops<uint16_t>() {
  static const DepthwiseOps<uint16_t> ops = HWY_DYNAMIC_DISPATCH(make_bf16_depthwise)();
  return ops;
}

}  // namespace trainrt
#endif
