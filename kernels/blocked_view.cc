#include "kernels/blocked_view.h"

#include <algorithm>

#include "graph/fused.h"

namespace trainrt {
namespace {

constexpr int64_t kBlock = 16;

bool blocked(const TensorType& t) { return t.layout == Layout::kNChw16c; }

/// Whether f(0, …) = 0, so that padding stays 0.
bool keeps_zero(Op op, const Attrs& attrs) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kChainMul:
    case Op::kMax:
    case Op::kMin:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kRelu:
    case Op::kReluGrad:
    case Op::kGelu:
    case Op::kGeluGrad:
    case Op::kSilu:
    case Op::kSiluGrad:
    case Op::kTanh:
    case Op::kErf:
    case Op::kClipGrad:
    case Op::kIdentity:
    case Op::kStopGradient:
      return true;
    case Op::kClip: {
      const auto& clip = std::get<ClipAttrs>(attrs);
      return clip.lo <= 0 && clip.hi >= 0;
    }
    default:
      return false;
  }
}

/// The type seen plain, for a node on [.,.,H,W]; nothing when it does not fit.
std::optional<TensorType> plain_type(const TensorType& t, int64_t pixels) {
  if (blocked(t)) {
    return TensorType{
        t.dtype, {t.shape[0], (t.shape[1] + kBlock - 1) / kBlock, t.shape[2] * t.shape[3], kBlock}};
  }
  if (t.size() == 1) return TensorType{t.dtype, {}};
  Shape s = t.shape;
  while (s.size() < 4) s.insert(s.begin(), 1);
  if (s.size() > 4) return std::nullopt;
  const int64_t area = s[2] * s[3];
  // A tensor that varies over channels and pixels would have to be stored in blocks.
  if (s[1] == 1) {
    if (area != 1 && (area != pixels)) return std::nullopt;
    return TensorType{t.dtype, {s[0], 1, area, 1}};
  }
  if (area != 1 || s[1] % kBlock != 0) return std::nullopt;
  return TensorType{t.dtype, {s[0], s[1] / kBlock, 1, kBlock}};
}

std::optional<PlainNode> elementwise(const NodeView& node) {
  const TensorType& y = node.outputs[0];
  if (!blocked(y)) return std::nullopt;
  const int64_t pixels = y.shape[2] * y.shape[3];
  PlainNode plain{node.op, node.attrs, {}, {}};
  bool padded = y.shape[1] % kBlock != 0;
  for (const TensorType& t : node.inputs) {
    if (blocked(t) && t.shape != y.shape) return std::nullopt;
    // Padding stays 0 only if all operands have it.
    if (padded && !blocked(t)) return std::nullopt;
    std::optional<TensorType> type = plain_type(t, pixels);
    if (!type) return std::nullopt;
    plain.inputs.push_back(std::move(*type));
  }
  if (padded && !keeps_zero(node.op, node.attrs)) return std::nullopt;
  for (const TensorType& t : node.outputs) {
    if (!blocked(t) || t.shape != y.shape) return std::nullopt;
    plain.outputs.push_back(*plain_type(t, pixels));
  }
  return plain;
}

/// Over H and W, or N, H and W: [N, C/16, H W, 16] over axis 2, or 0 and 2. The plain result's
/// shape.
std::optional<Shape> reduce(const Shape& x, ReduceAttrs& attrs) {
  const bool batch = attrs.axes == std::vector<int64_t>{0, 2, 3};
  if (!batch && attrs.axes != std::vector<int64_t>{2, 3}) return std::nullopt;
  attrs.axes = batch ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{2};
  attrs.keepdims = false;
  Shape out = {x[1] / kBlock, kBlock};
  if (!batch) out.insert(out.begin(), x[0]);
  return out;
}

std::optional<PlainNode> reduction(const NodeView& node) {
  const TensorType &x = node.inputs[0], &y = node.outputs[0];
  if (!blocked(x) || blocked(y) || x.shape[1] % kBlock != 0) return std::nullopt;
  ReduceAttrs attrs = node.attr<ReduceAttrs>();
  const std::optional<Shape> out = reduce(x.shape, attrs);
  if (!out) return std::nullopt;
  return PlainNode{node.op, attrs, {*plain_type(x, 0)}, {{y.dtype, *out}}};
}

