// How outputs, taps and input cells of a convolution meet.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_CONV_WINDOW_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_CONV_WINDOW_H_

#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/device/tiles.h"

namespace trainrt::cuda {

/// Coordinates, and an offset that goes with them: those of an output and of a tap add up to those
/// of an input cell.
struct Place {
  i64 offset;
  int at[3];
};

struct Point {
  int at[3];
};
__device__ inline Point point_of(i64 index, const int (&size)[3]) {
  const Divided last = divide(index, size[2]), middle = divide(last.quotient, size[1]);
  return {{static_cast<int>(middle.quotient), static_cast<int>(middle.rest),
           static_cast<int>(last.rest)}};
}
__device__ inline i64 index_of(const int (&at)[3], const int (&size)[3]) {
  return (static_cast<i64>(at[0]) * size[1] + at[1]) * size[2] + at[2];
}

/// Where the window of an output of an image begins in x; `pixel` counts outputs of all images.
__device__ inline Place window_place(const ConvArguments& args, i64 pixel) {
  const Divided image = divide(pixel, args.out_volume);
  Place place;
  const Point o = point_of(image.rest, args.out);
  for (int d = 0; d < 3; ++d) place.at[d] = o.at[d] * args.stride[d] - args.pad[d];
  place.offset =
      image.quotient * args.group * args.in_channels * args.in_volume + index_of(place.at, args.in);
  return place;
}

/// How far from there a tap of an input channel of the group lies.
__device__ inline Place tap_place(const ConvArguments& args, i64 channel_and_tap) {
  const Divided channel = divide(channel_and_tap, args.taps);
  Place place;
  const Point t = point_of(channel.rest, args.kernel);
  for (int d = 0; d < 3; ++d) place.at[d] = t.at[d] * args.dilation[d];
  place.offset = channel.quotient * args.in_volume + index_of(place.at, args.in);
  return place;
}

__device__ inline bool inside(const int (&a)[3], const int (&b)[3], const int (&size)[3]) {
  bool all = true;
  for (int d = 0; d < 3; ++d) {
    all = all && static_cast<u32>(a[d] + b[d]) < static_cast<u32>(size[d]);
  }
  return all;
}

/// The output along dim d of which a tap at distance `tap` meets the input cell that lies at `cell`
/// in the padded input, or -1.
__device__ inline int output_at(const ConvArguments& args, int d, int cell, int tap) {
  const int scaled = cell - tap;
  if (scaled < 0) return -1;
  if (args.stride[d] == 1) return scaled < args.out[d] ? scaled : -1;
  const int o = scaled / args.stride[d];
  return o * args.stride[d] == scaled && o < args.out[d] ? o : -1;
}

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_CONV_WINDOW_H_
