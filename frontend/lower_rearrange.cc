// Rarer movements of data: blocks to channels, triangles, crops, reversed sequences.
#include <algorithm>

#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

struct Blocks {
  int64_t n, channels, height, width, size;
};

Blocks blocks_of(LowerContext& c) {
  const Var x = c.need(0);
  if (x.rank() != 4) c.invalid("the input is [N,C,H,W], not " + to_string(x.shape()));
  const int64_t size = c.attr_int("blocksize");
  if (size < 1 || size > (int64_t{1} << 20)) {
    c.invalid("blocksize " + std::to_string(size) + " makes no sense");
  }
  return {x.dim(0), x.dim(1), x.dim(2), x.dim(3), size};
}

bool depth_first(LowerContext& c) {
  const std::string mode = c.attr_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") c.invalid("mode is DCR or CRD, not '" + mode + "'");
  return mode == "DCR";
}

// Channels are (block row, block column, depth), or with CRD (depth, block row, block column).
void lower_depth_to_space(LowerContext& c) {
  const Blocks k = blocks_of(c);
  const int64_t b = k.size, depth = k.channels / (b * b);
  if (depth * b * b != k.channels) {
    c.invalid(std::to_string(k.channels) + " channels are no multiple of blocksize squared");
  }
  const bool dcr = depth_first(c);
  const Var x = reshape(c.need(0), dcr ? Shape{k.n, b, b, depth, k.height, k.width}
                                       : Shape{k.n, depth, b, b, k.height, k.width});
  const Var y = transpose(
      x, dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  c.set(reshape(y, {k.n, depth, k.height * b, k.width * b}));
}

void lower_space_to_depth(LowerContext& c) {
  const Blocks k = blocks_of(c);
  const int64_t b = k.size, h = k.height / b, w = k.width / b;
  if (h * b != k.height || w * b != k.width) {
    c.invalid("height and width are no multiples of blocksize " + std::to_string(b));
  }
  const Var x = reshape(c.need(0), {k.n, k.channels, h, b, w, b});
  const Var y = transpose(x, depth_first(c) ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                            : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  c.set(reshape(y, {k.n, k.channels * b * b, h, w}));
}

void lower_trilu(LowerContext& c) {
  int64_t k = 0;
  if (c.has(1)) {
    const std::vector<int64_t> given = c.ints(1);
    if (given.size() != 1) c.invalid("k of Trilu is a scalar");
    k = given[0];
  }
  c.set(c.b.add(Op::kTrilu, {c.need(0)}, TriluAttrs{c.attr_int("upper", 1) != 0, k}));
}

// Both triangles of a matrix of ones meet in one diagonal.
void lower_eye_like(LowerContext& c) {
  const Var x = c.need(0);
  if (x.rank() != 2) c.invalid("the input is a matrix, not " + to_string(x.shape()));
  const DType type = c.has_attr("dtype") ? c.attr_dtype("dtype") : x.dtype();
  const int64_t k = c.attr_int("k", 0);
  Var y = c.b.fill(type, 1, x.shape());
  for (bool upper : {true, false}) y = c.b.add(Op::kTrilu, {y}, TriluAttrs{upper, k});
  c.set(y);
}

// Crops and pads around the centre; an odd row or column is taken from, or added to, the end.
void lower_center_crop_pad(LowerContext& c) {
  const Var x = c.need(0);
  const std::vector<int64_t> shape = c.ints(1);
  const std::vector<int64_t> axes = c.attr_ints("axes", identity_perm(x.rank()));
  if (shape.size() != axes.size()) {
    c.invalid(std::to_string(shape.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  }
  PadAttrs p{std::vector<int64_t>(at(x.rank()), 0),
             std::vector<int64_t>(at(x.rank()), 0),
             PadMode::kConstant,
             0,
             {}};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = c.axis(axes[i], x.rank()), size = x.dim(a), wanted = shape[i];
    if (wanted < 0) c.invalid("a size is negative: " + to_string(shape));
    p.before[at(a)] = wanted < size ? -((size - wanted) / 2) : (wanted - size) / 2;
    p.after[at(a)] = wanted - size - p.before[at(a)];
  }
  c.set(c.b.add(Op::kPad, {x}, std::move(p)));
}

// Element t of a sequence of length n comes from n - 1 - t while t < n, else from t.
void lower_reverse_sequence(LowerContext& c) {
  const Var x = c.need(0);
  if (x.rank() < 2) c.invalid("the input has rank 2 or more, not " + to_string(x.shape()));
  const int64_t time = c.axis(c.attr_int("time_axis", 0), x.rank());
  const int64_t batch = c.axis(c.attr_int("batch_axis", 1), x.rank());
  if (time == batch || time > 1 || batch > 1) c.invalid("time_axis and batch_axis are 0 and 1");
  const Var lens = cast(c.need(1), DType::kInt64);
  if (lens.shape() != Shape{x.dim(batch)}) {
    c.invalid("sequence_lens has shape " + to_string(lens.shape()) + ", not [" +
              std::to_string(x.dim(batch)) + "]");
  }
  if (const auto known = c.try_constant(1)) {
    for (int64_t n : known->to_ints()) {
      if (n < 0 || n > x.dim(time)) c.invalid("a sequence of length " + std::to_string(n));
    }
  }
  const Var t = along(iota(c, x.dim(time)), time, x.rank());
  const Var n = along(lens, batch, x.rank());
  const Var source = where(less(t, n), n - t - 1.0, t);
  c.set(c.b.add(Op::kGatherElements, {x, expand(source, x.shape())}, AxisAttrs{time}));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "CenterCropPad", 18, lower_center_crop_pad, kFirst},
    {"", "DepthToSpace", 1, lower_depth_to_space},
    {"", "EyeLike", 9, lower_eye_like, kNone},
    {"", "ReverseSequence", 10, lower_reverse_sequence, kFirst},
    {"", "SpaceToDepth", 1, lower_space_to_depth},
    {"", "Trilu", 14, lower_trilu, kFirst},
    {"com.microsoft", "Trilu", 1, lower_trilu, kFirst},
};

}  // namespace

std::span<const LoweringRow> rearrange_lowerings() { return kRows; }

}  // namespace trainrt::lowering
