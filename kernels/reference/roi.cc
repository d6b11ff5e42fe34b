// Pooling over regions of interest.
#include <cmath>
#include <string>

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

struct RoiPlan {
  RoiAttrs attrs;
  int64_t batch, channels, rows, columns;  // of x
  int64_t rois;
  Indices images;

  int64_t plane() const { return rows * columns; }
  int64_t bins() const { return attrs.height * attrs.width; }
};

RoiPlan roi_plan(const NodeView& node, size_t x) {
  const Shape& shape = node.inputs[x].shape;
  return {node.attr<RoiAttrs>(),
          shape[0],
          shape[1],
          shape[2],
          shape[3],
          node.inputs[x + 1].shape[0],
          Indices(node.inputs[x + 2].dtype)};
}

[[noreturn]] void throw_roi(int64_t roi, const std::string& what) {
  throw Error(ErrorCode::kRuntime, "RoiPool: roi " + std::to_string(roi) + " " + what);
}

/// Before any thread runs: nothing may be thrown there.
template <typename T>
void check_rois(const RoiPlan& p, const T* rois, const void* images) {
  for (int64_t r = 0; r < p.rois; ++r) {
    const int64_t image = p.images.read(images, r);
    if (image < 0 || image >= p.batch) {
      throw_roi(r, "lies on image " + std::to_string(image) + " of " + std::to_string(p.batch));
    }
    for (int64_t k = 0; k < 4; ++k) {
      const T place = rois[r * 4 + k] * static_cast<T>(p.attrs.scale);
      if (!(std::abs(place) < T(1e15))) throw_roi(r, "is not finite, or far out of reach");
    }
  }
}

/// The bins of a roi along one axis.
template <typename T>
struct Axis {
  T start = 0, bin = 0;  // in cells; the first bin begins at `start`
  int64_t grid = 0;      // samples in a bin
  int64_t cells = 0;     // of the map

  T place(int64_t p, int64_t i) const {
    return start + static_cast<T>(p) * bin +
           (static_cast<T>(i) + T(0.5)) * bin / static_cast<T>(grid);
  }
  bool inside(T place) const { return place >= -1 && place <= static_cast<T>(cells); }

  /// Samples of bin p that may lie inside; those left out do not.
  std::pair<int64_t, int64_t> near(int64_t p) const {
    const double step = static_cast<double>(bin) / static_cast<double>(grid);
    if (grid <= kBlock || step == 0) return {0, grid};
    const double base = static_cast<double>(start) + static_cast<double>(p) * bin;
    double first = (-2 - base) / step, last = (static_cast<double>(cells) + 1 - base) / step;
    if (first > last) std::swap(first, last);
    const double most = static_cast<double>(grid);
    return {static_cast<int64_t>(std::clamp(std::floor(first) - 1, 0.0, most)),
            static_cast<int64_t>(std::clamp(std::ceil(last) + 1, 0.0, most))};
  }
};

template <typename T>
Axis<T> sampled_axis(const RoiAttrs& a, T begin, T end, int64_t bins, int64_t cells) {
  const T scale = static_cast<T>(a.scale), shift = a.half_pixel ? T(0.5) : T(0);
  const T start = begin * scale - shift;
  T extent = end * scale - shift - start;
  if (!a.half_pixel) extent = std::max(extent, T(1));
  const T bin = extent / static_cast<T>(bins);
  const int64_t grid = a.sampling_ratio > 0
                           ? a.sampling_ratio
                           : std::max<int64_t>(convert<int64_t>(std::ceil(bin)), 0);
  return {start, bin, grid, cells};
}

/// Whole cells; a bin takes every cell that it touches.
template <typename T>
Axis<T> cell_axis(const RoiAttrs& a, T begin, T end, int64_t bins, int64_t cells) {
  const T scale = static_cast<T>(a.scale);
  const T start = std::round(begin * scale), last = std::round(end * scale);
  return {start, std::max(last - start + 1, T(1)) / static_cast<T>(bins), 0, cells};
}

template <typename T>
std::pair<int64_t, int64_t> cell_range(const Axis<T>& axis, int64_t p) {
  const T most = static_cast<T>(axis.cells);
  const auto clamped = [&](T cell) {
    return convert<int64_t>(std::clamp(cell + axis.start, T(0), most));
  };
  return {clamped(std::floor(static_cast<T>(p) * axis.bin)),
          clamped(std::ceil(static_cast<T>(p + 1) * axis.bin))};
}

/// The two cells around a place, and their weights; places beyond the outermost cells are theirs.
template <typename T>
struct Neighbours {
  int64_t low, high;
  T low_weight, high_weight;

