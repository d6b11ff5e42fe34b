#include "kernels/cuda/device/matmul.h"
#include "kernels/cuda/device/tiles.h"

namespace trainrt::cuda {
namespace {

template <typename T, typename Out, typename Bias, bool kDepthA, bool kDepthB>
__device__ void multiply_all(const MatMulArguments& args, Tiles<Sum<T>>& tiles) {
  using S = Sum<T>;
  const i64 rows = tiles_along(args.m), columns = tiles_along(args.n);
  const i64 all = rows * columns * args.batches * args.parts;
  for (i64 tile = blockIdx.x; tile < all; tile += gridDim.x) {
    const Divided by_column = divide(tile, columns), by_row = divide(by_column.quotient, rows);
    const Divided by_batch = divide(by_row.quotient, args.batches);
    const i64 row = by_row.rest * kTile, column = by_column.rest * kTile;
    const i64 batch = by_batch.rest, part = by_batch.quotient;
    i64 rest = batch, a_at = 0, b_at = 0;
    for (int d = args.rank - 1; d >= 0; --d) {
      const Divided at = divide(rest, args.sizes[d]);
      a_at += at.rest * args.a_strides[d];
      b_at += at.rest * args.b_strides[d];
      rest = at.quotient;
    }
    Strided<T, kDepthA> a(static_cast<const T*>(args.a) + a_at, row, args.m, args.a_row,
                          args.a_column);
    Strided<T, kDepthB> b(static_cast<const T*>(args.b) + b_at, column, args.n, args.b_column,
                          args.b_row);
    const i64 begin = part * args.part;
    S sums[4][4];
    multiply(tiles, sums, begin, min(args.k, begin + args.part), a, b);
    const Bias* bias = static_cast<const Bias*>(args.bias);
    for (int r = 0; r < 4; ++r) {
      const i64 i = row + threadIdx.x / 16 + 16 * r;
      for (int s = 0; s < 4; ++s) {
        const i64 j = column + threadIdx.x % 16 + 16 * s;
        if (i >= args.m || j >= args.n) continue;
        const i64 at = (by_row.quotient * args.m + i) * args.n + j;
        if (args.parts > 1) {
          static_cast<S*>(args.c)[at] = sums[r][s];
        } else {
          const S sum = bias == nullptr ? sums[r][s] : sums[r][s] + to_sum(bias[j]);
          static_cast<Out*>(args.c)[at] = finished<Out>(sum, args.relu);
        }
      }
    }
  }
}

template <typename T, typename Out, typename Bias>
__device__ void matmul(const MatMulArguments& args) {
  __shared__ Tiles<Sum<T>> tiles;
  if (args.a_column == 1) {
    if (args.b_column == 1) return multiply_all<T, Out, Bias, true, false>(args, tiles);
    return multiply_all<T, Out, Bias, true, true>(args, tiles);
  }
  if (args.b_column == 1) return multiply_all<T, Out, Bias, false, false>(args, tiles);
  multiply_all<T, Out, Bias, false, true>(args, tiles);
}

}  // namespace

#define MATMUL(T, Out, Bias, suffix) \
  TRAINRT_KERNEL(matmul_##suffix, MatMulArguments) { matmul<T, Out, Bias>(args); }

MATMUL(float, float, float, f32)
MATMUL(double, double, double, f64)
MATMUL(bf16, bf16, float, bf16)
MATMUL(bf16, float, float, bf16_f32)
MATMUL(signed char, signed char, signed char, i8)
MATMUL(short, short, short, i16)
MATMUL(int, int, int, i32)
MATMUL(i64, i64, i64, i64)
MATMUL(unsigned char, unsigned char, unsigned char, u8)
MATMUL(unsigned short, unsigned short, unsigned short, u16)
MATMUL(u32, u32, u32, u32)
MATMUL(u64, u64, u64, u64)

}  // namespace trainrt::cuda
