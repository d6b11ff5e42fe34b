// Products by tiles of 64 x 64 results, a block of 256 threads for each.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_TILES_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_TILES_H_

#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {

// Lines (rows of the left, columns of the right operand) and inner dims in shared memory at a time.
constexpr int kTile = 64, kDepth = 16;
constexpr int kPitch = kTile + 1;  // a line's inner dims lie in different banks

// The type in which sums of products of T are made: integers wrap around.
template <typename T>
struct SumOfProducts {
  using type = u32;
};
template <>
struct SumOfProducts<float> {
  using type = float;
};
template <>
struct SumOfProducts<bf16> {
  using type = float;
};
template <>
struct SumOfProducts<double> {
  using type = double;
};
template <>
struct SumOfProducts<i64> {
  using type = u64;
};
template <>
struct SumOfProducts<u64> {
  using type = u64;
};
template <typename T>
using Sum = typename SumOfProducts<T>::type;

template <typename T>
__device__ Sum<T> to_sum(T x) {
  return static_cast<Sum<T>>(x);
}
__device__ inline float to_sum(bf16 x) { return widen(x); }

template <typename Out>
struct Computed {
  using type = Out;
};
template <>
struct Computed<bf16> {
  using type = float;
};

/// What is stored for a sum. ReLU keeps NaN.
template <typename Out, typename S>
__device__ Out finished(S sum, bool relu) {
  using C = typename Computed<Out>::type;
  const C value = static_cast<C>(sum);
  return Stored<Out>::from(relu && value == value && !(value > 0) ? C(0) : value);
}

struct Divided {
  i64 quotient, rest;
};
/// Of numbers that are not negative; a division of 64 bits takes several times as long as one
/// of 32.
__device__ inline Divided divide(i64 a, i64 b) {
  if (((a | b) >> 32) == 0) {
    const u32 q = static_cast<u32>(a) / static_cast<u32>(b);
    return {q, static_cast<u32>(a) - q * static_cast<u32>(b)};
  }
  return {a / b, a % b};
}

__device__ inline i64 tiles_along(i64 lines) { return (lines + kTile - 1) / kTile; }

/// Which elements of a tile a thread fetches: neighbouring threads take neighbours along the inner
/// dim or along the lines, as they lie in memory.
template <bool kAlongDepth>
struct Share {
  __device__ static int line(int r) {
    return kAlongDepth ? static_cast<int>(threadIdx.x) / kDepth + 16 * r
                       : static_cast<int>(threadIdx.x) % kTile;
  }
  __device__ static int depth(int r) {
    return kAlongDepth ? static_cast<int>(threadIdx.x) % kDepth
                       : static_cast<int>(threadIdx.x) / kTile + 4 * r;
  }
};

/// An operand: element (line, depth) lies at line * line_stride + depth * depth_stride.
template <typename T, bool kAlongDepth>
struct Strided {
  using At = Share<kAlongDepth>;
  const T* base;  // of this thread's first element at depth 0
  i64 lines, line_stride, depth_stride;
  Sum<T> values[4];

  /// Lines [first, first + lines) of `data`.
  __device__ Strided(const T* data, i64 first, i64 all, i64 line_step, i64 depth_step)
      : base(data + (first + At::line(0)) * line_step + At::depth(0) * depth_step),
        lines(all - first),
        line_stride(line_step),
        depth_stride(depth_step) {}

  __device__ void look(i64, i64) {}
  __device__ void fetch(i64 k, i64 end) {
    const i64 step = kAlongDepth ? 16 * line_stride : 4 * depth_stride;
    const T* from = base + k * depth_stride;
    for (int r = 0; r < 4; ++r) {
      const bool there = At::line(r) < lines && k + At::depth(r) < end;
      values[r] = there ? to_sum(from[r * step]) : Sum<T>(0);
    }
  }
  __device__ void put(Sum<T> (*tile)[kPitch]) const {
    for (int r = 0; r < 4; ++r) tile[At::depth(r)][At::line(r)] = values[r];
  }
};

/// Shared memory of a kernel. One for all products in it: what each of them declared would add up.
template <typename S>
struct Tiles {
  S a[kDepth][kPitch], b[kDepth][kPitch];
};

/// sums[r][s] of row threadIdx.x / 16 + 16 r and column threadIdx.x % 16 + 16 s of the tile, over
/// inner dims [begin, end). Operands are asked three things: look(k, end) may write to shared
/// memory what fetch(k, end) reads behind a barrier; fetch() reads the elements of this thread from
/// memory; put() writes them to the tile.
template <typename S, typename A, typename B>
__device__ void multiply(Tiles<S>& tiles, S (&sums)[4][4], i64 begin, i64 end, A& a, B& b) {
  const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16;
  for (int r = 0; r < 4; ++r) {
    for (int s = 0; s < 4; ++s) sums[r][s] = 0;
  }
  if (begin >= end) return;
  a.look(begin, end);
  b.look(begin, end);
  __syncthreads();
  a.fetch(begin, end);
  b.fetch(begin, end);
  __syncthreads();
  for (i64 k = begin; k < end; k += kDepth) {
    const i64 next = k + kDepth;
    a.put(tiles.a);
    b.put(tiles.b);
    if (next < end) {
      a.look(next, end);
      b.look(next, end);
    }
    __syncthreads();
    if (next < end) {  // on its way while this tile is computed
      a.fetch(next, end);
      b.fetch(next, end);
    }
    TRAINRT_UNROLL
    for (int d = 0; d < kDepth; ++d) {
      S x[4], y[4];
      TRAINRT_UNROLL
      for (int r = 0; r < 4; ++r) {
        x[r] = tiles.a[d][row + 16 * r];
        y[r] = tiles.b[d][column + 16 * r];
      }
      TRAINRT_UNROLL
      for (int r = 0; r < 4; ++r) {
        TRAINRT_UNROLL
        for (int s = 0; s < 4; ++s) sums[r][s] += x[r] * y[s];
      }
    }
    __syncthreads();
  }
}

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_TILES_H_
