// Resize and Upsample: one Interpolate node for each axis that changes.
#include <algorithm>
#include <cmath>
#include <optional>

#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

enum class Mode : uint8_t { kNearest, kLinear, kCubic };
enum class Rounding : uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };
enum class Coordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kHalfPixelForNearest,
  kCropAndResize,
};

struct Settings {
  Mode mode = Mode::kNearest;
  Rounding rounding = Rounding::kFloor;
  Coordinates coordinates = Coordinates::kAsymmetric;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
  bool up_when_shrinking = false;  // nearest
};

struct Axis {
  int64_t axis = 0, in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

template <typename E>
E choose(const LowerContext& c, std::string_view name, const std::string& value,
         std::initializer_list<std::pair<std::string_view, E>> known) {
  for (const auto& [word, e] : known) {
    if (word == value) return e;
  }
  c.invalid(std::string(name) + " '" + value + "' is unknown");
}

Settings read_settings(const LowerContext& c) {
  Settings s;
  s.mode = choose<Mode>(c, "mode", c.attr_string("mode", "nearest"),
                        {{"nearest", Mode::kNearest},
                         {"linear", Mode::kLinear},
                         {"bilinear", Mode::kLinear},
                         {"cubic", Mode::kCubic},
                         {"bicubic", Mode::kCubic}});
  if (c.op == "Upsample" || c.opset < 11) {
    s.up_when_shrinking = true;  // opset 10 says nothing of rounding: as onnxruntime does
    return s;
  }
  s.rounding =
      choose<Rounding>(c, "nearest_mode", c.attr_string("nearest_mode", "round_prefer_floor"),
                       {{"round_prefer_floor", Rounding::kPreferFloor},
                        {"round_prefer_ceil", Rounding::kPreferCeil},
                        {"floor", Rounding::kFloor},
                        {"ceil", Rounding::kCeil}});
  s.coordinates = choose<Coordinates>(c, "coordinate_transformation_mode",
                                      c.attr_string("coordinate_transformation_mode", "half_pixel"),
                                      {{"half_pixel", Coordinates::kHalfPixel},
                                       {"half_pixel_symmetric", Coordinates::kHalfPixelSymmetric},
                                       {"pytorch_half_pixel", Coordinates::kPytorchHalfPixel},
                                       {"align_corners", Coordinates::kAlignCorners},
                                       {"asymmetric", Coordinates::kAsymmetric},
                                       {"tf_half_pixel_for_nn", Coordinates::kHalfPixelForNearest},
                                       {"tf_crop_and_resize", Coordinates::kCropAndResize}});
  s.cubic_a = c.attr_float("cubic_coeff_a", -0.75);
  s.exclude_outside = c.attr_int("exclude_outside", 0) != 0;
  s.antialias = c.attr_int("antialias", 0) != 0;
  s.extrapolation = c.attr_float("extrapolation_value", 0.0);
  if (s.antialias && s.mode == Mode::kNearest) c.invalid("antialias needs mode linear or cubic");
  return s;
}

// Values of an optional input; empty tensors count as absent.
std::vector<double> optional_numbers(const LowerContext& c, size_t i) {
  if (!c.has(i) || c.in(i).type().size() == 0) return {};
  const Tensor t = c.constant(i).to(DType::kFloat64);
  const auto data = t.data<double>();
  return {data.begin(), data.end()};
}

void check_count(const LowerContext& c, size_t count, size_t wanted, std::string_view what) {
  if (count != wanted) {
    c.invalid(std::string(what) + " has " + std::to_string(count) + " entries, expected " +
              std::to_string(wanted));
  }
}

void apply_scales(const LowerContext& c, std::span<const double> scales, std::vector<Axis>& axes) {
  check_count(c, scales.size(), axes.size(), "scales");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!std::isfinite(scales[i]) || scales[i] <= 0) {
      c.invalid("scale " + std::to_string(scales[i]) + " must be positive");
    }
    axes[i].scale = scales[i];
    // In float32, as ONNX's shape inference and onnxruntime round.
    const float size = std::floor(static_cast<float>(axes[i].in) * static_cast<float>(scales[i]));
    if (!(size <= static_cast<float>(kMaxElements))) c.invalid("the result is too large");
    axes[i].out = static_cast<int64_t>(size);
  }
}

