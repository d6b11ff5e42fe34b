// GridSample and AffineGrid, by gathers and weights.
#include <algorithm>
#include <array>

#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {

Tap bounded(Tap tap, int64_t size) {
  const Var cell = clip(stop_gradient(tap.cell), 0, static_cast<double>(size - 1));
  const Var inside = cast(equal(cell, tap.cell), tap.cell.dtype());
  return {cast(cell, DType::kInt64), tap.weight ? tap.weight * inside : inside};
}

std::array<Tap, 2> linear_taps(Var place, int64_t size) {
  const Var below = unary(Op::kFloor, place), t = place - below;
  return {bounded({below, 1.0 - t}, size), bounded({below + 1.0, t}, size)};
}

namespace {

enum class Padding : uint8_t { kZeros, kBorder, kReflection };
enum class Mode : uint8_t { kNearest, kLinear, kCubic };

struct GridOptions {
  Mode mode;
  Padding padding;
  bool align;
};

GridOptions grid_options(LowerContext& c) {
  const std::string mode = c.attr_string("mode", "linear");
  const std::string padding = c.attr_string("padding_mode", "zeros");
  GridOptions o{Mode::kLinear, Padding::kZeros, c.attr_int("align_corners", 0) != 0};
  if (mode == "nearest") {
    o.mode = Mode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    o.mode = Mode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    c.invalid("mode is linear, nearest or cubic, not '" + mode + "'");
  }
  if (padding == "border") {
    o.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    o.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    c.invalid("padding_mode is zeros, border or reflection, not '" + padding + "'");
  }
  return o;
}

// Coordinates folded back between the centres (align) or edges of the outermost cells.
Var reflected(Var x, int64_t size, bool align) {
  const double low = align ? 0.0 : -0.5;
  const double span = static_cast<double>(align ? size - 1 : size);
  if (span == 0) return full_like(x, 0);
  const Var distance = abs(x - low);
  const Var turns = unary(Op::kFloor, distance / span);
  const Var rest = distance - turns * span;
  const Var odd = binary(Op::kMod, turns, x.builder().fill(x.dtype(), 2));
  return where(greater(odd, 0.5), span - rest, rest) + low;
}

Var padded(Var x, int64_t size, const GridOptions& o) {
  if (o.padding == Padding::kZeros) return x;
  if (o.padding == Padding::kReflection) x = reflected(x, size, o.align);
  return clip(x, 0, static_cast<double>(size - 1));
}

// Cubic convolution with a = -0.75, of the distances 1 + t, t, 1 - t, 2 - t.
std::array<Var, 4> cubic_weights(Var t) {
  const double a = -0.75;
  const auto near = [&](Var d) { return ((a + 2) * d - (a + 3)) * d * d + 1.0; };
  const auto far = [&](Var d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

std::vector<Tap> taps_of(Var grid, int64_t size, const GridOptions& o) {
  const double n = static_cast<double>(size);
  Var x = o.align ? (grid + 1.0) * ((n - 1) / 2) : ((grid + 1.0) * n - 1.0) / 2.0;
  if (o.mode != Mode::kCubic) x = padded(x, size, o);
  if (o.mode == Mode::kNearest) return {bounded({unary(Op::kRound, x), {}}, size)};
  if (o.mode == Mode::kLinear) {
    const std::array<Tap, 2> taps = linear_taps(x, size);
    return {taps.begin(), taps.end()};
  }
  const Var below = unary(Op::kFloor, x);
  const std::array<Var, 4> weights = cubic_weights(x - below);
  std::vector<Tap> taps;
  for (int i = 0; i < 4; ++i) {
    const Var cell = padded(below + static_cast<double>(i - 1), size, o);
    taps.push_back(bounded({cell, weights[at(i)]}, size));
  }
  return taps;
}

// y[n,c,p] = sum over combinations of taps of the product of their weights times x at their cells.
void lower_grid_sample(LowerContext& c) {
  const Var given = c.need(0), grid = c.need(1);
  const Var x = cast(given, grid.dtype());  // integers are computed as floats
  const GridOptions o = grid_options(c);
  const int64_t spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 5 || grid.rank() != x.rank() || grid.dim(0) != x.dim(0) ||
      grid.dim(grid.rank() - 1) != spatial) {
    c.invalid("grid " + to_string(grid.shape()) + " does not fit the input " +
              to_string(x.shape()));
  }
  const int64_t batch = x.dim(0), channels = x.dim(1);
  const int64_t points = product(grid.shape(), 1, grid.rank() - 1);
  for (int64_t d = 0; d < spatial; ++d) {
    if (x.dim(d + 2) == 0) c.invalid("cannot sample from nothing: " + to_string(x.shape()));
  }
  // The grid's last axis counts spatial axes from the innermost one.
  std::vector<Tap> all = {{}};
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t size = x.dim(d + 2);
    const Var place = reshape(slice(grid, grid.rank() - 1, spatial - 1 - d, 1), {batch, 1, points});
    std::vector<Tap> next;
    for (const Tap& outer : all) {
      for (const Tap& tap : taps_of(place, size, o)) {
        next.push_back({outer.cell ? outer.cell * static_cast<double>(size) + tap.cell : tap.cell,
                        outer.weight ? outer.weight * tap.weight : tap.weight});
      }
    }
    all = std::move(next);
  }
  const Var flat = reshape(x, {batch, channels, product(x.shape(), 2, x.rank())});
  Var y;
  for (const Tap& tap : all) {
    const Var cells = expand(tap.cell, {batch, channels, points});
    const Var term = c.b.add(Op::kGatherElements, {flat, cells}, AxisAttrs{2}) * tap.weight;
    y = y ? y + term : term;
  }
  Shape shape = {batch, channels};
  shape.insert(shape.end(), grid.shape().begin() + 1, grid.shape().end() - 1);
  c.set(cast(reshape(y, shape), given.dtype()));
}

// Centres of n cells that fill [-1, 1], or with align the outermost ones lie on its ends.
double centre(int64_t i, int64_t n, bool align) {
  if (!align) return static_cast<double>(2 * i + 1) / static_cast<double>(n) - 1.0;
  return n == 1 ? 0.0 : static_cast<double>(2 * i) / static_cast<double>(n - 1) - 1.0;
}

// grid[n, p] = theta[n] (x, y, z, 1) for every place p of the output.
void lower_affine_grid(LowerContext& c) {
  const Var theta = c.need(0);
  const Shape size = c.ints(1);
  const int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  if (spatial < 2 || spatial > 3 || theta.shape() != Shape{size[0], spatial, spatial + 1}) {
    c.invalid("theta " + to_string(theta.shape()) + " does not fit size " + to_string(size));
  }
  const bool align = c.attr_int("align_corners", 0) != 0;
  const int64_t points = product(size, 2, spatial + 2);
  if (points > kMaxConstant / 4) c.invalid("size " + to_string(size) + " is out of reach");
  Tensor base(DType::kFloat64, {points, spatial + 1});
  const std::span<double> values = base.data<double>();
  for (int64_t p = 0; p < points; ++p) {
    int64_t rest = p;
    for (int64_t d = 0; d < spatial; ++d) {
      const int64_t n = size[at(spatial + 1 - d)];
      values[at(p * (spatial + 1) + d)] = centre(rest % n, n, align);
      rest /= n;
    }
    values[at(p * (spatial + 1) + spatial)] = 1;
  }
  const Var grid = matmul(c.b.constant(base.to(theta.dtype())), theta, MatMulAttrs{false, true});
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(spatial);
  c.set(reshape(grid, shape));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "AffineGrid", 20, lower_affine_grid, kFirst},
    {"", "GridSample", 16, lower_grid_sample},
};

}  // namespace

std::span<const LoweringRow> grid_lowerings() { return kRows; }

}  // namespace trainrt::lowering
