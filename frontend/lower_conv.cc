// Conv, ConvTranspose, Col2Im.
#include <algorithm>
#include <limits>

#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt {
namespace lowering {
namespace {

// Sums of a few and products of two attributes fit 64 bits.
constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();

void check_range(const LowerContext& c, const std::vector<int64_t>& list, size_t count,
                 int64_t least, std::string_view what) {
  const bool ok = list.size() == count && std::all_of(list.begin(), list.end(), [&](int64_t v) {
                    return v >= least && v <= kMaxExtent;
                  });
  if (!ok) {
    c.invalid(std::string(what) + " " + to_string(list) + " must hold " + std::to_string(count) +
              " values of " + std::to_string(least) + " or more");
  }
}

// Exporters write an empty list for "not given".
std::vector<int64_t> list_attr(const LowerContext& c, std::string_view name, size_t count,
                               int64_t otherwise, int64_t least) {
  std::vector<int64_t> list = c.attr_ints(name, std::vector<int64_t>{});
  if (list.empty()) list.assign(count, otherwise);
  check_range(c, list, count, least, name);
  return list;
}

ConvAttrs conv_attrs(const LowerContext& c, const Window& w) {
  ConvAttrs attrs;
  attrs.strides = w.strides;
  attrs.dilations = w.dilations;
  attrs.pads_begin = w.pads_begin;
  attrs.pads_end = w.pads_end;
  attrs.group = c.attr_int("group", 1);
  return attrs;
}

}  // namespace

std::vector<int64_t> weight_kernel(const LowerContext& c, Var w, size_t rank) {
  if (w.rank() != static_cast<int64_t>(rank) + 2) {
    c.invalid("weight " + to_string(w.shape()) + " needs rank " + std::to_string(rank + 2));
  }
  std::vector<int64_t> kernel(w.shape().begin() + 2, w.shape().end());
  const auto given = c.attr_ints("kernel_shape", std::vector<int64_t>{});
  if (!given.empty() && given != kernel) {
    c.invalid("kernel_shape " + to_string(given) + " does not fit weight " + to_string(w.shape()));
  }
  return kernel;
}

namespace {

// Negative pads crop the input.
Var crop(Var x, Window& w) {
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t begin = std::max<int64_t>(-w.pads_begin[i], 0);
    const int64_t end = std::max<int64_t>(-w.pads_end[i], 0);
    const auto axis = static_cast<int64_t>(i) + 2;
    if (begin > 0 || end > 0) x = slice(x, axis, begin, x.dim(axis) - begin - end);
    w.pads_begin[i] = std::max<int64_t>(w.pads_begin[i], 0);
    w.pads_end[i] = std::max<int64_t>(w.pads_end[i], 0);
  }
  return x;
}

}  // namespace

Var convolve(LowerContext& c, Var x, Var w, Var bias) {
  const auto input = spatial_dims(c, x);
  Window window = read_window(c, weight_kernel(c, w, input.size()), &input);
  x = crop(x, window);
  const ConvAttrs attrs = conv_attrs(c, window);
  return bias ? c.b.add(Op::kConv, {x, w, bias}, attrs) : c.b.add(Op::kConv, {x, w}, attrs);
}

