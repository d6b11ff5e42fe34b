// The steps of AMX kernels: vectors and tiles of packed operands, and blocks of tile products. Code
// that uses them stands between HWY_PUSH_ATTRIBUTES(TRAINRT_AMX_TARGET) and HWY_POP_ATTRIBUTES, and
// is there only where TRAINRT_AMX is 1.
#ifndef TRAINRT_KERNELS_CPU_AMX_TILES_H_
#define TRAINRT_KERNELS_CPU_AMX_TILES_H_

#if defined(__x86_64__) && defined(__linux__)
#define TRAINRT_AMX 1
#else
#define TRAINRT_AMX 0
#endif

#if TRAINRT_AMX

#include <immintrin.h>

#include <cstdint>

#include "hwy/base.h"

// What cpu_has_amx() asks for.
#define TRAINRT_AMX_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16"

HWY_PUSH_ATTRIBUTES(TRAINRT_AMX_TARGET)

namespace trainrt {
namespace amx {

constexpr int64_t kLines = 16;          // of a strip: rows or columns of one tile
constexpr int64_t kDepth = 32;          // inner dims of a tile
constexpr int64_t kTile = 256;          // dwords of a tile: pairs of bfloat16 along the inner dim
constexpr int64_t kBlock = 2 * kLines;  // rows and columns of a block of sums

// Tiles 0-3 are sums, 4 and 5 of the left operand, 6 and 7 of the right one; all are full.
inline void configure() {
  struct alignas(64) Config {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static const Config config;
  _tile_loadconfig(&config);
}

/// 32 bfloat16 values as 16 pairs of neighbours.
inline __m512i follow(__m256i x, __m256i y) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
}
/// 32 bfloat16 values as 16 pairs of one from each vector.
inline __m512i interleave(__m256i x, __m256i y) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(x), _mm512_slli_epi32(_mm512_cvtepu16_epi32(y), 16));
}
/// Mask of the first n of 16 elements.
inline __mmask16 first(int64_t n) {
  return n >= 16 ? 0xFFFF : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1);
}

/// Transposes a tile of 16x16 dwords in place.
inline void transpose(uint32_t* tile) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(tile + 16 * i);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + 2 + j]);
      r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + 2 + j]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
  for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + 16 * i, r[i]);
}

/// Clears the sums of one or two strips each.
template <bool kTwoA, bool kTwoB>
inline void clear_sums() {
  _tile_zero(0);
  if (kTwoB) _tile_zero(1);
  if (kTwoA) _tile_zero(2);
  if (kTwoA && kTwoB) _tile_zero(3);
}

/// The sums of out[32][32] so far.
template <bool kTwoA, bool kTwoB>
inline void load_sums(const float* out) {
  _tile_loadd(0, out, 4 * kBlock);
  if (kTwoB) _tile_loadd(1, out + kLines, 4 * kBlock);
  if (kTwoA) _tile_loadd(2, out + kLines * kBlock, 4 * kBlock);
  if (kTwoA && kTwoB) _tile_loadd(3, out + kLines * kBlock + kLines, 4 * kBlock);
}

/// Adds the products of a tile of each strip.
template <bool kTwoA, bool kTwoB>
inline void add_products(const void* a, const void* a1, const void* b, const void* b1) {
  _tile_loadd(4, a, 64);
  if (kTwoA) _tile_loadd(5, a1, 64);
  _tile_loadd(6, b, 64);
  if (kTwoB) _tile_loadd(7, b1, 64);
  _tile_dpbf16ps(0, 4, 6);
  if (kTwoB) _tile_dpbf16ps(1, 4, 7);
  if (kTwoA) _tile_dpbf16ps(2, 5, 6);
  if (kTwoA && kTwoB) _tile_dpbf16ps(3, 5, 7);
}

/// Sums to out[32][32].
template <bool kTwoA, bool kTwoB>
inline void store_sums(float* out) {
  _tile_stored(0, out, 4 * kBlock);
  if (kTwoB) _tile_stored(1, out + kLines, 4 * kBlock);
  if (kTwoA) _tile_stored(2, out + kLines * kBlock, 4 * kBlock);
  if (kTwoA && kTwoB) _tile_stored(3, out + kLines * kBlock + kLines, 4 * kBlock);
}

/// Fetches the tile at `tile` into the first-level cache.
inline void fetch(const uint32_t* tile) {
  for (int64_t line = 0; line < kTile; line += 16) _mm_prefetch(tile + line, _MM_HINT_T0);
}

/// Sums of the products of k_tiles tiles of one or two strips each; they go to out[32][32]. A
/// strip's tiles lie one after another, the second strip behind the first.
template <bool kTwoA, bool kTwoB>
inline void multiply(const uint32_t* a, const uint32_t* b, int64_t k_tiles, float* out) {
  const uint32_t *a1 = a + k_tiles * kTile, *b1 = b + k_tiles * kTile;
  clear_sums<kTwoA, kTwoB>();
  for (int64_t k = 0; k < k_tiles; ++k, a += kTile, a1 += kTile, b += kTile, b1 += kTile) {
    // One operand lies in the first-level cache, the other one, usually the right one, in the
    // second-level cache: fetch its next tiles meanwhile.
    fetch(b + kTile);
    if (kTwoB) fetch(b1 + kTile);
    add_products<kTwoA, kTwoB>(a, a1, b, b1);
  }
  store_sums<kTwoA, kTwoB>(out);
}

inline void multiply(const uint32_t* a, bool two_a, const uint32_t* b, bool two_b, int64_t k_tiles,
                     float* out) {
  if (two_a)
    two_b ? multiply<true, true>(a, b, k_tiles, out) : multiply<true, false>(a, b, k_tiles, out);
  else
    two_b ? multiply<false, true>(a, b, k_tiles, out) : multiply<false, false>(a, b, k_tiles, out);
}

}  // namespace amx
}  // namespace trainrt

HWY_POP_ATTRIBUTES

#endif  // TRAINRT_AMX

#endif  // TRAINRT_KERNELS_CPU_AMX_TILES_H_
