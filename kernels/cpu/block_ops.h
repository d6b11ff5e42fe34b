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

/// On float32 activations, or on bfloat16 ones (T = uint16_t) that are computed on as float32.
template <typename T>
struct BlockOps {
  /// Adds `pixels` to the moments (pairwise update of Chan, Golub and LeVeque).
  void (*moments)(const T* x, int64_t pixels, BlockMoments& m);
  /// y = act(a (x - mean) + b + residual); residual may be null, y may be an operand. `stream`: y
  /// passes by the cache.
  void (*normalize)(const BlockNorm& n, const T* x, const T* residual, bool stream, T* y,
                    int64_t pixels);
  /// Adds the sums of g and g (x - mean). The mask follows from x, or from y unless that is null;
  /// g is stored unless that is null, and may be dy.
  void (*grad_sums)(const BlockNorm& n, const T* dy, const T* x, const T* y, T* g, int64_t pixels,
                    BlockSums& sums);
  /// dx may be an operand. `masked`: dy is g already. `stream`: dx passes by the cache, and who
  /// asks for it calls hwy::FlushStream() before other threads read.
  void (*grad)(const BlockNorm& n, const BlockNormGrad& k, bool masked, const T* dy, const T* x,
               bool stream, T* dx, int64_t pixels);
  /// grad_sums and grad of a dy that was just made: without y, not masked, dx past the cache.
  void (*row_grad_sums)(const BlockNorm& n, const float* dy, const T* x, T* g, int64_t pixels,
                        BlockSums& sums);
  void (*row_grad)(const BlockNorm& n, const BlockNormGrad& k, const float* dy, const T* x, T* dx,
                   int64_t pixels);

  /// best[j] = max(best[j], x[j * stride]) for `outputs` rows of 16; NaN wins.
  void (*max)(const T* x, int64_t stride, T* best, int64_t outputs);
  /// As max; where x wins, at[j] becomes `tap`.
  void (*arg_max)(const T* x, int64_t stride, int32_t tap, float* best, int32_t* at,
                  int64_t outputs);
  /// dx[j * stride] += dy[j] where at[j] is `tap`
  void (*scatter)(const T* dy, const int32_t* at, int32_t tap, int64_t stride, float* dx,
                  int64_t outputs);
};

/// For the best target of this processor.
template <typename T>
const BlockOps<T>& block_ops();

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_BLOCK_OPS_H_