namespace {

void lower_conv(LowerContext& c) { c.set(convolve(c, c.need(0), c.need(1), c.in(2))); }

// One spatial axis of ConvTranspose. The full result has `full` cells; [begin, begin + size) of it
// is asked for and may reach beyond.
struct Cut {
  int64_t full, begin, size;
};

std::vector<Cut> transposed_cuts(const LowerContext& c, const std::vector<int64_t>& input,
                                 const Window& w) {
  const size_t n = input.size();
  const auto extra = list_attr(c, "output_padding", n, 0, 0);
  auto wanted = c.attr_ints("output_shape", std::vector<int64_t>{});
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const AutoPad mode = auto_pad(c);
  if (wanted.empty() && (mode == AutoPad::kSameUpper || mode == AutoPad::kSameLower)) {
    for (size_t i = 0; i < n; ++i) wanted.push_back(input[i] * w.strides[i]);
  }
  if (!wanted.empty()) check_range(c, wanted, n, 1, "output_shape");
  std::vector<Cut> cuts;
  for (size_t i = 0; i < n; ++i) {
    if (input[i] < 1) c.invalid("the input is empty");
    Cut cut{(input[i] - 1) * w.strides[i] + w.extent(i), w.pads_begin[i], 0};
    if (wanted.empty()) {
      cut.size = cut.full + extra[i] - w.pads_begin[i] - w.pads_end[i];
    } else {
      const int64_t total = std::max<int64_t>(cut.full + extra[i] - wanted[i], 0);
      cut.begin = mode == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      cut.size = wanted[i];
    }
    if (cut.size < 1 || cut.begin >= cut.full || cut.begin + cut.size < 1) {
      c.invalid("the result is empty along spatial axis " + std::to_string(i));
    }
    cuts.push_back(cut);
  }
  return cuts;
}

// The gradient of a convolution with respect to its data, for a convolution that maps the result's
// shape to the input's. Cells that no tap reaches are added as padding.
void lower_conv_transpose(LowerContext& c) {
  const Var x = c.need(0), w = c.need(1);
  const auto input = spatial_dims(c, x);
  const Window window = read_window(c, weight_kernel(c, w, input.size()), nullptr);
  const auto cuts = transposed_cuts(c, input, window);
  ConvAttrs attrs = conv_attrs(c, window);
  if (attrs.group < 1 || w.dim(1) > kMaxExtent || attrs.group > kMaxExtent) {
    c.invalid("group " + std::to_string(attrs.group) + " is out of range");
  }
  attrs.shape = {x.dim(0), w.dim(1) * attrs.group};
  PadAttrs pad;
  pad.before.assign(at(x.rank()), 0);
  pad.after.assign(at(x.rank()), 0);
  bool padded = false;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const Cut& cut = cuts[i];
    const int64_t begin = std::max<int64_t>(cut.begin, 0), end = cut.begin + cut.size;
    // A convolution maps up to stride - 1 cells more to the same size.
    const int64_t reach = end - cut.full < attrs.strides[i] ? end : std::min(end, cut.full);
    attrs.pads_begin[i] = begin;
    attrs.pads_end[i] = std::max<int64_t>(cut.full - reach, 0);
    attrs.shape.push_back(reach - begin);
    pad.before[i + 2] = begin - cut.begin;
    pad.after[i + 2] = end - reach;
    padded = padded || pad.before[i + 2] != 0 || pad.after[i + 2] != 0;
  }
  Var y = c.b.add(Op::kConvDataGrad, {x, w}, attrs);
  if (padded) y = c.b.add(Op::kPad, {y}, pad);
  if (c.has(2)) {
    if (c.in(2).shape() != Shape{y.dim(1)}) {
      c.invalid("bias " + to_string(c.in(2).shape()) + " needs shape " +
                to_string(Shape{y.dim(1)}));
    }
    y = y + along(c.in(2), 1, y.rank());
  }
  c.set(y);
}

// Overlapping blocks are added up: the gradient of cutting an image into blocks, which is a
// convolution whose weights are unit matrices.
void lower_col2im(LowerContext& c) {
  const Var given = c.need(0);
  const bool real = is_float(given.dtype());
  if (!real && (dtype_size(given.dtype()) > 4 || given.dtype() == DType::kBool)) {
    c.refuse("no_lowering", "Col2Im of " + std::string(dtype_name(given.dtype())));
  }
  const Var x = real ? given : cast(given, DType::kFloat64);  // sums of 32 bits are exact
  const auto image = c.ints(1), block = c.ints(2);
  const size_t n = image.size();
  if (n < 1 || n > 3) c.refuse("no_lowering", "Col2Im of " + std::to_string(n) + " spatial dims");
  check_range(c, image, n, 1, "image_shape");
  check_range(c, block, n, 1, "block_shape");
  const Window window = read_window(c, block, nullptr);
  const int64_t taps = checked_count(c, block);
  if (x.rank() != 3 || x.dim(1) % taps != 0) {
    c.invalid("expected [N, C * " + std::to_string(taps) + ", blocks], given " +
              to_string(x.shape()));
  }
  if (taps > 4096) c.refuse("no_lowering", "blocks of more than 4096 cells");
  const int64_t planes = x.dim(0) * (x.dim(1) / taps);
  ConvAttrs attrs = conv_attrs(c, window);
  attrs.group = 1;
  attrs.shape = {planes, 1};
  Shape blocks = {planes, taps}, weight = {taps, 1};
  int64_t count = 1;
  for (size_t i = 0; i < n; ++i) {
    if (window.pads_begin[i] < 0 || window.pads_end[i] < 0) c.invalid("pads may not be negative");
    const int64_t room = image[i] + window.pads_begin[i] + window.pads_end[i] - window.extent(i);
    if (room < 0) c.invalid("the blocks are larger than the image");
    blocks.push_back(room / window.strides[i] + 1);
    weight.push_back(block[i]);
    attrs.shape.push_back(image[i]);
    count = checked_count(c, Shape{count, blocks.back()});
  }
  if (count != x.dim(2)) {
    c.invalid("expected " + std::to_string(count) + " blocks, given " + std::to_string(x.dim(2)));
  }
  Tensor unit(x.dtype(), {taps, taps});
  with_float_type(x.dtype(), [&](auto zero) {
    auto data = unit.data<decltype(zero)>();
    for (int64_t i = 0; i < taps; ++i) data[at(i * taps + i)] = 1;
  });
  const Var y =
      c.b.add(Op::kConvDataGrad, {reshape(x, blocks), c.b.constant(unit.reshape(weight))}, attrs);
  Shape shape = {x.dim(0), x.dim(1) / taps};
  shape.insert(shape.end(), image.begin(), image.end());
  const Var sums = real ? y : cast(y, DType::kInt64);  // which wraps around
  c.set(cast(reshape(sums, shape), given.dtype()));
}

