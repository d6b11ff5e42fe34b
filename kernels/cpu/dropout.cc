// Dropout: the mask of kernels/philox.h, the blocks of a vector's worth of counters side by side.
#include <cmath>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/threads.h"
#include "kernels/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;

/// Low and high words of a * m.
HWY_INLINE void wide_multiply(DU d, VU a, VU m, VU& lo, VU& hi) {
  const auto even = hn::MulEven(a, m), odd = hn::MulOdd(a, m);
  const VU even32 = hn::BitCast(d, even), odd32 = hn::BitCast(d, odd);
  lo = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), even32);
  hi = hn::OddEven(odd32, hn::BitCast(d, hn::ShiftRight<32>(even)));
}

/// Words of blocks [block, block + lanes), whose numbers share their upper half.
HWY_INLINE void philox_blocks(DU d, const Philox& p, uint64_t block, uint32_t* words) {
  uint32_t k0 = static_cast<uint32_t>(p.seed) ^ (p.stream * 0x9E3779B9u);
  uint32_t k1 = static_cast<uint32_t>(p.seed >> 32) + p.stream;
  const VU m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  VU c0 = hn::Iota(d, static_cast<uint32_t>(block));
  VU c1 = hn::Set(d, static_cast<uint32_t>(block >> 32));
  VU c2 = hn::Set(d, static_cast<uint32_t>(p.step));
  VU c3 = hn::Set(d, static_cast<uint32_t>(p.step >> 32));
  for (int round = 0; round < 10; ++round) {
    VU lo0, hi0, lo1, hi1;
    wide_multiply(d, c0, m0, lo0, hi0);
    wide_multiply(d, c2, m1, lo1, hi1);
    c0 = hn::Xor3(hi1, c1, hn::Set(d, k0));
    c1 = lo1;
    c2 = hn::Xor3(hi0, c3, hn::Set(d, k1));
    c3 = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, words);
}

/// Elements [begin, end); begin is a multiple of 4. A word stays when its upper 24 bits are at
/// least `threshold`.
void dropout_range(const float* x, float* y, int64_t begin, int64_t end, const Philox& p,
                   uint32_t threshold, float scale) {
  const DF d;
  const DU du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const VU bound = hn::Set(du, threshold);
  const auto factor = hn::Set(d, scale);
  HWY_ALIGN uint32_t words[4 * HWY_MAX_LANES_D(DF)];
  int64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    const uint64_t block = static_cast<uint64_t>(i / 4);
    if (static_cast<uint32_t>(block) + static_cast<uint64_t>(lanes) > (uint64_t{1} << 32)) break;
    philox_blocks(du, p, block, words);
    for (int64_t k = 0; k < 4 * lanes; k += lanes) {
      const auto keep = hn::Ge(hn::ShiftRight<8>(hn::Load(du, words + k)), bound);
      const auto v = hn::Mul(hn::LoadU(d, x + i + k), factor);
      hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, keep), v), d, y + i + k);
    }
  }
  for (; i < end; ++i) {
    const bool keep = philox_word(p, static_cast<uint64_t>(i)) >> 8 >= threshold;
    y[i] = keep ? x[i] * scale : 0.0f;
  }
}

}  // namespace

void run_dropout(const float* x, float* y, int64_t begin, int64_t end, const Philox& p,
                 uint32_t threshold, float scale) {
  dropout_range(x, y, begin, end, p, threshold, scale);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(run_dropout);

namespace {

Support takes_dropout(const NodeView& node) { return float_only(node.inputs.first(1)); }

std::unique_ptr<Kernel> plan_dropout(const NodeView& node, Scratch&) {
  const auto& attr = node.attr<DropoutAttrs>();
  const int64_t n = node.outputs[0].size();
  const uint32_t stream = static_cast<uint32_t>(attr.stream);
  // to_uniform(word) >= ratio, in whole numbers
  const uint32_t threshold = static_cast<uint32_t>(std::ceil(attr.ratio * 16777216.0));
  const float scale = static_cast<float>(attr.ratio < 1 ? 1 / (1 - attr.ratio) : 0);
  const auto run = HWY_DYNAMIC_POINTER(run_dropout);
  return make_kernel([=](const KernelArgs& args) {
    const int64_t* rng = args.input<int64_t>(1);
    const Philox p{static_cast<uint64_t>(rng[0]), static_cast<uint64_t>(rng[1]), stream};
    const float* x = args.input<float>(0);
    float* y = args.output<float>(0);
    parallel_ranges((n + 3) / 4, kParallelElements / 16, [&](int64_t begin, int64_t end) {
      run(x, y, begin * 4, std::min(end * 4, n), p, threshold, scale);
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kDropout, "cpu.dropout", takes_dropout, plan_dropout, true},
};

}  // namespace

std::span<const KernelRow> dropout_rows() { return kRows; }

}  // namespace trainrt
#endif