  Neighbours(T place, int64_t cells) {
    place = std::max(place, T(0));
    low = static_cast<int64_t>(place);
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

  Roi(const RoiPlan& p, const T* roi) {
    const auto make = p.attrs.mode == RoiMode::kCellMax ? cell_axis<T> : sampled_axis<T>;
    x = make(p.attrs, roi[0], roi[2], p.attrs.width, p.columns);
    y = make(p.attrs, roi[1], roi[3], p.attrs.height, p.rows);
  }

  double samples() const {
    return std::max(static_cast<double>(y.grid) * static_cast<double>(x.grid), 1.0);
  }

  /// Calls f(offset in the plane, weight) for each corner of each sample of a bin, row by row.
  /// Returns how many samples lay inside.
  template <typename F>
  double for_each_corner(int64_t py, int64_t px, F f) const {
    const auto [y0, y1] = y.near(py);
    const auto [x0, x1] = x.near(px);
    double inside = 0;
    for (int64_t i = y0; i < y1; ++i) {
      const T place_y = y.place(py, i);
      if (!y.inside(place_y)) continue;
      const Neighbours<T> v(place_y, y.cells);
      for (int64_t j = x0; j < x1; ++j) {
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

  template <typename F>
  void for_each_cell(int64_t py, int64_t px, F f) const {
    const auto [y0, y1] = cell_range(y, py);
    const auto [x0, x1] = cell_range(x, px);
    for (int64_t i = y0; i < y1; ++i) {
      for (int64_t j = x0; j < x1; ++j) f(i * x.cells + j, T(1));
    }
  }
};

/// The largest weighted value of a bin and where it lies; -1: nowhere, the value is 0.
template <typename T>
struct Largest {
  int64_t offset = -1;
  T weight = 0, value = 0;

  Largest(const RoiPlan& p, const Roi<T>& roi, const T* plane, int64_t py, int64_t px) {
    const auto take = [&](int64_t at, T w) {
      const T v = w * plane[at];
      if (offset < 0 || v > value || (is_nan(v) && !is_nan(value))) {
        offset = at;
        weight = w;
        value = v;
      }
    };
    if (p.attrs.mode == RoiMode::kCellMax) {
      roi.for_each_cell(py, px, take);
      return;
    }
    const double inside = roi.for_each_corner(py, px, take);
    // Samples off the map count as 0.
    const double all = static_cast<double>(roi.y.grid) * static_cast<double>(roi.x.grid);
    if (inside < all && (offset < 0 || value < 0)) *this = Largest();
  }

 private:
  Largest() = default;
};

template <typename T>
void roi_pool(const RoiPlan& p, const KernelArgs& args) {
  const T* rois = args.input<T>(1);
  check_rois(p, rois, args.in[2]);
  const int64_t tasks = p.rois * p.channels;
#pragma omp parallel for schedule(static) if (tasks * p.bins() > kParallel / 16)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t r = t / p.channels, image = p.images.read(args.in[2], r);
    const Roi<T> roi(p, rois + r * 4);
    const T* plane = args.input<T>(0) + (image * p.channels + t % p.channels) * p.plane();
    T* y = args.output<T>(0) + t * p.bins();
    for (int64_t py = 0; py < p.attrs.height; ++py) {
      for (int64_t px = 0; px < p.attrs.width; ++px) {
        if (p.attrs.mode != RoiMode::kAverage) {
          *y++ = Largest<T>(p, roi, plane, py, px).value;
          continue;
        }
        double sum = 0;
        roi.for_each_corner(py, px,
                            [&](int64_t at, T w) { sum += static_cast<double>(w) * plane[at]; });
        *y++ = static_cast<T>(sum / roi.samples());
      }
    }
  }
}

/// Planes of x in parallel, each with all the rois on its image.
template <typename T>
void roi_pool_grad(const RoiPlan& p, const KernelArgs& args) {
  const T* rois = args.input<T>(2);
  check_rois(p, rois, args.in[3]);
  T* dx = args.output<T>(0);
  const int64_t planes = p.batch * p.channels;
  zero_bytes(dx, static_cast<size_t>(planes * p.plane()) * sizeof(T));
#pragma omp parallel for schedule(static) if (p.rois * p.channels * p.bins() > kParallel / 16)
  for (int64_t t = 0; t < planes; ++t) {
    const T* x = args.input<T>(1) + t * p.plane();
    T* to = dx + t * p.plane();
    for (int64_t r = 0; r < p.rois; ++r) {
      if (p.images.read(args.in[3], r) != t / p.channels) continue;
      const Roi<T> roi(p, rois + r * 4);
      const T* dy = args.input<T>(0) + (r * p.channels + t % p.channels) * p.bins();
      for (int64_t py = 0; py < p.attrs.height; ++py) {
        for (int64_t px = 0; px < p.attrs.width; ++px, ++dy) {
          if (p.attrs.mode != RoiMode::kAverage) {
            const Largest<T> best(p, roi, x, py, px);
            if (best.offset >= 0) to[best.offset] += best.weight * *dy;
            continue;
          }
          const T share = static_cast<T>(static_cast<double>(*dy) / roi.samples());
          roi.for_each_corner(py, px, [&](int64_t at, T w) { to[at] += w * share; });
        }
      }
    }
  }
}

std::unique_ptr<Kernel> plan_roi_pool(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, roi_plan(node, 0),
                    []<typename T>() { return roi_pool<T>; });
}

std::unique_ptr<Kernel> plan_roi_pool_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, roi_plan(node, 1),
                    []<typename T>() { return roi_pool_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kRoiPool, "reference", takes_floats, plan_roi_pool},
    {Op::kRoiPoolGrad, "reference", takes_floats, plan_roi_pool_grad},
};

}  // namespace

std::span<const KernelRow> reference_roi_kernels() { return kRows; }

}  // namespace trainrt::reference
