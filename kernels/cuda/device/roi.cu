// Pooling over regions of interest, sample by sample as kernels/reference/roi.cc does it.
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/roi.h"

namespace trainrt::cuda {
namespace {

/// The bins of a roi along one axis.
template <typename T>
struct Axis {
  T start, bin;  // in cells; the first bin begins at `start`
  i64 grid;      // samples in a bin
  i64 cells;     // of the map

  __device__ T place(i64 p, i64 i) const {
    return start + static_cast<T>(p) * bin +
           (static_cast<T>(i) + T(0.5)) * bin / static_cast<T>(grid);
  }
  __device__ bool inside(T at) const { return at >= T(-1) && at <= static_cast<T>(cells); }
};

template <typename T>
__device__ T larger(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
__device__ T between(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

template <typename T>
__device__ Axis<T> sampled_axis(const RoiArguments& args, T begin, T end, i64 bins, i64 cells) {
  const T scale = static_cast<T>(args.scale), shift = args.half_pixel ? T(0.5) : T(0);
  const T start = begin * scale - shift;
  T extent = end * scale - shift - start;
  if (!args.half_pixel) extent = larger(extent, T(1));
  const T bin = extent / static_cast<T>(bins);
  // Rois are no larger than 1e15 cells; more samples than this would take for ever.
  const i64 own = static_cast<i64>(between(ceil(bin), T(0), T(1e15)));
  return {start, bin, args.sampling_ratio > 0 ? args.sampling_ratio : own, cells};
}

template <typename T>
__device__ Axis<T> cell_axis(const RoiArguments& args, T begin, T end, i64 bins, i64 cells) {
  const T scale = static_cast<T>(args.scale);
  const T start = round(begin * scale), last = round(end * scale);
  return {start, larger(last - start + T(1), T(1)) / static_cast<T>(bins), 0, cells};
}

struct Range {
  i64 first, last;
};

/// Samples of bin p that may lie inside; those left out do not.
template <typename T>
__device__ Range near(const Axis<T>& axis, i64 p) {
  const double step = static_cast<double>(axis.bin) / static_cast<double>(axis.grid);
  if (axis.grid <= 256 || step == 0) return {0, axis.grid};
  const double base = static_cast<double>(axis.start) + static_cast<double>(p) * axis.bin;
  double first = (-2 - base) / step, last = (static_cast<double>(axis.cells) + 1 - base) / step;
  if (first > last) {
    const double swapped = first;
    first = last;
    last = swapped;
  }
  const double most = static_cast<double>(axis.grid);
  return {static_cast<i64>(between(floor(first) - 1, 0.0, most)),
          static_cast<i64>(between(ceil(last) + 1, 0.0, most))};
}

template <typename T>
__device__ Range cell_range(const Axis<T>& axis, i64 p) {
  const T most = static_cast<T>(axis.cells);
  return {
      static_cast<i64>(between(floor(static_cast<T>(p) * axis.bin) + axis.start, T(0), most)),
      static_cast<i64>(between(ceil(static_cast<T>(p + 1) * axis.bin) + axis.start, T(0), most))};
}

/// The two cells around a place; places beyond the outermost cells are theirs.
template <typename T>
struct Neighbours {
  i64 low, high;
  T low_weight, high_weight;

  __device__ Neighbours(T place, i64 cells) {
    place = larger(place, T(0));
    low = static_cast<i64>(place);
    high = low + 1;
    if (low >= cells - 1) {
      low = high = cells - 1;
      place = static_cast<T>(low);
    }
    high_weight = place - static_cast<T>(low);
    low_weight = T(1) - high_weight;
  }
};

template <typename T>
struct Roi {
  Axis<T> y, x;

  __device__ Roi(const RoiArguments& args, const T* roi) {
    if (args.kind == RoiKind::kCellMax) {
      x = cell_axis<T>(args, roi[0], roi[2], args.width, args.columns);
      y = cell_axis<T>(args, roi[1], roi[3], args.height, args.rows);
    } else {
      x = sampled_axis<T>(args, roi[0], roi[2], args.width, args.columns);
      y = sampled_axis<T>(args, roi[1], roi[3], args.height, args.rows);
    }
  }

  __device__ double samples() const {
    return larger(static_cast<double>(y.grid) * static_cast<double>(x.grid), 1.0);
  }

  /// Calls f(offset in the plane, weight) for each corner of each sample of a bin, row by row.
  /// Returns how many samples lay inside.
  template <typename F>
  __device__ double for_each_corner(i64 py, i64 px, F f) const {
    const Range rows = near(y, py), columns = near(x, px);
    double inside = 0;
    for (i64 i = rows.first; i < rows.last; ++i) {
      const T place_y = y.place(py, i);
      if (!y.inside(place_y)) continue;
      const Neighbours<T> v(place_y, y.cells);
      for (i64 j = columns.first; j < columns.last; ++j) {
        const T place_x = x.place(px, j);
        if (!x.inside(place_x)) continue;
        const Neighbours<T> h(place_x, x.cells);
        f(v.low * x.cells + h.low, v.low_weight * h.low_weight);
        f(v.low * x.cells + h.high, v.low_weight * h.high_weight);
        f(v.high * x.cells + h.low, v.high_weight * h.low_weight);
        f(v.high * x.cells + h.high, v.high_weight * h.high_weight);
        ++inside;
      }
    }
    return inside;
  }
};

/// The largest weighted value of a bin and where it lies; -1: nowhere, the value is 0.
template <typename T>
struct Largest {
  i64 offset = -1;
  T weight = 0, value = 0;

  __device__ void take(const T* plane, i64 at, T w) {
    const T v = w * plane[at];
    if (offset < 0 || v > value || (v != v && value == value)) {
      offset = at;
      weight = w;
      value = v;
    }
  }

  __device__ Largest(const RoiArguments& args, const Roi<T>& roi, const T* plane, i64 py, i64 px) {
    if (args.kind == RoiKind::kCellMax) {
      const Range rows = cell_range(roi.y, py), columns = cell_range(roi.x, px);
      for (i64 i = rows.first; i < rows.last; ++i) {
        for (i64 j = columns.first; j < columns.last; ++j) take(plane, i * roi.x.cells + j, T(1));
      }
      return;
    }
    const double inside = roi.for_each_corner(py, px, [&](i64 at, T w) { take(plane, at, w); });
    // Samples off the map count as 0.
    const double all = static_cast<double>(roi.y.grid) * static_cast<double>(roi.x.grid);
    if (inside < all && (offset < 0 || value < T(0))) {
      offset = -1;
      weight = value = T(0);
    }
  }
};

/// The image of a roi; -1, and reported, where it is none or the roi is out of reach.
template <typename T>
__device__ i64 image_of(const RoiArguments& args, i64 r) {
  const i64 image = args.wide_images ? static_cast<const i64*>(args.images)[r]
                                     : static_cast<const int*>(args.images)[r];
  bool fits = image >= 0 && image < args.batch;
  for (int k = 0; k < 4; ++k) {
    const T place = static_cast<const T*>(args.rois)[r * 4 + k] * static_cast<T>(args.scale);
    fits = fits && (place < T(0) ? -place : place) < T(1e15);
  }
  if (fits) return image;
  report(args.status, args.step);
  return -1;
}

template <typename T>
__device__ void pool(const RoiArguments& args) {
  const i64 bins = args.height * args.width, plane = args.rows * args.columns;
  for (i64 i = global_index(); i < args.count * args.channels * bins; i += global_size()) {
    const i64 bin = i % bins, channel = i / bins % args.channels, r = i / bins / args.channels;
    const i64 image = image_of<T>(args, r);
    T result = 0;
    if (image >= 0) {
      const Roi<T> roi(args, static_cast<const T*>(args.rois) + r * 4);
      const T* x = static_cast<const T*>(args.x) + (image * args.channels + channel) * plane;
      const i64 py = bin / args.width, px = bin % args.width;
      if (args.kind != RoiKind::kAverage) {
        result = Largest<T>(args, roi, x, py, px).value;
      } else {
        double sum = 0;
        roi.for_each_corner(py, px, [&](i64 at, T w) { sum += static_cast<double>(w) * x[at]; });
        result = static_cast<T>(sum / roi.samples());
      }
    }
    static_cast<T*>(args.out)[i] = result;
  }
}

/// A thread for each plane of x walks the rois on its image in their order.
template <typename T>
__device__ void pool_grad(const RoiArguments& args) {
  const i64 bins = args.height * args.width, plane = args.rows * args.columns;
  for (i64 t = global_index(); t < args.batch * args.channels; t += global_size()) {
    const T* x = static_cast<const T*>(args.x) + t * plane;
    T* dx = static_cast<T*>(args.out) + t * plane;
    for (i64 i = 0; i < plane; ++i) dx[i] = 0;
    for (i64 r = 0; r < args.count; ++r) {
      if (image_of<T>(args, r) != t / args.channels) continue;
      const Roi<T> roi(args, static_cast<const T*>(args.rois) + r * 4);
      const T* dy = static_cast<const T*>(args.dy) + (r * args.channels + t % args.channels) * bins;
      for (i64 bin = 0; bin < bins; ++bin) {
        const i64 py = bin / args.width, px = bin % args.width;
        if (args.kind != RoiKind::kAverage) {
          const Largest<T> best(args, roi, x, py, px);
          if (best.offset >= 0) dx[best.offset] += best.weight * dy[bin];
        } else {
          const T share = static_cast<T>(static_cast<double>(dy[bin]) / roi.samples());
          roi.for_each_corner(py, px, [&](i64 at, T w) { dx[at] += w * share; });
        }
      }
    }
  }
}

}  // namespace

TRAINRT_KERNEL(roi_pool_f32, RoiArguments) { pool<float>(args); }
TRAINRT_KERNEL(roi_pool_f64, RoiArguments) { pool<double>(args); }
TRAINRT_KERNEL(roi_pool_grad_f32, RoiArguments) { pool_grad<float>(args); }
TRAINRT_KERNEL(roi_pool_grad_f64, RoiArguments) { pool_grad<double>(args); }

}  // namespace trainrt::cuda
