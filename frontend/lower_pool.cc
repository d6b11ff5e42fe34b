// Pools, global pools, MaxUnpool.
#include <algorithm>
#include <numeric>

#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// Windows along each axis. With ceil_mode the last one is dropped when it would begin beyond the
// input and its padding in front, as PyTorch does and ONNX since opset 22.
PoolAttrs read_pool(const LowerContext& c, Var x) {
  const auto input = spatial_dims(c, x);
  const auto kernel = c.attr_ints("kernel_shape");
  if (kernel.size() != input.size()) {
    c.invalid("kernel_shape " + to_string(kernel) + " does not fit " + to_string(x.shape()));
  }
  const Window w = read_window(c, kernel, &input);
  const bool ceil = c.attr_int("ceil_mode", 0) != 0;
  PoolAttrs p;
  p.kernel = w.kernel;
  p.strides = w.strides;
  p.dilations = w.dilations;
  p.pads_begin = w.pads_begin;
  p.pads_end = w.pads_end;
  for (size_t i = 0; i < w.rank(); ++i) {
    if (w.pads_begin[i] < 0 || w.pads_end[i] < 0) c.invalid("pads of a pool may not be negative");
    const int64_t room = input[i] + w.pads_begin[i] + w.pads_end[i] - w.extent(i);
    if (room < 0) {
      c.invalid("the window is larger than the padded input along spatial axis " +
                std::to_string(i) + " of " + to_string(x.shape()));
    }
    const int64_t s = w.strides[i];
    int64_t out = (ceil ? (room + s - 1) / s : room / s) + 1;
    if (ceil && (out - 1) * s >= input[i] + w.pads_begin[i]) --out;
    p.output.push_back(out);
  }
  return p;
}

void lower_max_pool(LowerContext& c) {
  const Var x = c.need(0);
  PoolAttrs attrs = read_pool(c, x);
  c.set(0, c.b.add(Op::kMaxPool, {x}, attrs));
  if (!c.wants(1)) return;
  attrs.column_major = c.attr_int("storage_order", 0) != 0;
  c.set(1, c.b.add(Op::kMaxPoolIndices, {x}, attrs));
}

void lower_average_pool(LowerContext& c) {
  const Var x = c.need(0);
  PoolAttrs attrs = read_pool(c, x);
  attrs.count_include_pad = c.attr_int("count_include_pad", 0) != 0;
  c.set(c.b.add(Op::kAveragePool, {x}, attrs));
}

double norm_order(const LowerContext& c) {
  const auto p = static_cast<double>(c.attr_int("p", 2));
  if (p < 1) c.invalid("p must be 1 or more");
  return p;
}

Var powers(Var x, double p) {
  if (p == 1) return abs(x);
  return p == 2 ? square(x) : pow(abs(x), p);
}

// s^(1/p), with gradient 0 where s is 0.
Var root(Var s, double p) {
  if (p == 1) return s;
  const Var positive = greater(s, 0.0);
  const Var base = where(positive, s, 1.0);
  return where(positive, p == 2 ? sqrt(base) : pow(base, 1.0 / p), 0.0);
}

// Sums over windows are convolutions with ones.
void lower_lp_pool(LowerContext& c) {
  const Var x = c.need(0);
  const double p = norm_order(c);
  const PoolAttrs pool = read_pool(c, x);
  ConvAttrs conv;
  conv.strides = pool.strides;
  conv.dilations = pool.dilations;
  conv.pads_begin = pool.pads_begin;
  Shape planes = {x.dim(0) * x.dim(1), 1}, weight = {1, 1}, shape = {x.dim(0), x.dim(1)};
  for (size_t i = 0; i < pool.kernel.size(); ++i) {
    const int64_t in = x.dim(static_cast<int64_t>(i) + 2);
    const int64_t reach =
        (pool.output[i] - 1) * pool.strides[i] + pool.dilations[i] * (pool.kernel[i] - 1) + 1;
    const int64_t after = reach - in - pool.pads_begin[i];
    planes.push_back(in);
    weight.push_back(pool.kernel[i]);
    shape.push_back(pool.output[i]);
    conv.pads_end.push_back(std::max<int64_t>(after, 0));
  }
  const Var sums =
      c.b.add(Op::kConv, {reshape(powers(x, p), planes), c.b.fill(x.dtype(), 1, weight)}, conv);
  c.set(root(reshape(sums, shape), p));
}

