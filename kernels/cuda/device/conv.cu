// Convolutions as products by tiles that gather one operand, a group at a time.
#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/device/conv_window.h"

namespace trainrt::cuda {
namespace {

/// What the inner dims of a tile have in common, in shared memory.
struct Depths {
  Place place[kDepth];
  i64 other[kDepth];  // of the operand that is not gathered
};

/// An operand that lies in x at a window (of a line or an inner dim) and a tap (of the other).
template <typename T, bool kLinesAreWindows>
struct Gathered {
  static constexpr bool kAlongDepth = !kLinesAreWindows;  // windows are neighbours in memory
  static constexpr int kLines = kAlongDepth ? 4 : 1;
  using At = Share<kAlongDepth>;
  const ConvArguments& args;
  const T* x;  // of the group
  Depths& depths;
  Place place[kLines];
  bool there[kLines];
  Sum<T> values[4];

  __device__ Gathered(const ConvArguments& conv, const T* from, Depths& shared, i64 first,
                      i64 lines)
      : args(conv), x(from), depths(shared) {
    for (int r = 0; r < kLines; ++r) {
      const i64 line = first + At::line(r);
      there[r] = line < lines;
      place[r] = kLinesAreWindows ? window_place(args, there[r] ? line : 0)
                                  : tap_place(args, there[r] ? line : 0);
    }
  }
  __device__ void look(i64 k, i64 end) {
    const i64 depth = k + threadIdx.x;
    if (threadIdx.x >= kDepth || depth >= end) return;
    depths.place[threadIdx.x] =
        kLinesAreWindows ? tap_place(args, depth) : window_place(args, depth);
  }
  __device__ void fetch(i64 k, i64 end) {
    for (int r = 0; r < 4; ++r) {
      const int line = kLines == 1 ? 0 : r, depth = At::depth(r);
      values[r] = 0;
      if (!there[line] || k + depth >= end) continue;
      const Place& tap = depths.place[depth];
      if (inside(place[line].at, tap.at, args.in)) {
        values[r] = to_sum(x[place[line].offset + tap.offset]);
      }
    }
  }
  __device__ void put(Sum<T> (*tile)[kPitch]) const {
    for (int r = 0; r < 4; ++r) tile[At::depth(r)][At::line(r)] = values[r];
  }
};

/// An operand whose lines are `line_stride` apart, at offsets that the inner dims give; neighbours
/// along these are neighbours in memory.
template <typename T, typename Offset>
struct ByDepth {
  using At = Share<true>;
  const T* data;
  Depths& depths;
  Offset offset;
  i64 lines, line_stride;
  Sum<T> values[4];

  __device__ ByDepth(const T* from, Depths& shared, Offset offset_of, i64 first, i64 all, i64 step)
      : data(from + (first + At::line(0)) * step),
        depths(shared),
        offset(offset_of),
        lines(all - first),
        line_stride(step) {}
  __device__ void look(i64 k, i64 end) {
    const i64 depth = k + threadIdx.x;
    if (threadIdx.x < kDepth && depth < end) depths.other[threadIdx.x] = offset(depth);
  }
  __device__ void fetch(i64 k, i64 end) {
    const int depth = At::depth(0);
    const bool there = k + depth < end;
    const T* from = data + (there ? depths.other[depth] : 0);
    for (int r = 0; r < 4; ++r) {
      values[r] = there && At::line(r) < lines ? to_sum(from[16 * r * line_stride]) : Sum<T>(0);
    }
  }
  __device__ void put(Sum<T> (*tile)[kPitch]) const {
    for (int r = 0; r < 4; ++r) tile[At::depth(r)][At::line(r)] = values[r];
  }
};

/// dy at the outputs (inner dims: filters and taps) that meet input cells (lines).
template <typename T>
struct Scattered {
  using At = Share<false>;
  const ConvArguments& args;
  const T* dy;  // of the group
  Depths& depths;
  Place cell;
  bool there;
  Sum<T> values[4];

