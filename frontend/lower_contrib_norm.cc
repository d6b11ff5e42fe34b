// com.microsoft's normalisations.
#include "frontend/lower_contrib.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// LayerNorm of input + skip + bias; outputs: y, mean, 1/sd, the sum.
void lower_skip_layer_norm(LowerContext& c) {
  Var sum = c.need(0) + c.need(1);
  if (c.has(4)) sum = sum + c.in(4);
  if (sum.shape() != c.in(0).shape()) c.invalid("skip or bias do not broadcast to the input");
  const LayerNormResult r =
      layer_normalize(sum, c.need(2), c.in(3), sum.rank() - 1, c.attr_float("epsilon", 1e-12),
                      c.wants(1) || c.wants(2));
  c.set(0, r.y);
  if (c.wants(1)) c.set(1, r.mean);
  if (c.wants(2)) c.set(2, r.inverse);
  if (c.wants(3)) c.set(3, sum);
}

// RMS norm of input + skip + bias; outputs: y, (unused), 1/rms, the sum.
void lower_skip_rms_norm(LowerContext& c) {
  Var sum = c.need(0) + c.need(1);
  if (c.has(3)) sum = sum + c.in(3);
  if (sum.shape() != c.in(0).shape()) c.invalid("skip or bias do not broadcast to the input");
  if (c.wants(1)) c.refuse("no_lowering", "the mean is not computed by this op");
  Var inverse;
  c.set(0,
        rms_normalize(sum, sum.rank() - 1, c.attr_float("epsilon", 1e-12), &inverse) * c.need(2));
  if (c.wants(2)) c.set(2, inverse);
  if (c.wants(3)) c.set(3, sum);
}

// LayerNorm of word + position + segment embeddings. Inputs: ids, segments, the three tables,
// scale, bias, mask, position ids; outputs: y, number of unmasked tokens, the sum.
void lower_embed_layer_norm(LowerContext& c) {
  const Var ids = c.need(0), positions = c.need(3);
  if (ids.rank() != 2) c.invalid("input_ids are [batch, sequence]");
  Var sum = gather(c.need(2), ids, 0);
  sum = sum + (c.has(8) ? gather(positions, c.in(8), 0) : slice(positions, 0, 0, ids.dim(1)));
  if (c.has(1) != c.has(4)) c.invalid("segment_ids and segment_embedding come together");
  if (c.has(1)) sum = sum + gather(c.in(4), c.in(1), 0);
  c.set(0, layer_normalize(sum, c.need(5), c.need(6), 2, c.attr_float("epsilon", 1e-12), false).y);
  if (c.wants(1)) {
    c.set(1, c.has(7) ? cast(reduce_sum(cast(c.in(7), DType::kInt64), {1}), DType::kInt32)
                      : c.b.fill(DType::kInt32, 0, {ids.dim(0)}));
  }
  if (c.wants(2)) c.set(2, sum);
}

// GroupNormalization of x, channels last or second, and SiLU if asked for.
Var group_norm(LowerContext& c, Var x, Var scale, Var bias, bool channels_last) {
  const int64_t channel = channels_last ? x.rank() - 1 : 1, groups = c.attr_int("groups");
  const int64_t channels = x.dim(channel), activation = c.attr_int("activation");
  if (groups < 1 || channels % groups != 0) {
    c.invalid(std::to_string(channels) + " channels in " + std::to_string(groups) + " groups");
  }
  if (scale.shape() != Shape{channels} || bias.shape() != Shape{channels}) {
    c.invalid("gamma and beta have an element for each of " + std::to_string(channels) +
              " channels");
  }
  if (activation != 0 && activation != 1) c.invalid("activation is 0 or 1");
  const int64_t size = channels / groups,
                cells = x.type().size() / std::max<int64_t>(x.dim(0) * channels, 1);
  const double epsilon = c.attr_float("epsilon", 1e-5);
  Var y;
  if (channels_last) {
    const Var rows = transpose(reshape(x, {x.dim(0), cells, groups, size}), {0, 2, 1, 3});
    y = layer_norm(reshape(rows, {x.dim(0), groups, cells * size}), {}, {}, 2, epsilon);
    y = transpose(reshape(y, {x.dim(0), groups, cells, size}), {0, 2, 1, 3});
  } else {
    y = layer_norm(reshape(x, {x.dim(0), groups, size * cells}), {}, {}, 2, epsilon);
  }
  y = reshape(y, x.shape()) * along(scale, channel, x.rank()) + along(bias, channel, x.rank());
  return activation == 1 ? y * sigmoid(y) : y;
}