std::vector<int64_t> spatial_axes(const LowerContext& c, Var x) {
  if (x.rank() < 2) c.invalid("expected [N, C] and spatial dims, given " + to_string(x.shape()));
  std::vector<int64_t> axes(at(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), int64_t{2});
  return axes;
}

void lower_global_average_pool(LowerContext& c) {
  const Var x = c.need(0);
  c.set(reduce_mean(x, spatial_axes(c, x), true));
}

void lower_global_lp_pool(LowerContext& c) {
  const Var x = c.need(0);
  const double p = norm_order(c);
  c.set(root(reduce_sum(powers(x, p), spatial_axes(c, x), true), p));
}

// A pool over one flat axis: the first maximum takes the gradient, which ReduceMax would share.
void lower_global_max_pool(LowerContext& c) {
  const Var x = c.need(0);
  Shape result = {x.dim(0), x.dim(1)};
  result.resize(spatial_axes(c, x).size() + 2, 1);
  const int64_t cells = product(x.shape(), 2, x.rank());
  if (cells == 0) c.invalid("there is no maximum of nothing: " + to_string(x.shape()));
  PoolAttrs attrs;
  attrs.kernel = {cells};
  attrs.strides = attrs.dilations = attrs.output = {1};
  attrs.pads_begin = attrs.pads_end = {0};
  c.set(reshape(c.b.add(Op::kMaxPool, {reshape(x, {x.dim(0), x.dim(1), cells})}, attrs), result));
}

// The values go to where `indices` say, in a tensor of the size that the pool attributes give;
// output_shape then adds zeros at its ends, or crops.
void lower_max_unpool(LowerContext& c) {
  const Var x = c.need(0), indices = c.need(1);
  const auto input = spatial_dims(c, x);
  const auto kernel = c.attr_ints("kernel_shape");
  if (kernel.size() != input.size()) {
    c.invalid("kernel_shape " + to_string(kernel) + " does not fit " + to_string(x.shape()));
  }
  if (indices.shape() != x.shape()) {
    c.invalid("indices " + to_string(indices.shape()) + " need shape " + to_string(x.shape()));
  }
  const Window w = read_window(c, kernel, nullptr);
  Shape shape = {x.dim(0), x.dim(1)};
  for (size_t i = 0; i < input.size(); ++i) {
    const int64_t size =
        (input[i] - 1) * w.strides[i] + kernel[i] - w.pads_begin[i] - w.pads_end[i];
    if (size < 1) c.invalid("the result is empty along spatial axis " + std::to_string(i));
    shape.push_back(size);
  }
  const Var zeros = c.b.fill(x.dtype(), 0, {checked_count(c, shape)});
  Var y = c.b.add(Op::kScatterElements,
                  {zeros, reshape(indices, {x.type().size()}), reshape(x, {x.type().size()})},
                  ScatterAttrs{});
  y = reshape(y, shape);
  if (c.has(2)) {
    const auto wanted = c.ints(2);
    if (wanted.size() != shape.size()) {
      c.invalid("output_shape " + to_string(wanted) + " needs " + std::to_string(shape.size()) +
                " entries");
    }
    PadAttrs pad;
    pad.before.assign(shape.size(), 0);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (wanted[i] < 0 || wanted[i] > kMaxElements) c.invalid("output_shape is out of range");
      pad.after.push_back(wanted[i] - shape[i]);
    }
    if (wanted != shape) y = c.b.add(Op::kPad, {y}, pad);
  }
  c.set(y);
}

constexpr LoweringRow kRows[] = {
    {"", "MaxPool", 1, lower_max_pool},
    {"", "AveragePool", 1, lower_average_pool},
    {"", "LpPool", 2, lower_lp_pool},
    {"", "GlobalAveragePool", 1, lower_global_average_pool},
    {"", "GlobalMaxPool", 1, lower_global_max_pool},
    {"", "GlobalLpPool", 2, lower_global_lp_pool},
    {"", "MaxUnpool", 9, lower_max_unpool, GradInputs::kFirst},
};

}  // namespace

std::span<const LoweringRow> pool_lowerings() { return kRows; }

}  // namespace trainrt::lowering
