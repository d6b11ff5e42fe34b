// DeformConv: samples beside the cells of a convolution's windows, and one matrix product.
#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// Sizes: K taps of the kernel, P output places, S cells of the input.
struct Deform {
  Window window;
  std::vector<int64_t> input, output;
  int64_t batch, channels, groups, offset_groups, taps, points, cells;
};

void check_groups(LowerContext& c, const Deform& d, Var w) {
  const auto divides = [](int64_t groups, int64_t n) { return groups >= 1 && n % groups == 0; };
  if (!divides(d.groups, d.channels) || !divides(d.groups, w.dim(0)) ||
      d.channels / d.groups != w.dim(1)) {
    c.invalid("weight " + to_string(w.shape()) + " does not fit " + std::to_string(d.channels) +
              " channels in " + std::to_string(d.groups) + " group(s)");
  }
  if (!divides(d.offset_groups, d.channels)) {
    c.invalid(std::to_string(d.channels) + " channels cannot be cut into " +
              std::to_string(d.offset_groups) + " offset groups");
  }
}

// One value for each of `per_tap`, tap, and output place.
void check_places(LowerContext& c, const Deform& d, Var v, int64_t per_tap, const char* what) {
  Shape wanted = {d.batch, d.offset_groups * d.taps * per_tap};
  wanted.insert(wanted.end(), d.output.begin(), d.output.end());
  if (v.shape() != wanted) {
    c.invalid(std::string(what) + " " + to_string(v.shape()) + " should be " + to_string(wanted));
  }
}

Deform read_deform(LowerContext& c, Var x, Var w) {
  Deform d;
  d.input = spatial_dims(c, x);
  d.window = read_window(c, weight_kernel(c, w, d.input.size()), &d.input);
  for (size_t i = 0; i < d.input.size(); ++i) {
    const Window& v = d.window;
    const int64_t room = d.input[i] + v.pads_begin[i] + v.pads_end[i] - v.extent(i);
    if (v.pads_begin[i] < 0 || v.pads_end[i] < 0) c.invalid("pads may not be negative");
    if (room < 0 || d.input[i] == 0) {
      c.invalid("the kernel is larger than the padded input " + to_string(x.shape()));
    }
    d.output.push_back(room / v.strides[i] + 1);
  }
  d.batch = x.dim(0);
  d.channels = x.dim(1);
  d.groups = c.attr_int("group", 1);
  d.offset_groups = c.attr_int("offset_group", 1);
  check_groups(c, d, w);
  d.taps = product(w.shape(), 2, w.rank());
  d.points = checked_count(c, d.output);
  d.cells = product(x.shape(), 2, x.rank());
  return d;
}

// Where the taps lie along an axis without their offsets: [K, P].
Var regular_places(LowerContext& c, const Deform& d, size_t axis) {
  if (d.taps > kMaxConstant / d.points) c.invalid("the windows are too many to write out");
  Tensor places(DType::kFloat64, {d.taps, d.points});
  const int64_t inner_taps = product(d.window.kernel, static_cast<int64_t>(axis) + 1,
                                     static_cast<int64_t>(d.window.rank()));
  const int64_t inner_points =
      product(d.output, static_cast<int64_t>(axis) + 1, static_cast<int64_t>(d.output.size()));
  for (int64_t k = 0; k < d.taps; ++k) {
    for (int64_t p = 0; p < d.points; ++p) {
      const int64_t tap = k / inner_taps % d.window.kernel[axis];
      const int64_t window = p / inner_points % d.output[axis];
      places.data<double>()[at(k * d.points + p)] =
          static_cast<double>(window * d.window.strides[axis] - d.window.pads_begin[axis] +
                              tap * d.window.dilations[axis]);
    }
  }
  return c.b.constant(places.to(c.working));
}

// The corners around every sample: cells in the map and weights, [N, groups of offsets, K, P].
std::vector<Tap> corners(LowerContext& c, const Deform& d, Var offset, Var mask) {
  const auto rank = static_cast<int64_t>(d.input.size());
  const Shape shape = {d.batch, d.offset_groups, d.taps, d.points};
  const Var offsets = reshape(offset, {d.batch, d.offset_groups, d.taps, rank, d.points});
  std::vector<Tap> all = {{{}, mask ? reshape(mask, shape) : Var()}};
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t size = d.input[at(axis)];
    const Var place = reshape(slice(offsets, 3, axis, 1), shape) + regular_places(c, d, at(axis));
    std::vector<Tap> next;
    for (const Tap& outer : all) {
      for (const Tap& tap : linear_taps(place, size)) {
        next.push_back({outer.cell ? outer.cell * static_cast<double>(size) + tap.cell : tap.cell,
                        outer.weight ? outer.weight * tap.weight : tap.weight});
      }
    }
    all = std::move(next);
  }
  return all;
}

// Channels last, so that a cell is a row: [N, groups of offsets, K, P, channels of a group].
Var sampled(LowerContext& c, const Deform& d, Var x, const std::vector<Tap>& taps) {
  const int64_t maps = d.batch * d.offset_groups, width = d.channels / d.offset_groups;
  const Var rows =
      reshape(transpose(reshape(x, {maps, width, d.cells}), {0, 2, 1}), {maps * d.cells, width});
  const Var first =
      reshape(iota(c, maps) * static_cast<double>(d.cells), {d.batch, d.offset_groups, 1, 1});
  Var sum;
  for (const Tap& tap : taps) {
    const Var term = gather(rows, tap.cell + first, 0) * unsqueeze(tap.weight, {-1});
    sum = sum ? sum + term : term;
  }
  return sum;
}

// y = W times the samples, as one matrix product for each image and group.
void lower_deform_conv(LowerContext& c) {
  const Var x = c.need(0), w = c.need(1), offset = c.need(2);
  const Deform d = read_deform(c, x, w);
  check_places(c, d, offset, static_cast<int64_t>(d.input.size()), "offset");
  if (c.has(4)) check_places(c, d, c.in(4), 1, "mask");
  const Var samples = sampled(c, d, x, corners(c, d, offset, c.in(4)));
  const int64_t terms = w.dim(1) * d.taps;
  const Var columns =
      reshape(transpose(samples, {0, 1, 4, 2, 3}), {d.batch, d.groups, terms, d.points});
  const Var y = matmul(reshape(w, {d.groups, w.dim(0) / d.groups, terms}), columns);
  Shape shape = {d.batch, w.dim(0)};
  shape.insert(shape.end(), d.output.begin(), d.output.end());
  Var result = reshape(y, shape);
  if (c.has(3)) {
    if (c.in(3).shape() != Shape{w.dim(0)}) {
      c.invalid("bias " + to_string(c.in(3).shape()) + " does not fit weight " +
                to_string(w.shape()));
    }
    result = result + along(c.in(3), 1, x.rank());
  }
  c.set(result);
}

constexpr LoweringRow kRows[] = {
    {"", "DeformConv", 19, lower_deform_conv},
};

}  // namespace

std::span<const LoweringRow> deform_lowerings() { return kRows; }

}  // namespace trainrt::lowering
