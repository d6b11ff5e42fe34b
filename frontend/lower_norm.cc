// Normalisations, Softmax and its relatives.
#include <algorithm>

#include "frontend/lower_util.h"

namespace trainrt {

namespace lowering {

void lower_layer_norm(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", -1), x.rank());
  const LayerNormResult r = layer_normalize(
      x, c.need(1), c.in(2), axis, c.attr_float("epsilon", 1e-5), c.wants(1) || c.wants(2));
  if (r.y.shape() != x.shape()) c.invalid("scale or bias do not broadcast to the input");
  c.set(0, r.y);
  if (c.wants(1)) c.set(1, r.mean);
  if (c.wants(2)) c.set(2, r.inverse);
}

void lower_rms_norm(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", -1), x.rank());
  Var inverse;
  const Var y = rms_normalize(x, axis, c.attr_float("epsilon", 1e-5), &inverse) * c.need(1);
  if (y.shape() != x.shape()) c.invalid("scale does not broadcast to the input");
  c.set(0, y);
  if (c.wants(1)) c.set(1, inverse);
}

}  // namespace lowering

namespace {

using namespace lowering;

// The newest opsets and the oldest say so; between them several outputs are the training form.
bool file_says_training(LowerContext& c) {
  if (c.opset >= 14) return c.attr_int("training_mode", 0) != 0;
  if (c.opset < 7) return c.attr_int("is_test", 0) == 0;
  return c.output_count() > 1;
}

bool uses_batch_statistics(LowerContext& c) {
  switch (c.options.batch_norm) {
    case BatchNormMode::kTrain:
      return c.options.training;
    case BatchNormMode::kGraph:  // in eval mode too, as any other consumer of the file computes it
      return file_says_training(c);
    case BatchNormMode::kFrozen:
      return false;
  }
  return false;
}

// running = running * momentum + batch * (1 - momentum), y from the batch's statistics; else
// y = x a + (bias - mean a) with a = scale / sqrt(variance + epsilon). Below opset 14 outputs 3 and
// 4 are the statistics that y was computed from.
void lower_batch_norm(LowerContext& c) {
  const Var x = c.need(0), scale = c.need(1), bias = c.need(2);
  const Var mean = stop_gradient(c.need(3)), variance = stop_gradient(c.need(4));
  if (x.rank() < 2) c.invalid("the input is [N,C,...], not " + to_string(x.shape()));
  for (size_t i = 1; i <= 4; ++i) {
    if (c.in(i).shape() != Shape{x.dim(1)}) {
      c.invalid("input " + std::to_string(i) + " has shape " + to_string(c.in(i).shape()) +
                ", not [" + std::to_string(x.dim(1)) + "]");
    }
  }
  if (c.attr_int("spatial", 1) == 0) {
    c.refuse("no_lowering", "BatchNormalization with spatial = 0");
  }
  const double epsilon = c.attr_float("epsilon", 1e-5);
  Var used_mean = mean, used_variance = variance, next_mean = mean, next_variance = variance;
  if (uses_batch_statistics(c)) {
    const double momentum = c.attr_float("momentum", 0.9);
    const Var operands[] = {x, scale, bias};
    const std::vector<Var> y = c.b.add_all(Op::kBatchNorm, operands, NormAttrs{1, epsilon});
    used_mean = stop_gradient(y[1]);
    used_variance = stop_gradient(y[2]);
    next_mean = mean * momentum + used_mean * (1.0 - momentum);
    next_variance = variance * momentum + used_variance * (1.0 - momentum);
    c.set(0, y[0]);
    c.update_buffer(3, next_mean);
    c.update_buffer(4, next_variance);
  } else {
    const Var a = scale / sqrt(variance + epsilon);
    c.set(0, x * along(a, 1, x.rank()) + along(bias - mean * a, 1, x.rank()));
  }
  const Var others[] = {next_mean, next_variance, used_mean, used_variance};
  for (size_t i = 1; i < std::min(c.output_count(), size_t{5}); ++i) c.set(i, others[i - 1]);
}

// Each group of channels is normalised as one row.
Var normalize_groups(LowerContext& c, Var x, int64_t groups) {
  if (x.rank() < 2) c.invalid("the input is [N,C,...], not " + to_string(x.shape()));
  if (groups < 1 || x.dim(1) % groups != 0) {
    c.invalid(std::to_string(x.dim(1)) + " channels in " + std::to_string(groups) + " groups");
  }
  const int64_t row = x.dim(1) / groups * product(x.shape(), 2, x.rank());
  const Var rows = reshape(x, {x.dim(0), groups, row});
  return layer_norm(rows, {}, {}, 2, c.attr_float("epsilon", 1e-5));
}

void lower_instance_norm(LowerContext& c) {
  const Var x = c.need(0);
  const Var y = reshape(normalize_groups(c, x, x.rank() < 2 ? 0 : x.dim(1)), x.shape());
  for (size_t i : {1, 2}) {
    if (c.need(i).type().size() != x.dim(1)) {
      c.invalid("scale and bias have an element for each of the " + std::to_string(x.dim(1)) +
                " channels, not shape " + to_string(c.in(i).shape()));
    }
  }
  c.set(y * along(c.need(1), 1, x.rank()) + along(c.need(2), 1, x.rank()));
}

// Scale and bias have an element per group (opset 18) or per channel (21).
void lower_group_norm(LowerContext& c) {
  const Var x = c.need(0), scale = c.need(1), bias = c.need(2);
  const int64_t groups = c.attr_int("num_groups");
  Var y = normalize_groups(c, x, groups);
  const int64_t size = scale.type().size();
  if (size != bias.type().size() || size != (c.opset < 21 ? groups : x.dim(1))) {
    c.invalid("scale and bias have shapes " + to_string(scale.shape()) + " and " +
              to_string(bias.shape()));
  }
  if (c.opset < 21) {
    c.set(reshape(y * along(scale, 1, 3) + along(bias, 1, 3), x.shape()));
  } else {
    y = reshape(y, x.shape());
    c.set(y * along(scale, 1, x.rank()) + along(bias, 1, x.rank()));
  }
}

// (x - mean) / (sd + 1e-9)
void lower_mean_variance_norm(LowerContext& c) {
  const Var x = c.need(0);
  const std::vector<int64_t> axes = c.axes(c.attr_ints("axes", {0, 2, 3}), x.rank());
  const Var centred = x - reduce_mean(x, axes, true);
  c.set(centred / (sqrt(reduce_mean(square(centred), axes, true)) + 1e-9));
}

// x / |x|_p; 0 where the norm is 0.
void lower_lp_norm(LowerContext& c) {
  const Var x = c.need(0);
  const std::vector<int64_t> axes = {c.axis(c.attr_int("axis", -1), x.rank())};
  const int64_t p = c.attr_int("p", 2);
  if (p != 1 && p != 2) c.invalid("p is 1 or 2, not " + std::to_string(p));
  const Var sum = reduce_sum(p == 1 ? abs(x) : square(x), axes, true);
  const Var zero = equal(sum, c.b.fill(x.dtype(), 0));
  const Var safe = where(zero, 1.0, sum);
  c.set(where(zero, 0.0, x / (p == 1 ? safe : sqrt(safe))));
}

// x / (bias + alpha / size * s)^beta, s the sum of squares over `size` neighbouring channels.
void lower_lrn(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t size = c.attr_int("size");
  if (size < 1 || x.rank() < 2) c.invalid("LRN needs size >= 1 and channels");
  const int64_t channels = x.dim(1), before = (size - 1) / 2, after = size - 1 - before;
  InterpolateAttrs window{1,  channels, channels, std::min(size, std::max(channels, int64_t{1})),
                          {}, {}};
  if (window.taps > kMaxConstant / std::max(channels, int64_t{1})) {
    c.invalid("size " + std::to_string(size) + " is out of reach");
  }
  for (int64_t o = 0; o < channels; ++o) {
    const int64_t first = std::max(o - before, int64_t{0});
    const int64_t last =
        std::min(o > channels - 1 - after ? channels - 1 : o + after, channels - 1);
    for (int64_t t = 0; t < window.taps; ++t) {
      window.index.push_back(std::min(first + t, channels - 1));
      window.weight.push_back(first + t <= last ? 1 : 0);
    }
  }
  const Var s = c.b.add(Op::kInterpolate, {square(x)}, std::move(window));
  const double factor = c.attr_float("alpha", 1e-4) / static_cast<double>(size);
  c.set(x / pow(c.attr_float("bias", 1.0) + factor * s, c.attr_float("beta", 0.75)));
}

// Hardmax: 1 at the first maximum.
Var hardmax(Var x, int64_t axis) {
  const Var top = x.builder().add(Op::kArgMax, {x}, ArgAttrs{axis, true, false});
  const int64_t n = x.dim(axis);
  Tensor places(DType::kInt64, {n});
  for (int64_t i = 0; i < n; ++i) places.data<int64_t>()[at(i)] = i;
  return cast(equal(along(x.builder().constant(places), axis, x.rank()), top), x.dtype());
}

// Below opset 13 the dims before and from the axis on are flattened to a matrix.
template <Var (*kFormula)(Var, int64_t)>
void lower_softmax_like(LowerContext& c) {
  const Var x = c.need(0);
  if (c.opset >= 13) {
    c.set(kFormula(x, c.axis(c.attr_int("axis", -1), x.rank())));
    return;
  }
  const int64_t given = c.attr_int("axis", 1);
  const int64_t axis = given == x.rank() ? given : c.axis(given, x.rank());
  if (axis == x.rank() - 1) {
    c.set(kFormula(x, axis));
    return;
  }
  c.set(reshape(kFormula(flatten(x, axis), 1), x.shape()));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "BatchNormalization", 1, lower_batch_norm, kFirstThree, "spatial = 0"},
    {"", "GroupNormalization", 18, lower_group_norm},
    {"", "Hardmax", 1, lower_softmax_like<hardmax>, kNone},
    {"", "InstanceNormalization", 6, lower_instance_norm},
    {"", "LRN", 1, lower_lrn},
    {"", "LayerNormalization", 1, lower_layer_norm},
    {"", "LogSoftmax", 1, lower_softmax_like<log_softmax>},
    {"", "LpNormalization", 1, lower_lp_norm},
    {"", "MeanVarianceNormalization", 9, lower_mean_variance_norm},
    {"", "RMSNormalization", 23, lower_rms_norm},
    {"", "SimplifiedLayerNormalization", 1, lower_rms_norm},
    {"", "Softmax", 1, lower_softmax_like<softmax>},
};

}  // namespace

std::span<const LoweringRow> norm_lowerings() {
  static const std::vector<LoweringRow> rows =
      joined({kRows, loss_lowerings(), quantize_lowerings()});
  return rows;
}

}  // namespace trainrt
