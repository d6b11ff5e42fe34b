#include "kernels/cuda/device/layer_norm.h"
#include "kernels/cuda/device/team-inl.h"

namespace trainrt::cuda {
namespace {

/// Elements of each thread that are on their way at once where rows do not fit into registers.
constexpr int kChunk = 8;

template <typename T>
__device__ T affine(const LayerNormArguments& args, T normal, i64 column) {
  if (args.scale == nullptr) return normal;
  const T scaled = normal * static_cast<const T*>(args.scale)[column];
  return args.bias == nullptr ? scaled : scaled + static_cast<const T*>(args.bias)[column];
}

template <typename T>
__device__ void store_statistics(const LayerNormArguments& args, i64 row, T mean, T inverse) {
  if (args.mean != nullptr) static_cast<T*>(args.mean)[row] = mean;
  static_cast<T*>(args.inverse)[row] = inverse;
}

/// y = (x - mean) / sd scale + bias, rows of up to N * kSize elements.
template <typename Team, int N, typename T>
__device__ void forward_rows(const LayerNormArguments& args) {
  const int rank = Team::rank(), limit = static_cast<int>(args.width) - rank;
  const T count = static_cast<T>(args.width);
  for (i64 row = Team::index(); row < args.rows; row += Team::count()) {
    const i64 first = row * args.width + rank;
    T v[N];
    load_items(args.x, args.x_half != 0, first, Team::kSize, limit, v);
    T mean = 0;
    if (args.mean != nullptr) {
      TRAINRT_UNROLL
      for (int k = 0; k < N; ++k) mean += v[k];
      mean = Team::template join<SumOf>(mean, T(0)) / count;
    }
    T squares = 0;
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      v[k] -= mean;
      if (k * Team::kSize < limit) squares += v[k] * v[k];
    }
    squares = Team::template join<SumOf>(squares, T(0));
    const T inverse = T(1) / sqrt(squares / count + static_cast<T>(args.epsilon));
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k * Team::kSize < limit) v[k] = affine(args, v[k] * inverse, rank + k * Team::kSize);
    }
    store_items(args.y, args.y_half != 0, first, Team::kSize, limit, v);
    if (rank == 0) store_statistics(args, row, mean, inverse);
  }
}

/// Calls f(first, limit) for the chunks of a row that a thread of the block takes.
template <typename F>
__device__ void for_chunks(i64 width, F f) {
  for (i64 i = threadIdx.x; i < width; i += kChunk * Block::kSize) f(i, width - i);
}

/// A block for each row, which it reads three times.
template <typename T>
__device__ void forward_long(const LayerNormArguments& args) {
  const T count = static_cast<T>(args.width);
  constexpr i64 kStep = Block::kSize;
  for (i64 row = Block::index(); row < args.rows; row += Block::count()) {
    const i64 first = row * args.width;
    T mean = 0;
    if (args.mean != nullptr) {
      for_chunks(args.width, [&](i64 i, i64 limit) {
        T v[kChunk];
        load_items(args.x, args.x_half != 0, first + i, kStep, limit, v);
        for (int k = 0; k < kChunk; ++k) mean += v[k];
      });
      mean = Block::join<SumOf>(mean, T(0)) / count;
    }
    T squares = 0;
    for_chunks(args.width, [&](i64 i, i64 limit) {
      T v[kChunk];
      load_items(args.x, args.x_half != 0, first + i, kStep, limit, v);
      for (int k = 0; k < kChunk; ++k) {
        if (k * kStep < limit) squares += (v[k] - mean) * (v[k] - mean);
      }
    });
    squares = Block::join<SumOf>(squares, T(0));
    const T inverse = T(1) / sqrt(squares / count + static_cast<T>(args.epsilon));
    for_chunks(args.width, [&](i64 i, i64 limit) {
      T v[kChunk];
      load_items(args.x, args.x_half != 0, first + i, kStep, limit, v);
      for (int k = 0; k < kChunk; ++k) {
        if (k * kStep < limit) v[k] = affine(args, (v[k] - mean) * inverse, i + k * kStep);
      }
      store_items(args.y, args.y_half != 0, first + i, kStep, limit, v);
    });
    if (threadIdx.x == 0) store_statistics(args, row, mean, inverse);
  }
}

/// g = dy scale and z = (x - mean) / sd of N elements of a row; 0 beyond its end.
template <int N, typename T, typename I>
__device__ void load_gradients(const LayerNormGradArguments& args, i64 row, i64 column, I step,
                               I limit, T mean, T inverse, T (&g)[N], T (&z)[N]) {
  const i64 first = row * args.width + column;
  load_items(args.dy, args.dy_half != 0, first, step, limit, g);
  load_items(args.x, args.x_half != 0, first, step, limit, z);
  TRAINRT_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k * step < limit) {
      if (args.scale != nullptr) g[k] *= static_cast<const T*>(args.scale)[column + k * step];
      z[k] = (z[k] - mean) * inverse;
    }
  }
}