void apply_sizes(const LowerContext& c, std::span<const double> sizes, std::vector<Axis>& axes) {
  check_count(c, sizes.size(), axes.size(), "sizes");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] == 0 && axes[i].in == 0) continue;
    if (!(sizes[i] >= 0 && sizes[i] <= static_cast<double>(kMaxElements)) || axes[i].in == 0) {
      c.invalid("axis of " + std::to_string(axes[i].in) + " cannot become " +
                std::to_string(sizes[i]));
    }
    axes[i].out = static_cast<int64_t>(sizes[i]);
    axes[i].scale = sizes[i] / static_cast<double>(axes[i].in);
  }
  const std::string policy = c.attr_string("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || axes.empty()) return;
  if (policy != "not_larger" && policy != "not_smaller") {
    c.invalid("keep_aspect_ratio_policy '" + policy + "' is unknown");
  }
  double scale = axes[0].scale;
  for (const Axis& a : axes) {
    scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
  }
  for (Axis& a : axes) {
    const double size = std::floor(scale * static_cast<double>(a.in) + 0.5);
    if (!(size <= static_cast<double>(kMaxElements))) c.invalid("the result is too large");
    a.scale = scale;
    a.out = static_cast<int64_t>(size);
  }
}

std::vector<Axis> read_axes(const LowerContext& c, Var x, const Settings& s) {
  std::vector<int64_t> list = identity_perm(x.rank());
  // The order of `axes` is that of sizes, scales and roi.
  if (c.has_attr("axes")) list = c.attr_ints("axes");
  std::vector<Axis> axes;
  std::vector<bool> seen(at(x.rank()));
  for (int64_t a : list) {
    Axis axis;
    axis.axis = c.axis(a, x.rank());
    if (seen[at(axis.axis)]) c.invalid("axes name an axis twice");
    seen[at(axis.axis)] = true;
    axis.in = axis.out = x.dim(axis.axis);
    axes.push_back(axis);
  }
  if (c.op == "Upsample" && c.has_attr("scales")) {
    apply_scales(c, c.attr_floats("scales"), axes);
    return axes;
  }
  if (c.op == "Upsample" || c.opset < 11) {
    c.need(1);
    apply_scales(c, optional_numbers(c, 1), axes);
    return axes;
  }
  if (const auto sizes = optional_numbers(c, 3); !sizes.empty()) {
    apply_sizes(c, sizes, axes);
  } else if (const auto scales = optional_numbers(c, 2); !scales.empty()) {
    apply_scales(c, scales, axes);
  } else {
    c.invalid("neither scales nor sizes are given");
  }
  if (s.coordinates == Coordinates::kCropAndResize) {
    const auto roi = optional_numbers(c, 1);
    check_count(c, roi.size(), 2 * axes.size(), "roi");
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].roi_begin = roi[i];
      axes[i].roi_end = roi[i + axes.size()];
      if (!std::isfinite(roi[i]) || !std::isfinite(roi[i + axes.size()])) {
        c.invalid("roi is not finite");
      }
    }
  }
  return axes;
}

// Where output cell o lies on the input axis. Nearest neighbours are found in float32, as
// onnxruntime and PyTorch do: a position that falls on a boundary by rounding must do so here too.
template <typename T>
T position(const Settings& s, const Axis& a, int64_t o) {
  const auto x = static_cast<T>(o), in = static_cast<T>(a.in), out = static_cast<T>(a.out);
  const auto scale = static_cast<T>(a.scale), one = T{1}, half = static_cast<T>(0.5);
  const auto begin = static_cast<T>(a.roi_begin), end = static_cast<T>(a.roi_end);
  const T half_pixel = (x + half) / scale - half;
  switch (s.coordinates) {
    case Coordinates::kHalfPixel:
      return half_pixel;
    case Coordinates::kHalfPixelSymmetric:
      return in / 2 * (one - out / (in * scale)) + half_pixel;
    case Coordinates::kPytorchHalfPixel:
      return a.out > 1 ? half_pixel : 0;
    case Coordinates::kAlignCorners:
      return a.out > 1 ? x * (in - one) / (out - one) : 0;
    case Coordinates::kAsymmetric:
      return x / scale;
    case Coordinates::kHalfPixelForNearest:
      return (x + half) / scale;
    case Coordinates::kCropAndResize:
      return a.out > 1 ? begin * (in - one) + x * (end - begin) * (in - one) / (out - one)
                       : half * (begin + end) * (in - one);
  }
  return 0;
}

double round_position(Rounding r, double x) {
  switch (r) {
    case Rounding::kPreferFloor:
      return std::ceil(x - 0.5);
    case Rounding::kPreferCeil:
      return std::floor(x + 0.5);
    case Rounding::kFloor:
      return std::floor(x);
    case Rounding::kCeil:
      return std::ceil(x);
  }
  return x;
}

