// Regions of interest: RoiAlign, MaxRoiPool, NonMaxSuppression.
#include <algorithm>
#include <cmath>

#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

Var pool_rois(LowerContext& c, Var x, Var rois, Var images, const RoiAttrs& attrs) {
  checked_count(c, Shape{rois.dim(0), x.dim(1), attrs.height, attrs.width});
  return c.b.add(Op::kRoiPool, {x, rois, images}, attrs);
}

// Opsets below 16 know no coordinate_transformation_mode and shift nothing.
void lower_roi_align(LowerContext& c) {
  const Var x = c.need(0), rois = cast(c.need(1), x.dtype()), images = c.need(2);
  const std::string mode = c.attr_string("mode", "avg");
  const std::string place = c.attr_string("coordinate_transformation_mode",
                                          c.opset >= 16 ? "half_pixel" : "output_half_pixel");
  if (mode != "avg" && mode != "max") c.invalid("mode is avg or max, not '" + mode + "'");
  if (place != "half_pixel" && place != "output_half_pixel") {
    c.invalid("coordinate_transformation_mode is half_pixel or output_half_pixel, not '" + place +
              "'");
  }
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 4) {
    c.invalid("rois " + to_string(rois.shape()) + " of " + to_string(x.shape()) +
              ": [R,4] of [N,C,H,W] is expected");
  }
  RoiAttrs attrs;
  attrs.mode = mode == "avg" ? RoiMode::kAverage : RoiMode::kMax;
  attrs.height = c.attr_int("output_height", 1);
  attrs.width = c.attr_int("output_width", 1);
  attrs.sampling_ratio = c.attr_int("sampling_ratio", 0);
  attrs.scale = c.attr_float("spatial_scale", 1.0);
  attrs.half_pixel = place == "half_pixel";
  c.set(pool_rois(c, x, rois, images, attrs));
}

// A roi is (image, x1, y1, x2, y2).
void lower_max_roi_pool(LowerContext& c) {
  const Var x = c.need(0), rois = cast(c.need(1), x.dtype());
  const auto pooled = c.attr_ints("pooled_shape");
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 5) {
    c.invalid("rois " + to_string(rois.shape()) + " of " + to_string(x.shape()) +
              ": [R,5] of [N,C,H,W] is expected");
  }
  if (pooled.size() != 2) c.invalid("pooled_shape is height and width, not " + to_string(pooled));
  RoiAttrs attrs;
  attrs.mode = RoiMode::kCellMax;
  attrs.height = pooled[0];
  attrs.width = pooled[1];
  attrs.scale = c.attr_float("spatial_scale", 1.0);
  const Var images = cast(reshape(slice(rois, 1, 0, 1), {rois.dim(0)}), DType::kInt64);
  c.set(pool_rois(c, x, slice(rois, 1, 1, 4), images, attrs));
}

// In float, as the operator's type is: thresholds are compared exactly.
struct Box {
  float x0, y0, x1, y1;

  float area() const { return (x1 - x0) * (y1 - y0); }
};

Box make_box(const float* v, bool centred) {
  if (centred) {
    const float w = v[2] / 2, h = v[3] / 2;
    return {v[0] - w, v[1] - h, v[0] + w, v[1] + h};
  }
  return {std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])};
}

// Whether the intersection's share of the union is above the threshold.
bool overlap(const Box& a, const Box& b, float threshold) {
  const float w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(w > 0) || !(h > 0)) return false;
  const float common = w * h, all = a.area() + b.area() - common;
  if (common <= 0 || a.area() <= 0 || b.area() <= 0 || all <= 0) return false;
  return common / all > threshold;
}

// Best score first, then lowest index; NaN last.
std::vector<int64_t> by_score(std::span<const float> scores, std::optional<float> least) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!least || scores[i] > *least) order.push_back(static_cast<int64_t>(i));
  }
  const auto key = [&](int64_t i) {
    return std::isnan(scores[at(i)]) ? -std::numeric_limits<float>::infinity() : scores[at(i)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return key(i) > key(j); });
  return order;
}

std::vector<int64_t> kept(std::span<const Box> boxes, const std::vector<int64_t>& order,
                          int64_t most, float threshold) {
  std::vector<int64_t> selected;
  for (int64_t i : order) {
    if (static_cast<int64_t>(selected.size()) >= most) break;
    if (std::none_of(selected.begin(), selected.end(),
                     [&](int64_t j) { return overlap(boxes[at(i)], boxes[at(j)], threshold); })) {
      selected.push_back(i);
    }
  }
  return selected;
}

bool given(const LowerContext& c, size_t i) { return c.has(i) && c.in(i).type().size() > 0; }

// The number of rows depends on the contents, so that everything must be known.
void lower_non_max_suppression(LowerContext& c) {
  const Tensor boxes = c.constant(0).to(DType::kFloat32),
               scores = c.constant(1).to(DType::kFloat32);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.shape()[2] != 4 ||
      boxes.shape()[0] != scores.shape()[0] || boxes.shape()[1] != scores.shape()[2]) {
    c.invalid("scores " + to_string(scores.shape()) + " do not fit boxes " +
              to_string(boxes.shape()));
  }
  const int64_t form = c.attr_int("center_point_box", 0);
  if (form != 0 && form != 1) c.invalid("center_point_box is 0 or 1");
  const auto most = given(c, 2) ? static_cast<int64_t>(c.number(2)) : 0;
  const auto threshold = given(c, 3) ? static_cast<float>(c.number(3)) : 0.0f;
  std::optional<float> least;
  if (given(c, 4)) least = static_cast<float>(c.number(4));

  const int64_t count = boxes.shape()[1], classes = scores.shape()[1];
  std::vector<int64_t> rows;
  for (int64_t n = 0; n < boxes.shape()[0]; ++n) {
    std::vector<Box> image;
    for (int64_t i = 0; i < count; ++i) {
      image.push_back(make_box(boxes.data<float>().data() + (n * count + i) * 4, form == 1));
    }
    for (int64_t k = 0; k < classes; ++k) {
      const auto own = scores.data<float>().subspan(at((n * classes + k) * count), at(count));
      for (int64_t i : kept(image, by_score(own, least), most, threshold)) {
        rows.insert(rows.end(), {n, k, i});
      }
    }
  }
  const auto found = static_cast<int64_t>(rows.size()) / 3;
  c.set(c.b.constant(Tensor::from<int64_t>(std::span<const int64_t>(rows), {found, 3})));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "MaxRoiPool", 1, lower_max_roi_pool, kFirst},
    {"", "NonMaxSuppression", 10, lower_non_max_suppression, kNone},
    {"", "RoiAlign", 10, lower_roi_align, kFirst},
};

}  // namespace

std::span<const LoweringRow> roi_lowerings() { return kRows; }

}  // namespace trainrt::lowering
