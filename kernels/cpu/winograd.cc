#include "kernels/cpu/winograd.h"

#include <algorithm>

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/winograd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 16;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

#if HWY_TARGET_IS_NEON || HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int64_t kVectors = 4;  // beside six rows, where there are 32 registers
#else
constexpr int64_t kVectors = 2;
#endif

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V set(float x) { return hn::Set(D(), x); }

/// B^T d: six operands of a row or column.
HWY_INLINE void input_row(const V* d, V* out) {
  const V four = set(4), five = set(5), two = set(2);
  const V a = hn::NegMulAdd(four, d[2], d[4]), b = hn::NegMulAdd(four, d[1], d[3]);
  const V c = hn::Sub(d[4], d[2]), e = hn::Mul(two, hn::Sub(d[3], d[1]));
  out[0] = hn::MulAdd(four, d[0], hn::NegMulAdd(five, d[2], d[4]));
  out[1] = hn::Add(a, b);
  out[2] = hn::Sub(a, b);
  out[3] = hn::Add(c, e);
  out[4] = hn::Sub(c, e);
  out[5] = hn::MulAdd(four, d[1], hn::NegMulAdd(five, d[3], d[5]));
}

/// A^T m: six products to four results.
HWY_INLINE void output_row(const V* m, V* out) {
  const V a = hn::Add(m[1], m[2]), b = hn::Sub(m[1], m[2]);
  const V c = hn::Add(m[3], m[4]), d = hn::Sub(m[3], m[4]);
  out[0] = hn::Add(m[0], hn::Add(a, c));
  out[1] = hn::MulAdd(set(2), d, b);
  out[2] = hn::MulAdd(set(4), c, a);
  out[3] = hn::Add(hn::MulAdd(set(8), d, b), m[5]);
}

/// A g, the adjoint of output_row.
HWY_INLINE void gradient_row(const V* g, V* out) {
  const V a = hn::Add(g[0], g[2]), b = hn::Add(g[1], g[3]);
  const V c = hn::MulAdd(set(4), g[2], g[0]);
  const V d = hn::MulAdd(set(8), g[3], hn::Mul(set(2), g[1]));
  out[0] = g[0];
  out[1] = hn::Add(a, b);
  out[2] = hn::Sub(a, b);
  out[3] = hn::Add(c, d);
  out[4] = hn::Sub(c, d);
  out[5] = g[3];
}

/// G w: three taps to six points.
HWY_INLINE void weight_row(V x, V y, V z, V* out) {
  const V a = hn::Mul(set(-1.0f / 6), hn::Add(x, z)), b = hn::Mul(set(-1.0f / 6), y);
  const V c = hn::MulAdd(set(1.0f / 24), x, hn::Mul(set(1.0f / 6), z));
  const V d = hn::Mul(set(1.0f / 12), y);
  out[0] = hn::Mul(set(0.25f), x);
  out[1] = hn::Add(a, b);
  out[2] = hn::Sub(a, b);
  out[3] = hn::Add(c, d);
  out[4] = hn::Sub(c, d);
  out[5] = z;
}

/// G^T d, the adjoint of weight_row.
HWY_INLINE void tap_row(const V* d, V* out) {
  const V a = hn::Add(d[1], d[2]), b = hn::Sub(d[2], d[1]);
  const V c = hn::Add(d[3], d[4]), e = hn::Sub(d[3], d[4]);
  out[0] = hn::MulAdd(set(1.0f / 24), c, hn::MulAdd(set(-1.0f / 6), a, hn::Mul(set(0.25f), d[0])));
  out[1] = hn::MulAdd(set(1.0f / 12), e, hn::Mul(set(1.0f / 6), b));
  out[2] = hn::Add(hn::MulAdd(set(1.0f / 6), c, hn::Mul(set(-1.0f / 6), a)), d[5]);
}

struct Tile {
  int64_t image, row, column;  // first pixel, padding not taken off
};

