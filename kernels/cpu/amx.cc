#include "kernels/cpu/amx.h"

#include "kernels/cpu/amx_tiles.h"

#if TRAINRT_AMX
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#else
#include "trainrt/error.h"
#endif

namespace trainrt {

#if TRAINRT_AMX

bool cpu_has_amx() {
  static const bool has = [] {
    for (const bool feature :
         {__builtin_cpu_supports("avx512f") != 0, __builtin_cpu_supports("avx512bw") != 0,
          __builtin_cpu_supports("avx512dq") != 0, __builtin_cpu_supports("avx512vl") != 0,
          __builtin_cpu_supports("avx512bf16") != 0, __builtin_cpu_supports("amx-tile") != 0,
          __builtin_cpu_supports("amx-bf16") != 0}) {
      if (!feature) return false;
    }
    // Linux gives a process the tiles' state when it asks (Documentation/arch/x86/xstate.rst).
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

namespace {

// A block of the packed operand stays in the second-level cache (2 MiB), a panel of the streamed
// one and the sums in the first two.
constexpr int64_t kBlockBytes = 1536 << 10;
constexpr int64_t kPanelDepth = 1024;

/// Part of an operand that is packed at once.
struct Region {
  const uint16_t* data;
  const AmxMatrix* matrix;
  int64_t k0, k;  // inner dims [k0, k0 + k)
};

}  // namespace

HWY_PUSH_ATTRIBUTES(TRAINRT_AMX_TARGET)

namespace {

using amx::kBlock;
using amx::kDepth;
using amx::kLines;
using amx::kTile;

/// Packs up to 16 lines: tiles of dwords (line, pair), or (pair, line) for a right operand.
void pack_strip(const Region& r, int64_t line, int64_t lines, bool right, uint32_t* out) {
  const AmxMatrix& m = *r.matrix;
  const bool along = m.k_stride == 1;  // a vector holds neighbours along the inner dim
  for (int64_t k = 0; k < r.k; k += kDepth, out += kTile) {
    const int64_t rest = r.k - k;
    for (int64_t i = 0; i < kLines; ++i) {  // a line, or a pair of inner dims
      if (along) {
        const uint16_t* x = r.data + (line + i) * m.line_stride + r.k0 + k;
        const __m256i low = _mm256_maskz_loadu_epi16(i < lines ? amx::first(rest) : 0, x),
                      high =
                          _mm256_maskz_loadu_epi16(i < lines ? amx::first(rest - 16) : 0, x + 16);
        _mm512_store_si512(out + 16 * i, amx::follow(low, high));
      } else {
        const uint16_t* x = r.data + line * m.line_stride + (r.k0 + k + 2 * i) * m.k_stride;
        const __mmask16 mask = amx::first(lines);
        const __m256i low = _mm256_maskz_loadu_epi16(2 * i < rest ? mask : 0, x),
                      high = _mm256_maskz_loadu_epi16(2 * i + 1 < rest ? mask : 0, x + m.k_stride);
        _mm512_store_si512(out + 16 * i, amx::interleave(low, high));
      }
    }
    if (along == right) amx::transpose(out);
  }
}

/// Where a block of sums goes.
struct Target {
  void* out;
  const float* bias;
  int64_t pitch;
  bool bf16, relu, add;  // add: to what earlier inner dims have left there
};

/// Stores the sums of block (row, column) with what follows the product.
void finish(const float* sums, const Target& t, int64_t row, int64_t rows, int64_t column,
            int64_t columns) {
  for (int64_t half = 0; half < columns; half += 16) {
    const __mmask16 mask = amx::first(columns - half);
    const __m512 bias = t.bias == nullptr ? _mm512_setzero_ps()
                                          : _mm512_maskz_loadu_ps(mask, t.bias + column + half);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = (row + i) * t.pitch + column + half;
      __m512 y = _mm512_load_ps(sums + i * kBlock + half);
      if (t.add) {
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, static_cast<const float*>(t.out) + at));
      }
      if (t.bias != nullptr) y = _mm512_add_ps(y, bias);
      // The second operand is the result when one is NaN.
      if (t.relu) y = _mm512_max_ps(_mm512_setzero_ps(), y);
      if (t.bf16) {
        _mm256_mask_storeu_epi16(static_cast<uint16_t*>(t.out) + at, mask,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(y)));
      } else {
        _mm512_mask_storeu_ps(static_cast<float*>(t.out) + at, mask, y);
      }
    }
  }
}

/// A panel is two strips of lines.
int64_t panel_dwords(int64_t k) { return 2 * div_up(k, kDepth) * kTile; }

/// Packs up to 32 lines.
void pack_panel(const Region& r, int64_t line, bool right, uint32_t* tiles) {
  for (int64_t end = std::min(line + kBlock, r.matrix->lines); line < end; line += kLines) {
    pack_strip(r, line, std::min(kLines, end - line), right, tiles);
    tiles += panel_dwords(r.k) / 2;
  }
}