bool channels_last(LowerContext& c, Var x) {
  if (x.rank() < 3) c.invalid("the input has spatial dims, not shape " + to_string(x.shape()));
  return c.attr_int("channels_last", 1) != 0;
}

void lower_group_norm(LowerContext& c) {
  const Var x = c.need(0);
  c.set(group_norm(c, x, c.need(1), c.need(2), channels_last(c, x)));
}

// GroupNorm of x + skip + bias; skip is like x, or has one cell per image, [N,C] or [N,1,1,C].
// Outputs: y, the sum.
void lower_skip_group_norm(LowerContext& c) {
  const Var x = c.need(0);
  const bool last = channels_last(c, x);
  const int64_t channel = last ? x.rank() - 1 : 1;
  Var skip = c.need(3);
  if (skip.shape() != x.shape()) {
    Shape one(at(x.rank()), 1);
    one[0] = x.dim(0);
    one[at(channel)] = x.dim(channel);
    if (skip.type().size() != x.dim(0) * x.dim(channel)) {
      c.invalid("a skip of shape " + to_string(skip.shape()) + " for " + to_string(x.shape()));
    }
    skip = reshape(skip, std::move(one));
  }
  Var sum = x + skip;
  if (c.has(4)) sum = sum + along(c.in(4), channel, x.rank());
  c.set(0, group_norm(c, sum, c.need(1), c.need(2), last));
  if (c.wants(1)) c.set(1, sum);
}

// RMS norm of rows as long as the scale, times silu(gate) or sigmoid(gate).
void lower_gated_rms_norm(LowerContext& c) {
  const Var x = c.need(0), scale = c.need(1), gate = c.need(2);
  const int64_t width = scale.type().size();
  if (scale.rank() != 1 || x.rank() < 1 || width < 1 || x.dim(x.rank() - 1) % width != 0 ||
      gate.shape() != x.shape()) {
    c.invalid("an input of shape " + to_string(x.shape()) + " with a gate " +
              to_string(gate.shape()) + " and a scale " + to_string(scale.shape()));
  }
  const std::string activation = c.attr_string("activation", "silu");
  Var factor = sigmoid(gate);
  if (activation == "silu" || activation == "swish") {
    factor = gate * factor;
  } else if (activation != "sigmoid") {
    c.invalid("unknown activation '" + activation + "'");
  }
  const Var rows = reshape(x, {x.type().size() / width, width});
  const Var y = rms_normalize(rows, 1, c.attr_float("epsilon", 1e-5)) * scale;
  c.set(reshape(y, x.shape()) * factor);
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {kMs, "EmbedLayerNormalization", 1, lower_embed_layer_norm},
    {kMs, "GatedRMSNorm", 1, lower_gated_rms_norm},
    {kMs, "GroupNorm", 1, lower_group_norm},
    {kMs, "LayerNormalization", 1, lower_layer_norm},
    {kMs, "SimplifiedLayerNormalization", 1, lower_rms_norm},
    {kMs, "SkipGroupNorm", 1, lower_skip_group_norm},
    {kMs, "SkipLayerNormalization", 1, lower_skip_layer_norm},
    {kMs, "SkipSimplifiedLayerNormalization", 1, lower_skip_rms_norm},
};

}  // namespace

std::span<const LoweringRow> contrib_norm_lowerings() { return kRows; }

}  // namespace trainrt::lowering
