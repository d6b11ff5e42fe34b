#include "autodiff/loss.h"

#include <array>
#include <charconv>
#include <cmath>

namespace trainrt {
namespace {

constexpr int64_t kIgnoredClass = -100;

struct LossInfo {
  LossKind kind;
  std::string_view name;
};

constexpr std::array<LossInfo, 9> kLosses = {{
    {LossKind::kCrossEntropy, "cross_entropy"},
    {LossKind::kNll, "nll"},
    {LossKind::kMse, "mse"},
    {LossKind::kL1, "l1"},
    {LossKind::kHuber, "huber"},
    {LossKind::kBceWithLogits, "bce_with_logits"},
    {LossKind::kBce, "bce"},
    {LossKind::kSum, "sum"},
    {LossKind::kMean, "mean"},
}};

[[noreturn]] void usage(const std::string& text, const std::string& what) {
  std::string known;
  for (const LossInfo& info : kLosses) {
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  }
  throw Error(ErrorCode::kUsage, "loss '" + text + "': " + what +
                                     "; a loss is NAME[:OUTPUT][*WEIGHT] with NAME one of " +
                                     known);
}

int64_t class_axis_of(const LossSpec& spec, const TensorType& output) {
  const int64_t rank = output.rank();
  int64_t axis = spec.class_axis.value_or(rank == 4 || rank == 5 ? 1 : rank - 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) {
    throw Error(ErrorCode::kInput, "loss " + std::string(loss_name(spec.kind)) +
                                       ": there is no class axis " +
                                       std::to_string(spec.class_axis.value_or(-1)) +
                                       " in an output of shape " + to_string(output.shape));
  }
  return axis;
}

std::string output_label(const LossSpec& spec) { return spec.output.empty() ? "y" : spec.output; }

[[noreturn]] void mismatch(const LossSpec& spec, const TensorType& output, const Shape& given) {
  const TensorType type = target_type(spec, output);
  const Shape& expected = type.shape;
  std::string text = "loss " + std::string(loss_name(spec.kind)) + ": ";
  const std::string label = output_label(spec);
  if (!expected.empty() && !given.empty() && expected[0] != given[0]) {
    text += std::to_string(expected[0]) + " rows of " + label + ", " + std::to_string(given[0]) +
            " targets; ";
  }
  throw Error(ErrorCode::kInput, text + "output " + label + " is " + to_string(output) +
                                     ", its target must be " + to_string(type) + " and has shape " +
                                     to_string(given));
}

Var mean_of(Var x) { return reduce_mean(x, all_axes(x)); }

/// Losses on class ids: mean over the positions whose id is not -100; NaN when there are none, as
/// in PyTorch. Smoothing e: (1 - e) loss(class) + e mean over classes of loss.
Var class_loss(const LossSpec& spec, Var y, Var target) {
  const int64_t axis = class_axis_of(spec, y.type());
  const Shape expected = target_type(spec, y.type()).shape;
  if (target.rank() == y.rank() && target.shape().back() == 1) {
    target = squeeze(target, {-1});
  }
  if (target.shape() != expected) mismatch(spec, y.type(), target.shape());
  if (!is_integer(target.dtype())) {
    throw Error(ErrorCode::kInput, "loss " + std::string(loss_name(spec.kind)) +
                                       ": the target holds class ids and must be of an integer "
                                       "type, it is " +
                                       std::string(dtype_name(target.dtype())));
  }
  target = cast(target, DType::kInt64);

  Builder& builder = y.builder();
  const LossAttrs attrs{axis, kIgnoredClass, {}};
  const Var counted =
      logical_not(equal(target, builder.fill(DType::kInt64, static_cast<double>(kIgnoredClass))));
  const Var count = reduce_sum(cast(counted, y.dtype()), all_axes(target));
  const bool logits = spec.kind == LossKind::kCrossEntropy;
  if (spec.label_smoothing == 0) {
    const Var each = builder.add(logits ? Op::kCrossEntropy : Op::kNllLoss, {y, target}, attrs);
    return reduce_sum(each, all_axes(each)) / count;
  }
  const Var logp = logits ? log_softmax(y, axis) : y;
  const Var hard = builder.add(Op::kNllLoss, {logp, target}, attrs);
  const Var soft = where(counted, -reduce_mean(logp, {axis}), 0.0);
  const Var each = hard * (1 - spec.label_smoothing) + soft * spec.label_smoothing;
  return reduce_sum(each, all_axes(each)) / count;
}

/// log p, at -100 or above; p = 0 gives -100 and gradient 0 instead of 0/0.
Var bounded_log(Var p) {
  const Var zero = equal(p, full_like(p, 0));
  return where(zero, -100.0, clip(log(where(zero, 1.0, p)), -100.0, INFINITY));
}

Var elementwise_loss(LossKind kind, Var y, Var t) {
  switch (kind) {
    case LossKind::kMse:
      return square(y - t);
    case LossKind::kL1:
      return abs(y - t);
    case LossKind::kHuber: {
      // d^2/2 up to 1, then d - 1/2: with q = min(d, 1) both are q^2/2 + (d - q).
      const Var d = abs(y - t), q = minimum(d, full_like(d, 1));
      return 0.5 * square(q) + (d - q);
    }
    case LossKind::kBceWithLogits:
      return unary(Op::kSoftplus, y) - y * t;
    case LossKind::kBce:
      return -(t * bounded_log(y) + (1.0 - t) * bounded_log(1.0 - y));
    default:
      throw Error(ErrorCode::kInternal, "not an elementwise loss");
  }
}

}  // namespace

std::string_view loss_name(LossKind kind) {
  for (const LossInfo& info : kLosses) {
    if (info.kind == kind) return info.name;
  }
  return "?";
}

LossSpec parse_loss(const std::string& text) {
  LossSpec spec;
  std::string rest = text;
  if (const size_t star = rest.rfind('*'); star != std::string::npos) {
    const char* begin = rest.data() + star + 1;
    const char* end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(begin, end, spec.weight);
    if (error != std::errc() || stop != end || !std::isfinite(spec.weight)) {
      usage(text, "the weight '" + rest.substr(star + 1) + "' is not a number");
    }
    rest.resize(star);
  }
  if (const size_t colon = rest.find(':'); colon != std::string::npos) {
    spec.output = rest.substr(colon + 1);
    if (spec.output.empty()) usage(text, "the name of the output after ':' is empty");
    rest.resize(colon);
  }
  for (const LossInfo& info : kLosses) {
    if (info.name == rest) {
      spec.kind = info.kind;
      return spec;
    }
  }
  usage(text, "there is no loss '" + rest + "'");
}

bool needs_target(LossKind kind) { return kind != LossKind::kSum && kind != LossKind::kMean; }

bool target_is_class_ids(LossKind kind) {
  return kind == LossKind::kCrossEntropy || kind == LossKind::kNll;
}

TensorType target_type(const LossSpec& spec, const TensorType& output) {
  if (!target_is_class_ids(spec.kind)) return output;
  TensorType type{DType::kInt64, output.shape};
  type.shape.erase(type.shape.begin() + class_axis_of(spec, output));
  return type;
}

Var build_loss(const LossSpec& spec, Var output, Var target) {
  if (!is_float(output.dtype())) {
    throw Error(ErrorCode::kInput, "loss " + std::string(loss_name(spec.kind)) + ": output " +
                                       output_label(spec) + " is " + to_string(output.type()) +
                                       "; a loss needs a float output");
  }
  Var loss;
  if (!needs_target(spec.kind)) {
    loss = spec.kind == LossKind::kSum ? reduce_sum(output, all_axes(output)) : mean_of(output);
  } else {
    TRAINRT_CHECK(static_cast<bool>(target), "this loss needs a target");
    if (target_is_class_ids(spec.kind)) {
      loss = class_loss(spec, output, target);
    } else {
      if (target.shape() != output.shape()) {
        mismatch(spec, output.type(), target.shape());
      }
      loss = mean_of(elementwise_loss(spec.kind, output, cast(target, output.dtype())));
    }
  }
  return spec.weight == 1 ? loss : loss * spec.weight;
}

}  // namespace trainrt