HWY_INLINE Tile tile_at(const WinogradImage& x, int64_t t) {
  const int64_t area = x.tiles_down * x.tiles_across, r = t % area;
  return {t / area, r / x.tiles_across * 4, r % x.tiles_across * 4};
}

/// Loads kSize x kSize pixels of a tile, zeros outside of the image, and transforms both ways.
template <int64_t kSize, typename Row>
HWY_INLINE void transform_tiles(const WinogradImage& x, const float* data, int64_t first,
                                int64_t count, int64_t tiles, int64_t from, int64_t to, float* v,
                                const Row& row) {
  const D d;
  const int64_t blocks = x.channels / kBlock, plane = x.height * x.width * kBlock;
  const int64_t point = blocks * tiles * kBlock;
  for (int64_t block = from; block < to; ++block) {
    for (int64_t t = 0; t < count; ++t) {
      const Tile tile = tile_at(x, first + t);
      const int64_t top = tile.row - x.pad_top, left = tile.column - x.pad_left;
      const float* image = data + (tile.image * blocks + block) * plane;
      const bool inside =
          top >= 0 && left >= 0 && top + kSize <= x.height && left + kSize <= x.width;
      for (int64_t c = 0; c < kBlock; c += lanes()) {
        V half[kSize][6];
#pragma GCC unroll 6
        for (int64_t i = 0; i < kSize; ++i) {
          V line[kSize];
          const float* pixels = image + ((top + i) * x.width + left) * kBlock + c;
          if (HWY_LIKELY(inside)) {
#pragma GCC unroll 6
            for (int64_t j = 0; j < kSize; ++j) line[j] = hn::LoadU(d, pixels + j * kBlock);
          } else {
            const bool real = top + i >= 0 && top + i < x.height;
#pragma GCC unroll 6
            for (int64_t j = 0; j < kSize; ++j) {
              line[j] = real && left + j >= 0 && left + j < x.width
                            ? hn::LoadU(d, pixels + j * kBlock)
                            : hn::Zero(d);
            }
          }
          row(line, half[i]);
        }
        float* out = v + (block * tiles + t) * kBlock + c;
#pragma GCC unroll 6
        for (int64_t j = 0; j < 6; ++j) {
          V column[kSize], points[6];
#pragma GCC unroll 6
          for (int64_t i = 0; i < kSize; ++i) column[i] = half[i][j];
          row(column, points);
#pragma GCC unroll 6
          for (int64_t i = 0; i < 6; ++i) hn::StoreU(points[i], d, out + (i * 6 + j) * point);
        }
      }
    }
  }
}

void transform_input(const WinogradImage& x, const float* data, int64_t first, int64_t count,
                     int64_t tiles, int64_t from, int64_t to, float* v) {
  transform_tiles<6>(x, data, first, count, tiles, from, to, v,
                     [](const V* in, V* out) HWY_ATTR { input_row(in, out); });
}

void transform_gradient(const WinogradImage& y, const float* data, int64_t first, int64_t count,
                        int64_t tiles, int64_t from, int64_t to, float* v) {
  transform_tiles<4>(y, data, first, count, tiles, from, to, v,
                     [](const V* in, V* out) HWY_ATTR { gradient_row(in, out); });
}

