// Convolutions of groups of few channels, depthwise ones above all, without tiles: a thread for
// each result, for the gradient of the weights a block.
#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/device/conv_window.h"

namespace trainrt::cuda {
namespace {

template <typename T, typename Out, typename Bias>
__device__ void forward(const ConvArguments& args) {
  const Bias* bias = static_cast<const Bias*>(args.bias);
  const i64 filters = args.group * args.out_channels, inner = args.in_channels * args.taps;
  for (i64 i = global_index(); i < args.batch * filters * args.out_volume; i += global_size()) {
    const Divided map = divide(i, args.out_volume), image = divide(map.quotient, filters);
    const i64 filter = image.rest, group = divide(filter, args.out_channels).quotient;
    const Place window = window_place(args, image.quotient * args.out_volume + map.rest);
    const T* x =
        static_cast<const T*>(args.a) + group * args.in_channels * args.in_volume + window.offset;
    const T* w = static_cast<const T*>(args.b) + filter * inner;
    Sum<T> sum = bias == nullptr ? Sum<T>(0) : bias[filter];
    for (i64 c = 0; c < args.in_channels; ++c) {
      i64 tap = c * args.taps;
      int d[3];
      for (int t0 = 0; t0 < args.kernel[0]; ++t0) {
        d[0] = t0 * args.dilation[0];
        for (int t1 = 0; t1 < args.kernel[1]; ++t1) {
          d[1] = t1 * args.dilation[1];
          for (int t2 = 0; t2 < args.kernel[2]; ++t2, ++tap) {
            d[2] = t2 * args.dilation[2];
            if (!inside(window.at, d, args.in)) continue;
            sum += to_sum(w[tap]) * to_sum(x[c * args.in_volume + index_of(d, args.in)]);
          }
        }
      }
    }
    static_cast<Out*>(args.result)[i] = finished<Out>(sum, args.relu);
  }
}

template <typename T, typename Out>
__device__ void data_grad(const ConvArguments& args) {
  const i64 channels = args.group * args.in_channels, filters = args.group * args.out_channels;
  for (i64 i = global_index(); i < args.batch * channels * args.in_volume; i += global_size()) {
    const Divided map = divide(i, args.in_volume), image = divide(map.quotient, channels);
    const Divided channel = divide(image.rest, args.in_channels);
    const Point cell = point_of(map.rest, args.in);
    const i64 first = channel.quotient * args.out_channels;
    const T* dy =
        static_cast<const T*>(args.a) + (image.quotient * filters + first) * args.out_volume;
    const T* w =
        static_cast<const T*>(args.b) + (first * args.in_channels + channel.rest) * args.taps;
    Sum<T> sum = 0;
    for (i64 m = 0; m < args.out_channels; ++m) {
      i64 tap = m * args.in_channels * args.taps;
      int o[3];
      for (int t0 = 0; t0 < args.kernel[0]; ++t0) {
        o[0] = output_at(args, 0, cell.at[0] + args.pad[0], t0 * args.dilation[0]);
        for (int t1 = 0; t1 < args.kernel[1]; ++t1) {
          o[1] = output_at(args, 1, cell.at[1] + args.pad[1], t1 * args.dilation[1]);
          if (o[0] < 0 || o[1] < 0) {
            tap += args.kernel[2];
            continue;
          }
          for (int t2 = 0; t2 < args.kernel[2]; ++t2, ++tap) {
            o[2] = output_at(args, 2, cell.at[2] + args.pad[2], t2 * args.dilation[2]);
            if (o[2] < 0) continue;
            sum += to_sum(w[tap]) * to_sum(dy[m * args.out_volume + index_of(o, args.out)]);
          }
        }
      }
    }
    static_cast<Out*>(args.result)[i] = finished<Out>(sum, false);
  }
}

constexpr int kTaps = 9;  // that a block sums at a time

template <typename T, typename Out>
__device__ void weight_grad(const ConvArguments& args) {
  using S = Sum<T>;
  const i64 filters = args.group * args.out_channels, chunks = (args.taps + kTaps - 1) / kTaps;
  const i64 blocks = filters * args.in_channels * chunks;
  for (i64 block = blockIdx.x; block < blocks * args.parts; block += gridDim.x) {
    const Divided part = divide(block, blocks), plane = divide(part.rest, chunks);
    const Divided filter = divide(plane.quotient, args.in_channels);
    const i64 group = divide(filter.quotient, args.out_channels).quotient;
    const i64 first = plane.rest * kTaps, begin = part.quotient * args.part;
    const i64 end = min(args.batch * args.out_volume, begin + args.part);
    const T* x = static_cast<const T*>(args.a) + group * args.in_channels * args.in_volume;
    const T* dy = static_cast<const T*>(args.b) + filter.quotient * args.out_volume;
    Place taps[kTaps];
    S sums[kTaps];
    TRAINRT_UNROLL
    for (int t = 0; t < kTaps; ++t) {
      sums[t] = 0;
      taps[t] = tap_place(args, filter.rest * args.taps + min(first + t, args.taps - 1));
    }
    for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const Divided image = divide(i, args.out_volume);
      const S d = to_sum(dy[image.quotient * filters * args.out_volume + image.rest]);
      const Place window = window_place(args, i);
      TRAINRT_UNROLL
      for (int t = 0; t < kTaps; ++t) {
        if (!inside(window.at, taps[t].at, args.in)) continue;
        sums[t] += d * to_sum(x[window.offset + taps[t].offset]);
      }
    }
    TRAINRT_UNROLL
    for (int t = 0; t < kTaps; ++t) {
      const S sum = block_join<SumOf>(sums[t], S(0));
      if (threadIdx.x != 0 || first + t >= args.taps) continue;
      const i64 at =
          (part.quotient * filters * args.in_channels + plane.quotient) * args.taps + first + t;
      if (args.parts > 1) {
        static_cast<S*>(args.result)[at] = sum;
      } else {
        static_cast<Out*>(args.result)[at] = finished<Out>(sum, false);
      }
    }
  }
}

}  // namespace

#define CONV(T, Out, Bias, suffix)                                                           \
  TRAINRT_KERNEL(conv_direct_##suffix, ConvArguments) { forward<T, Out, Bias>(args); }       \
  TRAINRT_KERNEL(conv_data_grad_direct_##suffix, ConvArguments) { data_grad<T, Out>(args); } \
  TRAINRT_KERNEL(conv_weight_grad_direct_##suffix, ConvArguments) { weight_grad<T, Out>(args); }

CONV(float, float, float, f32)
CONV(double, double, double, f64)
CONV(bf16, bf16, float, bf16)
CONV(bf16, float, float, bf16_f32)

}  // namespace trainrt::cuda
