// Sweeps over blocks of 16 channels, as Layout::kNChw16c stores them: `pixels` rows of 16 floats.
#ifndef TRAINRT_KERNELS_CPU_BLOCK_OPS_H_
#define TRAINRT_KERNELS_CPU_BLOCK_OPS_H_

#include <cstdint>

#include "graph/attrs.h"
#include "graph/types.h"

namespace trainrt {

inline constexpr int64_t kBlockChannels = 16;

/// Mean and sum of squared deviations of each channel over `count` pixels.
struct BlockMoments {
  double count = 0;
  double mean[kBlockChannels] = {};
  double squares[kBlockChannels] = {};
};

/// act(a (x - mean) + b) and what its gradient needs, per channel of a block.
struct BlockNorm {
  float mean[kBlockChannels], a[kBlockChannels], b[kBlockChannels];
  Activation activation = Activation::kNone;
  float lo = 0, hi = 0;
};

/// dx = dy g + x (x - mean) + constant, g being dy where the activation lets it pass.
struct BlockNormGrad {
  float dy[kBlockChannels], x[kBlockChannels], constant[kBlockChannels];
};

struct BlockSums {
  double g[kBlockChannels] = {};
  double gx[kBlockChannels] = {};  // of g (x - mean)
};

/// Whether a result is too large for the caches to hold it until its reader comes: stores that pass
/// by the cache save reading the lines first.
inline bool passes_by_cache(const TensorType& t) { return t.bytes() > (size_t{1} << 20); }

struct BlockOps {
  /// Adds `pixels` to the moments (pairwise update of Chan, Golub and LeVeque).
  void (*moments)(const float* x, int64_t pixels, BlockMoments& m);
  /// y = act(a (x - mean) + b + residual); residual may be null, y may be an operand. `stream`: y
  /// passes by the cache.
  void (*normalize)(const BlockNorm& n, const float* x, const float* residual, bool stream,
                    float* y, int64_t pixels);
  /// Adds the sums of g and g (x - mean). The mask follows from x, or from y unless that is null;
  /// g is stored unless that is null, and may be dy.
  void (*grad_sums)(const BlockNorm& n, const float* dy, const float* x, const float* y, float* g,
                    int64_t pixels, BlockSums& sums);
  /// dx may be an operand. `masked`: dy is g already. `stream`: dx passes by the cache, and who
  /// asks for it calls hwy::FlushStream() before other threads read.
  void (*grad)(const BlockNorm& n, const BlockNormGrad& k, bool masked, const float* dy,
               const float* x, bool stream, float* dx, int64_t pixels);

  /// best[j] = max(best[j], x[j * stride]) for `outputs` rows of 16; NaN wins.
  void (*max)(const float* x, int64_t stride, float* best, int64_t outputs);
  /// As max; where x wins, at[j] becomes `tap`.
  void (*arg_max)(const float* x, int64_t stride, int32_t tap, float* best, int32_t* at,
                  int64_t outputs);
  /// dx[j * stride] += dy[j] where at[j] is `tap`
  void (*scatter)(const float* dy, const int32_t* at, int32_t tap, int64_t stride, float* dx,
                  int64_t outputs);
};

/// For the best target of this processor.
const BlockOps& block_ops();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_BLOCK_OPS_H_