constexpr LoweringRow kRows[] = {
    {"", "Conv", 1, lower_conv, GradInputs::kAll, "more than three spatial dims"},
    {"", "ConvTranspose", 1, lower_conv_transpose},
    {"", "Col2Im", 18, lower_col2im, GradInputs::kFirst,
     "more than three spatial dims; 64-bit integers"},
};

}  // namespace

AutoPad auto_pad(const LowerContext& c) {
  const std::string mode = c.attr_string("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return AutoPad::kNotSet;
  if (mode == "SAME_UPPER") return AutoPad::kSameUpper;
  if (mode == "SAME_LOWER") return AutoPad::kSameLower;
  if (mode == "VALID") return AutoPad::kValid;
  c.invalid("auto_pad '" + mode + "' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
}

std::vector<int64_t> spatial_dims(const LowerContext& c, Var x) {
  if (x.rank() < 3) {
    c.invalid("expected [N, C] and spatial dims, given " + to_string(x.shape()));
  }
  if (x.rank() > 5) {
    c.refuse("no_lowering", "more than three spatial dims: " + to_string(x.shape()));
  }
  std::vector<int64_t> dims(x.shape().begin() + 2, x.shape().end());
  check_range(c, dims, dims.size(), 0, "spatial dims");
  return dims;
}

int64_t checked_count(const LowerContext& c, std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(count, d, &count) || count > kMaxElements) {
      c.invalid("shape " + to_string(shape) + " is too large");
    }
  }
  return count;
}

Window read_window(const LowerContext& c, std::vector<int64_t> kernel,
                   const std::vector<int64_t>* input) {
  const size_t n = kernel.size();
  check_range(c, kernel, n, 1, "kernel");
  Window w;
  w.kernel = std::move(kernel);
  w.strides = list_attr(c, "strides", n, 1, 1);
  w.dilations = list_attr(c, "dilations", n, 1, 1);
  w.pads_begin.assign(n, 0);
  w.pads_end.assign(n, 0);
  switch (auto_pad(c)) {
    case AutoPad::kValid:
      break;
    case AutoPad::kNotSet: {
      const auto pads = list_attr(c, "pads", 2 * n, 0, -kMaxExtent);
      w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
      w.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
      break;
    }
    case AutoPad::kSameUpper:
    case AutoPad::kSameLower:
      if (input == nullptr) break;
      for (size_t i = 0; i < n; ++i) {
        const int64_t in = (*input)[i], s = w.strides[i];
        const int64_t out = (in + s - 1) / s;
        const int64_t total = std::max<int64_t>((out - 1) * s + w.extent(i) - in, 0);
        const int64_t less = total / 2, more = total - less;
        const bool upper = auto_pad(c) == AutoPad::kSameUpper;
        w.pads_begin[i] = upper ? less : more;
        w.pads_end[i] = upper ? more : less;
      }
      break;
  }
  return w;
}

}  // namespace lowering

std::span<const LoweringRow> conv_lowerings() {
  static const std::vector<LoweringRow> rows =
      lowering::joined({lowering::kRows, lowering::pool_lowerings(), lowering::resize_lowerings(),
                        lowering::deform_lowerings(), lowering::roi_lowerings()});
  return rows;
}

}  // namespace trainrt