void transform_output(const WinogradImage& y, const float* m, int64_t point, int64_t first,
                      int64_t count, int64_t tiles, int64_t from, int64_t to, const float* bias,
                      bool relu, float* data) {
  const D d;
  const int64_t blocks = y.channels / kBlock, plane = y.height * y.width * kBlock;
  for (int64_t block = from; block < to; ++block) {
    for (int64_t t = 0; t < count; ++t) {
      const Tile tile = tile_at(y, first + t);
      float* image = data + (tile.image * blocks + block) * plane;
      const int64_t down = std::min<int64_t>(4, y.height - tile.row);
      const int64_t across = std::min<int64_t>(4, y.width - tile.column);
      for (int64_t c = 0; c < kBlock; c += lanes()) {
        const float* points = m + ((block - from) * tiles + t) * kBlock + c;
        V half[6][4];
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) {
          V line[6];
#pragma GCC unroll 6
          for (int64_t j = 0; j < 6; ++j) line[j] = hn::LoadU(d, points + (i * 6 + j) * point);
          output_row(line, half[i]);
        }
        const V shift = bias != nullptr ? hn::LoadU(d, bias + block * kBlock + c) : hn::Zero(d);
#pragma GCC unroll 4
        for (int64_t j = 0; j < 4; ++j) {
          if (j >= across) break;
          V column[6], out[4];
#pragma GCC unroll 6
          for (int64_t i = 0; i < 6; ++i) column[i] = half[i][j];
          output_row(column, out);
          float* pixels = image + (tile.row * y.width + tile.column + j) * kBlock + c;
#pragma GCC unroll 4
          for (int64_t i = 0; i < 4; ++i) {
            V r = hn::Add(out[i], shift);
            if (relu) r = hn::IfThenZeroElse(hn::Le(r, hn::Zero(d)), r);
            if (i < down) hn::StoreU(r, d, pixels + i * y.width * kBlock);
          }
        }
      }
    }
  }
}

void transform_weights(const WinogradWeights& w, int64_t output, int64_t width, int64_t from,
                       int64_t to, int64_t point, float* u) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto index = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(w.output_stride)));
  for (int64_t c = from; c < to; ++c) {
    for (int64_t k = 0; k < width; k += lanes()) {
      const float* taps = w.w + (output + k) * w.output_stride + c * w.input_stride;
      V half[3][6];
#pragma GCC unroll 3
      for (int64_t i = 0; i < 3; ++i) {
        V t[3];
#pragma GCC unroll 3
        for (int64_t j = 0; j < 3; ++j) {
          const int64_t tap = i * 3 + j;
          t[j] = hn::GatherIndex(d, taps + (w.turned ? 8 - tap : tap), index);
        }
        weight_row(t[0], t[1], t[2], half[i]);
      }
      float* out = u + (c - from) * width + k;
#pragma GCC unroll 6
      for (int64_t j = 0; j < 6; ++j) {
        V points[6];
        weight_row(half[0][j], half[1][j], half[2][j], points);
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) hn::StoreU(points[i], d, out + (i * 6 + j) * point);
      }
    }
  }
}

/// The address of channel `k` of tile 0 in blocks of 16.
HWY_INLINE int64_t channel(int64_t k, int64_t tiles) {
  return k / kBlock * tiles * kBlock + k % kBlock;
}