/// Whether each step of a program keeps padding 0 when its operands' padding is.
bool keeps_zero(const FusedProgram& program) {
  const auto step_keeps = [](const FusedInstruction& i) {
    const bool numbers =
        std::any_of(i.operands.begin(), i.operands.end(),
                    [](const FusedOperand& o) { return o.kind == FusedOperand::Kind::kNumber; });
    return keeps_zero(i.op, i.attrs) && (!numbers || i.op == Op::kMul);
  };
  return std::all_of(program.instructions.begin(), program.instructions.end(), step_keeps);
}

std::optional<PlainNode> fused(const NodeView& node) {
  FusedProgram program = parse_fused(node.attr<FusedAttrs>().program);
  const Shape shape = fused_types(program, node.inputs).shape;
  if (shape.size() != 4) return std::nullopt;
  const bool padded = shape[1] % kBlock != 0;
  if (padded && !keeps_zero(program)) return std::nullopt;
  PlainNode plain{node.op, {}, {}, {}};
  for (const TensorType& t : node.inputs) {
    if (blocked(t) ? t.shape != shape : padded) return std::nullopt;
    std::optional<TensorType> type = plain_type(t, shape[2] * shape[3]);
    if (!type) return std::nullopt;
    plain.inputs.push_back(std::move(*type));
  }
  for (size_t k = 0; k < program.results.size(); ++k) {
    FusedInstruction& i = program.instructions[static_cast<size_t>(program.results[k])];
    const TensorType& t = node.outputs[k];
    if (i.op == Op::kReduceSum) {
      const std::optional<Shape> out = reduce(shape, std::get<ReduceAttrs>(i.attrs));
      if (!out || blocked(t)) return std::nullopt;
      plain.outputs.push_back({t.dtype, *out});
    } else {
      if (!blocked(t) || t.shape != shape) return std::nullopt;
      plain.outputs.push_back(*plain_type(t, 0));
    }
  }
  plain.attrs = FusedAttrs{print(program)};
  return plain;
}

/// Concat and Split along the channels.
std::optional<PlainNode> channels(const NodeView& node) {
  PlainNode plain{node.op, node.attrs, {}, {}};
  if (node.op == Op::kConcat) {
    if (node.attr<AxisAttrs>().axis != 1) return std::nullopt;
  } else {
    auto& attrs = std::get<SplitAttrs>(plain.attrs);
    if (attrs.axis != 1) return std::nullopt;
    for (int64_t& size : attrs.sizes) size /= kBlock;
  }
  const auto convert = [](std::span<const TensorType> from, std::vector<TensorType>& to) {
    for (const TensorType& t : from) {
      if (!blocked(t) || t.shape[1] % kBlock != 0) return false;
      to.push_back(*plain_type(t, 0));
    }
    return true;
  };
  if (!convert(node.inputs, plain.inputs) || !convert(node.outputs, plain.outputs)) {
    return std::nullopt;
  }
  return plain;
}

}  // namespace

bool has_layouts(const NodeView& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), blocked) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), blocked);
}

bool has_bf16(const NodeView& node) {
  const auto half = [](const TensorType& t) { return t.dtype == DType::kBFloat16; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), half) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), half);
}

std::optional<PlainNode> plain_view(const NodeView& node) {
  if (node.outputs.empty() || node.inputs.empty()) return std::nullopt;
  switch (node.op) {
    case Op::kFused:
      return fused(node);
    case Op::kReduceSum:
    case Op::kReduceMean:
      return reduction(node);
    case Op::kConcat:
    case Op::kSplit:
      return channels(node);
    default:
      return is_elementwise(node.op) ? elementwise(node) : std::nullopt;
  }
}

Support row_support(const KernelRow& row, const NodeView& node) {
  if (!row.bf16 && has_bf16(node)) return Support::no("takes no bfloat16");
  if (row.layouts || !has_layouts(node)) {
    return row.supports == nullptr ? Support::yes() : row.supports(node);
  }
  const std::optional<PlainNode> plain = plain_view(node);
  if (!plain) return Support::no("takes plain operands");
  return row.supports == nullptr ? Support::yes() : row.supports(plain->view());
}

std::unique_ptr<Kernel> plan_row(const KernelRow& row, const NodeView& node, Scratch& scratch) {
  if (row.layouts || !has_layouts(node)) return row.plan(node, scratch);
  return row.plan(plain_view(node)->view(), scratch);
}

}  // namespace trainrt