  __device__ Scattered(const ConvArguments& conv, const T* from, Depths& shared, i64 first,
                       i64 lines)
      : args(conv), dy(from), depths(shared), there(first + At::line(0) < lines) {
    const Divided image = divide(there ? first + At::line(0) : 0, args.in_volume);
    const Point i = point_of(image.rest, args.in);
    for (int d = 0; d < 3; ++d) cell.at[d] = i.at[d] + args.pad[d];
    cell.offset = image.quotient * args.group * args.out_channels * args.out_volume;
  }
  __device__ void look(i64 k, i64 end) {
    const i64 depth = k + threadIdx.x;
    if (threadIdx.x >= kDepth || depth >= end) return;
    Place& place = depths.place[threadIdx.x];
    const Divided filter = divide(depth, args.taps);
    const Point t = point_of(filter.rest, args.kernel);
    for (int d = 0; d < 3; ++d) place.at[d] = t.at[d] * args.dilation[d];
    place.offset = filter.quotient * args.out_volume;
  }
  __device__ void fetch(i64 k, i64 end) {
    for (int r = 0; r < 4; ++r) {
      const int depth = At::depth(r);
      values[r] = 0;
      if (!there || k + depth >= end) continue;
      const Place& tap = depths.place[depth];
      int o[3];
      bool met = true;
      for (int d = 0; d < 3; ++d) {
        o[d] = output_at(args, d, cell.at[d], tap.at[d]);
        met = met && o[d] >= 0;
      }
      if (met) values[r] = to_sum(dy[cell.offset + tap.offset + index_of(o, args.out)]);
    }
  }
  __device__ void put(Sum<T> (*tile)[kPitch]) const {
    for (int r = 0; r < 4; ++r) tile[At::depth(r)][At::line(r)] = values[r];
  }
};

/// A tile of results, or of a part's sums.
struct Tile {
  i64 group, part, row, column;
};
__device__ inline Tile tile_of(const ConvArguments& args, i64 tile, i64 rows, i64 columns) {
  const Divided by_column = divide(tile, columns), by_row = divide(by_column.quotient, rows);
  const Divided by_group = divide(by_row.quotient, args.group);
  return {by_group.rest, by_group.quotient, by_row.rest * kTile, by_column.rest * kTile};
}

/// Calls store(row, column, sum) for those results of a thread that there are.
template <typename S, typename Store>
__device__ void store_tile(const Tile& tile, i64 rows, i64 columns, const S (&sums)[4][4],
                           Store store) {
  for (int s = 0; s < 4; ++s) {
    const i64 column = tile.column + threadIdx.x % 16 + 16 * s;
    if (column >= columns) continue;
    for (int r = 0; r < 4; ++r) {
      const i64 row = tile.row + threadIdx.x / 16 + 16 * r;
      if (row < rows) store(row, column, sums[r][s]);
    }
  }
}

// Rows: filters of a group; columns: outputs of all images; inner dims: channels and taps.
template <typename T, typename Out, typename Bias>
__device__ void forward(const ConvArguments& args) {
  using S = Sum<T>;
  __shared__ Tiles<S> tiles;
  __shared__ Depths depths;
  const i64 lines = args.batch * args.out_volume, inner = args.in_channels * args.taps;
  const i64 rows = tiles_along(args.out_channels), columns = tiles_along(lines);
  for (i64 i = blockIdx.x; i < rows * columns * args.group; i += gridDim.x) {
    const Tile tile = tile_of(args, i, rows, columns);
    const i64 filter = tile.group * args.out_channels;
    Strided<T, true> a(static_cast<const T*>(args.b) + filter * inner, tile.row, args.out_channels,
                       inner, 1);
    Gathered<T, true> b(
        args, static_cast<const T*>(args.a) + tile.group * args.in_channels * args.in_volume,
        depths, tile.column, lines);
    S sums[4][4];
    multiply(tiles, sums, 0, inner, a, b);
    const Bias* bias = static_cast<const Bias*>(args.bias);
    Out* y = static_cast<Out*>(args.result);
    store_tile(tile, args.out_channels, lines, sums, [&](i64 row, i64 column, S sum) {
      if (bias != nullptr) sum += bias[filter + row];
      const Divided image = divide(column, args.out_volume);
      y[(image.quotient * args.group * args.out_channels + filter + row) * args.out_volume +
        image.rest] = finished<Out>(sum, args.relu);
    });
  }
}

// Rows: input channels of a group; columns: cells of all images; inner dims: filters and taps.
template <typename T, typename Out>
__device__ void data_grad(const ConvArguments& args) {
  using S = Sum<T>;
  __shared__ Tiles<S> tiles;
  __shared__ Depths depths;
  const i64 lines = args.batch * args.in_volume, inner = args.out_channels * args.taps;
  const i64 rows = tiles_along(args.in_channels), columns = tiles_along(lines);
  const auto weight = [&](i64 depth) {
    const Divided filter = divide(depth, args.taps);
    return filter.quotient * args.in_channels * args.taps + filter.rest;
  };
  for (i64 i = blockIdx.x; i < rows * columns * args.group; i += gridDim.x) {
    const Tile tile = tile_of(args, i, rows, columns);
    const i64 filter = tile.group * args.out_channels, channel = tile.group * args.in_channels;
    ByDepth<T, decltype(weight)> a(
        static_cast<const T*>(args.b) + filter * args.in_channels * args.taps, depths, weight,
        tile.row, args.in_channels, args.taps);
    Scattered<T> b(args, static_cast<const T*>(args.a) + filter * args.out_volume, depths,
                   tile.column, lines);
    S sums[4][4];
    multiply(tiles, sums, 0, inner, a, b);
    Out* dx = static_cast<Out*>(args.result);
    store_tile(tile, args.in_channels, lines, sums, [&](i64 row, i64 column, S sum) {
      const Divided image = divide(column, args.in_volume);
      dx[(image.quotient * args.group * args.in_channels + channel + row) * args.in_volume +
         image.rest] = finished<Out>(sum, false);
    });
  }
}

// Rows: filters of a group; columns: its channels and taps; inner dims: outputs of all images.
template <typename T, typename Out>
__device__ void weight_grad(const ConvArguments& args) {
  using S = Sum<T>;
  __shared__ Tiles<S> tiles;
  __shared__ Depths depths;
  const i64 lines = args.in_channels * args.taps, inner = args.batch * args.out_volume;
  const i64 filters = args.group * args.out_channels;
  const i64 rows = tiles_along(args.out_channels), columns = tiles_along(lines);
  const auto output = [&](i64 depth) {
    const Divided image = divide(depth, args.out_volume);
    return image.quotient * filters * args.out_volume + image.rest;
  };
  for (i64 i = blockIdx.x; i < rows * columns * args.group * args.parts; i += gridDim.x) {
    const Tile tile = tile_of(args, i, rows, columns);
    const i64 filter = tile.group * args.out_channels, begin = tile.part * args.part;
    ByDepth<T, decltype(output)> a(static_cast<const T*>(args.b) + filter * args.out_volume, depths,
                                   output, tile.row, args.out_channels, args.out_volume);
    Gathered<T, false> b(
        args, static_cast<const T*>(args.a) + tile.group * args.in_channels * args.in_volume,
        depths, tile.column, lines);
    S sums[4][4];
    multiply(tiles, sums, begin, min(inner, begin + args.part), a, b);
    store_tile(tile, args.out_channels, lines, sums, [&](i64 row, i64 column, S sum) {
      const i64 at = ((tile.part * filters) + filter + row) * lines + column;
      if (args.parts > 1) {
        static_cast<S*>(args.result)[at] = sum;
      } else {
        static_cast<Out*>(args.result)[at] = finished<Out>(sum, false);
      }
    });
  }
}

}  // namespace

#define CONV(T, Out, Bias, suffix)                                                          \
  TRAINRT_KERNEL(conv_tiles_##suffix, ConvArguments) { forward<T, Out, Bias>(args); }       \
  TRAINRT_KERNEL(conv_data_grad_tiles_##suffix, ConvArguments) { data_grad<T, Out>(args); } \
  TRAINRT_KERNEL(conv_weight_grad_tiles_##suffix, ConvArguments) { weight_grad<T, Out>(args); }

CONV(float, float, float, f32)
CONV(double, double, double, f64)
CONV(bf16, bf16, float, bf16)
CONV(bf16, float, float, bf16_f32)

}  // namespace trainrt::cuda