template <int64_t N>
HWY_INLINE void product_tile(const float* v, const float* u, int64_t inputs, int64_t width,
                             int64_t tiles, bool add, int64_t k, float* m) {
  const D d;
  V sum[kWinogradRows][N];
  float* out[N];
#pragma GCC unroll 4
  for (int64_t j = 0; j < N; ++j) out[j] = m + channel(k + j * lanes(), tiles);
#pragma GCC unroll 6
  for (int64_t i = 0; i < kWinogradRows; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < N; ++j) {
      sum[i][j] = add ? hn::LoadU(d, out[j] + i * kBlock) : hn::Zero(d);
    }
  }
  for (int64_t block = 0; block < inputs; block += kBlock) {
    const float* left = v + block * tiles;
    for (int64_t c = 0; c < kBlock; ++c, u += width) {
      V right[N];
#pragma GCC unroll 4
      for (int64_t j = 0; j < N; ++j) right[j] = hn::LoadU(d, u + k + j * lanes());
#pragma GCC unroll 6
      for (int64_t i = 0; i < kWinogradRows; ++i) {
        const V x = hn::Set(d, left[i * kBlock + c]);
#pragma GCC unroll 4
        for (int64_t j = 0; j < N; ++j) sum[i][j] = hn::MulAdd(x, right[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 6
  for (int64_t i = 0; i < kWinogradRows; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < N; ++j) hn::StoreU(sum[i][j], d, out[j] + i * kBlock);
  }
}

/// f(N, k) for runs of N vectors from channel k on that cover `width` channels.
template <typename F>
HWY_INLINE void for_each_run(int64_t width, const F& f) {
  int64_t k = 0;
  for (; k + kVectors * lanes() <= width; k += kVectors * lanes()) {
    f(std::integral_constant<int64_t, kVectors>(), k);
  }
  for (; k < width; k += lanes()) f(std::integral_constant<int64_t, 1>(), k);
}

void product(const float* v, const float* u, int64_t inputs, int64_t width, int64_t rows,
             int64_t tiles, bool add, float* m) {
  for_each_run(width, [&](auto n, int64_t k) HWY_ATTR {
    for (int64_t t = 0; t < rows; t += kWinogradRows) {
      product_tile<n()>(v + t * kBlock, u, inputs, width, tiles, add, k, m + t * kBlock);
    }
  });
}

template <int64_t N>
HWY_INLINE void weight_tile(const float* v, const float* z, int64_t width, int64_t count,
                            int64_t tiles, bool add, int64_t k, float* d_out) {
  const D d;
  V sum[4][N];
  const float* right[N];
#pragma GCC unroll 4
  for (int64_t j = 0; j < N; ++j) right[j] = z + channel(k + j * lanes(), tiles);
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < N; ++j) {
      sum[i][j] = add ? hn::LoadU(d, d_out + i * width + k + j * lanes()) : hn::Zero(d);
    }
  }
  for (int64_t t = 0; t < count; ++t) {
    V b[N];
#pragma GCC unroll 4
    for (int64_t j = 0; j < N; ++j) b[j] = hn::LoadU(d, right[j] + t * kBlock);
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; ++i) {
      const V x = hn::Set(d, v[t * kBlock + i]);
#pragma GCC unroll 4
      for (int64_t j = 0; j < N; ++j) sum[i][j] = hn::MulAdd(x, b[j], sum[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < N; ++j) {
      hn::StoreU(sum[i][j], d, d_out + i * width + k + j * lanes());
    }
  }
}

void weight_product(const float* v, const float* z, int64_t width, int64_t count, int64_t tiles,
                    bool add, float* d) {
  for_each_run(width, [&](auto n, int64_t k)
                          HWY_ATTR { weight_tile<n()>(v, z, width, count, tiles, add, k, d); });
}

void weight_gradient(const float* d_in, int64_t input, int64_t output, int64_t width,
                     int64_t inputs, float* dw) {
  const D d;
  for (int64_t c = 0; c < 4; ++c) {
    for (int64_t k = 0; k < width; k += lanes()) {
      V half[6][3];
#pragma GCC unroll 6
      for (int64_t i = 0; i < 6; ++i) {
        V line[6];
#pragma GCC unroll 6
        for (int64_t j = 0; j < 6; ++j) {
          line[j] = hn::LoadU(d, d_in + ((i * 6 + j) * 4 + c) * width + k);
        }
        tap_row(line, half[i]);
      }
      HWY_ALIGN float taps[9][kBlock];
#pragma GCC unroll 3
      for (int64_t j = 0; j < 3; ++j) {
        V column[6], out[3];
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) column[i] = half[i][j];
        tap_row(column, out);
#pragma GCC unroll 3
        for (int64_t i = 0; i < 3; ++i) hn::Store(out[i], d, taps[i * 3 + j]);
      }
      for (int64_t lane = 0; lane < lanes(); ++lane) {
        float* to = dw + ((output + k + lane) * inputs + input + c) * 9;
        for (int64_t tap = 0; tap < 9; ++tap) to[tap] = taps[tap][lane];
      }
    }
  }
}

}  // namespace

WinogradOps make_winograd_ops() {
  return {transform_input, transform_gradient, transform_output, transform_weights,
          product,         weight_product,     weight_gradient};
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(make_winograd_ops);

const WinogradOps& winograd_ops() {
  static const WinogradOps ops = HWY_DYNAMIC_DISPATCH(make_winograd_ops)();
  return ops;
}

}  // namespace trainrt
#endif