/// The sums of two panels.
void block(const Region& a, const uint32_t* a_tiles, int64_t row, const Region& b,
           const uint32_t* b_tiles, int64_t column, const Target& target, float* sums) {
  const int64_t rows = std::min(kBlock, a.matrix->lines - row),
                columns = std::min(kBlock, b.matrix->lines - column);
  amx::multiply(a_tiles, rows > kLines, b_tiles, columns > kLines, div_up(a.k, kDepth), sums);
  finish(sums, target, row, rows, column, columns);
}

struct Work {
  uint32_t* tiles;  // of the packed operand's block
  char* threads;    // sums and a panel for each
  size_t thread_bytes;
};

/// Runs a product in blocks of `shared` lines by `depth` inner dims of the operand that is packed
/// whole; the other one is packed a panel at a time, by the thread that multiplies it.
void multiply_blocks(const AmxProduct& p, bool stream_a, int64_t depth, int64_t shared, int threads,
                     const uint16_t* a, const uint16_t* b, const Target& target, const Work& work) {
  const int64_t k_blocks = div_up(p.k, depth);
#pragma omp parallel num_threads(threads)
  {
    amx::configure();
    char* own = work.threads + static_cast<size_t>(omp_get_thread_num()) * work.thread_bytes;
    auto* sums = reinterpret_cast<float*>(own);
    auto* panel = reinterpret_cast<uint32_t*>(own + kBlock * kBlock * sizeof(float));
    Region ra{a, &p.a, 0, 0}, rb{b, &p.b, 0, 0};
    const Region &packed = stream_a ? rb : ra, &streamed = stream_a ? ra : rb;
    for (int64_t from = 0; from < packed.matrix->lines; from += shared) {
      const int64_t lines = std::min(shared, packed.matrix->lines - from),
                    panels = div_up(lines, kBlock);
      for (int64_t k = 0; k < k_blocks; ++k) {
        ra.k0 = rb.k0 = k * depth;
        ra.k = rb.k = std::min(depth, p.k - k * depth);
        const int64_t size = panel_dwords(ra.k);
        Target t = target;
        t.add = k > 0;
        if (k + 1 < k_blocks) {
          t.bias = nullptr;
          t.relu = false;
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < panels; ++i) {
          pack_panel(packed, from + i * kBlock, stream_a, work.tiles + i * size);
        }
#pragma omp for schedule(dynamic)
        for (int64_t line = 0; line < streamed.matrix->lines; line += kBlock) {
          pack_panel(streamed, line, !stream_a, panel);
          for (int64_t i = 0; i < panels; ++i) {
            const uint32_t* other = work.tiles + i * size;
            if (stream_a)
              block(ra, panel, line, rb, other, from + i * kBlock, t, sums);
            else
              block(ra, other, from + i * kBlock, rb, panel, line, t, sums);
          }
        }
      }
    }
    _tile_release();
  }
}

}  // namespace

HWY_POP_ATTRIBUTES

AmxMatMul::AmxMatMul(const AmxProduct& product)
    : p_(product), stream_a_(product.a.lines >= product.b.lines), threads_(cpu_threads()) {
  // Blocks of inner dims add up in the result, so a bfloat16 one takes a single block, which may
  // outgrow the cache.
  k_block_ = round_up(p_.out_bf16 ? p_.k : std::min(p_.k, kPanelDepth), amx::kDepth);
  const int64_t panel_bytes = 4 * panel_dwords(k_block_);
  const int64_t packed = div_up(stream_a_ ? p_.b.lines : p_.a.lines, amx::kBlock),
                panels = std::min(packed, std::max<int64_t>(kBlockBytes / panel_bytes, 1));
  shared_ = panels * amx::kBlock;
  threads_at_ = static_cast<size_t>(panels * panel_bytes);
  thread_bytes_ = static_cast<size_t>(4 * amx::kBlock * amx::kBlock + panel_bytes);
  scratch_ = threads_at_ + static_cast<size_t>(threads_) * thread_bytes_;
}

void AmxMatMul::run(const uint16_t* a, const uint16_t* b, void* out, const float* bias,
                    void* scratch) const {
  char* base = static_cast<char*>(scratch);
  const Work work{reinterpret_cast<uint32_t*>(base), base + threads_at_, thread_bytes_};
  const Target target{out, bias, p_.b.lines, p_.out_bf16, p_.relu, false};
  const int threads = omp_in_parallel() ? 1 : std::min(threads_, cpu_threads());
  multiply_blocks(p_, stream_a_, k_block_, shared_, threads, a, b, target, work);
}

#else

bool cpu_has_amx() { return false; }

AmxMatMul::AmxMatMul(const AmxProduct&) {
  throw Error(ErrorCode::kInternal, "a product for tiles on a processor without them");
}
void AmxMatMul::run(const uint16_t*, const uint16_t*, void*, const float*, void*) const {}

#endif

}  // namespace trainrt