// The tent, or Keys' cubic convolution kernel.
double filter(const Settings& s, double distance) {
  const double d = std::abs(distance), a = s.cubic_a;
  if (s.mode == Mode::kLinear) return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

int64_t clamp_index(double i, int64_t size) {
  return static_cast<int64_t>(std::clamp(i, 0.0, static_cast<double>(size - 1)));
}

// Fills taps, index and weight of the axis; marks the cells that crop-and-resize puts outside.
InterpolateAttrs make_taps(const LowerContext& c, const Settings& s, const Axis& a,
                           std::vector<bool>& outside) {
  InterpolateAttrs p;
  p.axis = a.axis;
  p.in_size = a.in;
  p.out_size = a.out;
  if (a.in == 0 && a.out > 0) c.invalid("an empty axis cannot grow");
  const double stretch = s.antialias ? std::min(a.scale, 1.0) : 1.0;
  const double radius = (s.mode == Mode::kCubic ? 2 : 1) / stretch;
  // Cells strictly within the radius; no more than the axis has, since the outer ones are merged.
  const double widest = std::min(2 * std::ceil(radius), static_cast<double>(a.in));
  p.taps = s.mode == Mode::kNearest || a.out == 0
               ? 1
               : std::max<int64_t>(1, static_cast<int64_t>(widest));
  if (a.out > kMaxConstant / p.taps) c.invalid("the result is too large");
  p.index.assign(at(a.out * p.taps), 0);
  p.weight.assign(at(a.out * p.taps), 0.0);
  outside.assign(at(a.out), false);
  for (int64_t o = 0; o < a.out; ++o) {
    const double x = s.mode == Mode::kNearest ? static_cast<double>(position<float>(s, a, o))
                                              : position<double>(s, a, o);
    int64_t* index = &p.index[at(o * p.taps)];
    double* weight = &p.weight[at(o * p.taps)];
    if (!std::isfinite(x)) c.invalid("the scales put cells at infinity");
    if (s.coordinates == Coordinates::kCropAndResize &&
        (x < 0 || x > static_cast<double>(a.in - 1))) {
      outside[at(o)] = true;
      continue;
    }
    if (s.mode == Mode::kNearest) {
      const bool up = s.up_when_shrinking && a.scale < 1;
      index[0] = clamp_index(round_position(up ? Rounding::kCeil : s.rounding, x), a.in);
      weight[0] = 1;
      continue;
    }
    const double first = std::floor(x - radius) + 1, last = std::ceil(x + radius) - 1;
    double sum = 0;
    int64_t used = 0;
    for (double i = first; i <= last; ++i) {
      const bool inside = i >= 0 && i <= static_cast<double>(a.in - 1);
      const double w = s.exclude_outside && !inside ? 0 : filter(s, (i - x) * stretch);
      const int64_t cell = clamp_index(i, a.in);
      sum += w;
      if (used == 0 || index[used - 1] != cell) {
        if (w == 0) continue;
        index[used++] = cell;
      }
      weight[used - 1] += w;
    }
    if ((s.exclude_outside || s.antialias) && sum != 0) {
      for (int64_t t = 0; t < used; ++t) weight[t] /= sum;
    }
  }
  return p;
}

Var apply(LowerContext& c, Var x, const InterpolateAttrs& p) {
  if (is_float(x.dtype())) return c.b.add(Op::kInterpolate, {x}, p);
  return gather(x, c.b.constant(Tensor::of_ints(p.index)), p.axis);
}

void lower_resize(LowerContext& c) {
  Var x = c.need(0);
  const DType dtype = x.dtype();
  const Settings s = read_settings(c);
  const auto axes = read_axes(c, x, s);
  if (!is_float(dtype) && s.mode != Mode::kNearest) x = cast(x, c.working);
  const bool crops = s.coordinates == Coordinates::kCropAndResize;
  Shape result = x.shape();
  for (const Axis& a : axes) result[at(a.axis)] = a.out;
  checked_count(c, result);
  Var beyond;
  for (const Axis& a : axes) {
    if (a.in == a.out && a.scale == 1 && !(crops && (a.roi_begin != 0 || a.roi_end != 1))) continue;
    std::vector<bool> outside;
    const InterpolateAttrs taps = make_taps(c, s, a, outside);
    x = apply(c, x, taps);
    if (std::find(outside.begin(), outside.end(), true) == outside.end()) continue;
    Tensor mask(DType::kBool, {a.out});
    std::copy(outside.begin(), outside.end(), mask.data<bool>().begin());
    const Var here = along(c.b.constant(mask), a.axis, x.rank());
    beyond = beyond ? binary(Op::kOr, beyond, here) : here;
  }
  if (beyond) x = where(beyond, s.extrapolation, x);
  c.set(cast(x, dtype));
}

constexpr LoweringRow kRows[] = {
    {"", "Resize", 10, lower_resize, GradInputs::kFirst},
    {"", "Upsample", 7, lower_resize, GradInputs::kFirst},
};

}  // namespace

std::span<const LoweringRow> resize_lowerings() { return kRows; }

}  // namespace trainrt::lowering