/// dx = (g - mean(g) - z mean(g z)) / sd; RmsNorm: mean(g) is taken as 0.
template <typename Team, int N, typename T>
__device__ void backward_rows(const LayerNormGradArguments& args) {
  const int rank = Team::rank(), limit = static_cast<int>(args.width) - rank;
  const T count = static_cast<T>(args.width);
  for (i64 row = Team::index(); row < args.rows; row += Team::count()) {
    const T mean = args.mean == nullptr ? T(0) : static_cast<const T*>(args.mean)[row];
    const T inverse = static_cast<const T*>(args.inverse)[row];
    T g[N], z[N], sum = 0, product = 0;
    load_gradients(args, row, rank, Team::kSize, limit, mean, inverse, g, z);
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      sum += g[k];
      product += g[k] * z[k];
    }
    sum = args.mean == nullptr ? T(0) : Team::template join<SumOf>(sum, T(0)) / count;
    product = Team::template join<SumOf>(product, T(0)) / count;
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) g[k] = (g[k] - sum - z[k] * product) * inverse;
    store_items(args.dx, args.dx_half != 0, row * args.width + rank, Team::kSize, limit, g);
  }
}

template <typename T>
__device__ void backward_long(const LayerNormGradArguments& args) {
  const T count = static_cast<T>(args.width);
  constexpr i64 kStep = Block::kSize;
  for (i64 row = Block::index(); row < args.rows; row += Block::count()) {
    const T mean = args.mean == nullptr ? T(0) : static_cast<const T*>(args.mean)[row];
    const T inverse = static_cast<const T*>(args.inverse)[row];
    T sum = 0, product = 0;
    for_chunks(args.width, [&](i64 i, i64 limit) {
      T g[kChunk], z[kChunk];
      load_gradients(args, row, i, kStep, limit, mean, inverse, g, z);
      for (int k = 0; k < kChunk; ++k) {
        sum += g[k];
        product += g[k] * z[k];
      }
    });
    sum = args.mean == nullptr ? T(0) : Block::join<SumOf>(sum, T(0)) / count;
    product = Block::join<SumOf>(product, T(0)) / count;
    for_chunks(args.width, [&](i64 i, i64 limit) {
      T g[kChunk], z[kChunk];
      load_gradients(args, row, i, kStep, limit, mean, inverse, g, z);
      for (int k = 0; k < kChunk; ++k) g[k] = (g[k] - sum - z[k] * product) * inverse;
      store_items(args.dx, args.dx_half != 0, row * args.width + i, kStep, limit, g);
    });
  }
}

/// dscale = sum over rows of dy z, dbias = sum over rows of dy
template <typename T>
__device__ void column_sums(const LayerNormSumsArguments& args) {
  const i64 begin = args.rows * blockIdx.y / gridDim.y,
            end = args.rows * (blockIdx.y + 1) / gridDim.y;
  const i64 splits = 256 / args.lanes, split = threadIdx.x / args.lanes;
  const i64 column = i64{blockIdx.x} * args.lanes + threadIdx.x % args.lanes;
  T scale = 0, bias = 0;
  constexpr int kRows = 4;
  for (i64 r = begin + split; r < end && column < args.width; r += kRows * splits) {
    const i64 first = r * args.width + column, step = splits * args.width,
              limit = (end - r) * args.width;
    T dy[kRows], x[kRows];
    load_items(args.dy, args.dy_half != 0, first, step, limit, dy);
    load_items(args.x, args.x_half != 0, first, step, limit, x);
    TRAINRT_UNROLL
    for (int k = 0; k < kRows; ++k) {
      const i64 row = r + k * splits;
      if (row >= end) continue;
      const T mean = args.mean == nullptr ? T(0) : static_cast<const T*>(args.mean)[row];
      scale += dy[k] * ((x[k] - mean) * static_cast<const T*>(args.inverse)[row]);
      bias += dy[k];
    }
  }
  scale = join_lanes<SumOf>(scale, args.lanes);
  bias = join_lanes<SumOf>(bias, args.lanes);
  if (split > 0 || column >= args.width) return;
  static_cast<T*>(args.dscale)[column * gridDim.y + blockIdx.y] = scale;
  if (args.dbias != nullptr) static_cast<T*>(args.dbias)[column * gridDim.y + blockIdx.y] = bias;
}

}  // namespace

#define LAYER_NORM(direction, prefix, Arguments, T, suffix)                                      \
  TRAINRT_KERNEL(prefix##_warp2_##suffix, Arguments) { direction##_rows<Warp, 2, T>(args); }     \
  TRAINRT_KERNEL(prefix##_warp8_##suffix, Arguments) { direction##_rows<Warp, 8, T>(args); }     \
  TRAINRT_KERNEL(prefix##_warp32_##suffix, Arguments) { direction##_rows<Warp, 32, T>(args); }   \
  TRAINRT_KERNEL(prefix##_block16_##suffix, Arguments) { direction##_rows<Block, 16, T>(args); } \
  TRAINRT_KERNEL(prefix##_long_##suffix, Arguments) { direction##_long<T>(args); }

LAYER_NORM(forward, layer_norm, LayerNormArguments, float, f32)
LAYER_NORM(forward, layer_norm, LayerNormArguments, double, f64)
LAYER_NORM(backward, layer_norm_grad, LayerNormGradArguments, float, f32)
LAYER_NORM(backward, layer_norm_grad, LayerNormGradArguments, double, f64)

TRAINRT_KERNEL(layer_norm_sums_f32, LayerNormSumsArguments) { column_sums<float>(args); }
TRAINRT_KERNEL(layer_norm_sums_f64, LayerNormSumsArguments) { column_sums<double>(args); }

}  // namespace trainrt::cuda
