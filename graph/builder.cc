#include "graph/builder.h"

#include <algorithm>
#include <numeric>

#include "graph/infer.h"

namespace trainrt {
namespace {

// Equal nodes may stand for each other: random nodes carry their stream in the attributes.
bool is_reusable(Op op) { return op != Op::kInput && !has_effects(op); }

bool is_foldable(Op op) {
  return is_reusable(op) && op != Op::kConstant && op != Op::kFill && op != Op::kDropout &&
         op != Op::kRandom;
}

size_t hash_node(Op op, std::span<const ValueId> inputs, const Attrs& attrs) {
  size_t h = static_cast<size_t>(op) * 0x9E3779B97F4A7C15u;
  for (ValueId id : inputs) h = (h ^ static_cast<size_t>(id.index + 1)) * 0x100000001B3u;
  return h ^ hash(attrs);
}

std::vector<int64_t> normalized(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& a : axes) {
    if (a < 0) a += rank;
    if (a < 0 || a >= rank) {
      throw Error(ErrorCode::kInvalidModel,
                  "axis " + std::to_string(a) + " is outside rank " + std::to_string(rank));
    }
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

int64_t normalized(int64_t axis, int64_t rank) { return normalized(std::vector{axis}, rank)[0]; }

Var like(Var x, double value) { return x.builder().fill(x.dtype(), value); }

}  // namespace

const TensorType& Var::type() const { return builder_->graph().type(id_); }

Builder::Builder(Graph& graph, Evaluator evaluator)
    : graph_(graph), evaluator_(std::move(evaluator)) {}

std::vector<Var> Builder::add_all(Op op, std::span<const Var> inputs, Attrs attrs) {
  std::vector<ValueId> ids;
  std::vector<TensorType> types;
  ids.reserve(inputs.size());
  types.reserve(inputs.size());
  for (Var v : inputs) {
    TRAINRT_CHECK(v && v.builder_ptr() == this, "operand of another builder, or absent");
    ids.push_back(v.id());
    types.push_back(v.type());
  }
  std::vector<TensorType> result = infer_types(op, types, attrs);

  const size_t key = is_reusable(op) ? hash_node(op, ids, attrs) : 0;
  if (is_reusable(op)) {
    const auto [begin, end] = seen_.equal_range(key);
    for (auto it = begin; it != end; ++it) {
      const Node& node = graph_.node(it->second);
      if (node.op == op && node.inputs == ids && node.section <= section_ &&
          equal(node.attrs, attrs)) {
        std::vector<Var> outputs;
        for (ValueId id : node.outputs) outputs.push_back(wrap(id));
        return outputs;
      }
    }
  }

  if (evaluator_ && is_foldable(op) && !inputs.empty() &&
      std::all_of(inputs.begin(), inputs.end(), [&](Var v) { return is_constant(v); })) {
    size_t bytes = 0;
    for (const TensorType& t : result) bytes += t.bytes();
    if (bytes <= kFoldLimit) {
      std::vector<Tensor> operands;
      for (Var v : inputs) operands.push_back(*constant_value(v));
      std::vector<Var> outputs;
      for (Tensor& t : evaluator_(op, attrs, operands, result)) {
        outputs.push_back(add_constant(std::move(t)));
      }
      return outputs;
    }
  }

  const NodeId id =
      graph_.add_node(op, std::move(ids), std::move(attrs), std::move(result), section_, source_);
  if (is_reusable(op)) seen_.emplace(key, id);
  std::vector<Var> outputs;
  for (ValueId value : graph_.node(id).outputs) outputs.push_back(wrap(value));
  return outputs;
}

Var Builder::add(Op op, std::initializer_list<Var> inputs, Attrs attrs) {
  return add_all(op, std::span<const Var>(inputs.begin(), inputs.size()), std::move(attrs))[0];
}

Var Builder::input(InputAttrs attrs) { return add(Op::kInput, {}, std::move(attrs)); }

Var Builder::constant(Tensor value) { return add_constant(std::move(value)); }

Var Builder::add_constant(Tensor value) {
  return add(Op::kConstant, {}, ConstantAttrs{std::move(value)});
}

Var Builder::fill(DType dtype, double value, Shape shape) {
  return add(Op::kFill, {}, FillAttrs{dtype, std::move(shape), value});
}

bool Builder::is_constant(Var v) const {
  if (!v) return false;
  const Node& node = graph_.producer(v.id());
  return node.op == Op::kConstant || (node.op == Op::kFill && v.type().bytes() <= kFoldLimit);
}

std::optional<Tensor> Builder::constant_value(Var v) const {
  if (!is_constant(v)) return std::nullopt;
  const Node& node = graph_.producer(v.id());
  if (node.op == Op::kConstant) return std::get<ConstantAttrs>(node.attrs).value;
  const auto& attrs = std::get<FillAttrs>(node.attrs);
  Tensor t(attrs.dtype, attrs.shape);
  if (attrs.value != 0) t.fill(attrs.value);
  return t;
}

Var unary(Op op, Var x) { return x.builder().add(op, {x}); }
Var binary(Op op, Var a, Var b) { return a.builder().add(op, {a, b}); }

Var operator+(Var a, Var b) { return binary(Op::kAdd, a, b); }
Var operator-(Var a, Var b) { return binary(Op::kSub, a, b); }
Var operator*(Var a, Var b) { return binary(Op::kMul, a, b); }
Var operator/(Var a, Var b) { return binary(Op::kDiv, a, b); }
Var operator-(Var a) { return unary(Op::kNeg, a); }
Var operator+(Var a, double b) { return a + like(a, b); }
Var operator+(double a, Var b) { return like(b, a) + b; }
Var operator-(Var a, double b) { return a - like(a, b); }
Var operator-(double a, Var b) { return like(b, a) - b; }
Var operator*(Var a, double b) { return a * like(a, b); }
Var operator*(double a, Var b) { return like(b, a) * b; }
Var operator/(Var a, double b) { return a / like(a, b); }
Var operator/(double a, Var b) { return like(b, a) / b; }

Var exp(Var x) { return unary(Op::kExp, x); }
Var log(Var x) { return unary(Op::kLog, x); }
Var sqrt(Var x) { return unary(Op::kSqrt, x); }
Var square(Var x) { return x * x; }
Var tanh(Var x) { return unary(Op::kTanh, x); }
Var sigmoid(Var x) { return unary(Op::kSigmoid, x); }
Var erf(Var x) { return unary(Op::kErf, x); }
Var abs(Var x) { return unary(Op::kAbs, x); }
Var sign(Var x) { return unary(Op::kSign, x); }
Var relu(Var x) { return unary(Op::kRelu, x); }
Var reciprocal(Var x) { return unary(Op::kReciprocal, x); }
Var pow(Var a, Var b) { return binary(Op::kPow, a, b); }
Var pow(Var a, double b) { return pow(a, like(a, b)); }
Var maximum(Var a, Var b) { return binary(Op::kMax, a, b); }
Var minimum(Var a, Var b) { return binary(Op::kMin, a, b); }
Var clip(Var x, double lo, double hi) { return x.builder().add(Op::kClip, {x}, ClipAttrs{lo, hi}); }
Var equal(Var a, Var b) { return binary(Op::kEqual, a, b); }
Var less(Var a, Var b) { return binary(Op::kLess, a, b); }
Var less_equal(Var a, Var b) { return binary(Op::kLessEqual, a, b); }
Var greater(Var a, Var b) { return binary(Op::kGreater, a, b); }
Var greater_equal(Var a, Var b) { return binary(Op::kGreaterEqual, a, b); }
Var less(Var a, double b) { return less(a, like(a, b)); }
Var greater(Var a, double b) { return greater(a, like(a, b)); }
Var logical_not(Var x) { return unary(Op::kNot, x); }
Var logical_and(Var a, Var b) { return binary(Op::kAnd, a, b); }
Var where(Var condition, Var then, Var otherwise) {
  return condition.builder().add(Op::kWhere, {condition, then, otherwise});
}
Var where(Var condition, Var then, double otherwise) {
  return where(condition, then, like(then, otherwise));
}
Var where(Var condition, double then, Var otherwise) {
  return where(condition, like(otherwise, then), otherwise);
}
Var cast(Var x, DType to) {
  return x.dtype() == to ? x : x.builder().add(Op::kCast, {x}, CastAttrs{to});
}
Var stop_gradient(Var x) { return unary(Op::kStopGradient, x); }

Var full_like(Var x, double value) { return x.builder().fill(x.dtype(), value, x.shape()); }

Var reshape(Var x, Shape shape) {
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else {
      known = element_count(std::vector{known, shape[i]});
    }
  }
  if (open >= 0) {
    const int64_t total = x.type().size();
    if (known == 0 || total % known != 0) {
      throw Error(ErrorCode::kInvalidModel,
                  "cannot reshape " + to_string(x.shape()) + " to " + to_string(shape));
    }
    shape[static_cast<size_t>(open)] = total / known;
  }
  return shape == x.shape() ? x : x.builder().add(Op::kReshape, {x}, ShapeAttrs{std::move(shape)});
}

Var transpose(Var x, std::vector<int64_t> perm) {
  if (std::is_sorted(perm.begin(), perm.end()) && static_cast<int64_t>(perm.size()) == x.rank()) {
    bool identity = true;
    for (size_t i = 0; i < perm.size(); ++i) identity &= perm[i] == static_cast<int64_t>(i);
    if (identity) return x;
  }
  return x.builder().add(Op::kTranspose, {x}, PermAttrs{std::move(perm)});
}

Var swap_last(Var x) {
  std::vector<int64_t> perm(static_cast<size_t>(x.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  TRAINRT_CHECK(perm.size() >= 2, "swap_last needs rank 2 or more");
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, std::move(perm));
}

Var expand(Var x, Shape shape) {
  return shape == x.shape() ? x : x.builder().add(Op::kExpand, {x}, ShapeAttrs{std::move(shape)});
}

Var squeeze(Var x, std::vector<int64_t> axes) {
  axes = normalized(std::move(axes), x.rank());
  Shape shape = x.shape();
  for (size_t i = axes.size(); i-- > 0;) {
    if (shape[static_cast<size_t>(axes[i])] != 1) {
      throw Error(ErrorCode::kInvalidModel, "cannot squeeze axis " + std::to_string(axes[i]) +
                                                " of shape " + to_string(x.shape()));
    }
    shape.erase(shape.begin() + axes[i]);
  }
  return reshape(x, std::move(shape));
}

Var unsqueeze(Var x, std::vector<int64_t> axes) {
  const size_t count = axes.size();
  axes = normalized(std::move(axes), x.rank() + static_cast<int64_t>(count));
  if (axes.size() != count) throw Error(ErrorCode::kInvalidModel, "unsqueeze axes repeat");
  Shape shape = x.shape();
  for (int64_t a : axes) shape.insert(shape.begin() + a, 1);
  return reshape(x, std::move(shape));
}

Var flatten(Var x, int64_t axis) {
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) {
    throw Error(ErrorCode::kInvalidModel, "flatten axis is outside the rank");
  }
  const auto split = x.shape().begin() + axis;
  return reshape(x, {element_count(Shape(x.shape().begin(), split)),
                     element_count(Shape(split, x.shape().end()))});
}

Var slice(Var x, int64_t axis, int64_t start, int64_t size, int64_t step) {
  axis = normalized(axis, x.rank());
  SliceAttrs attrs;
  attrs.starts.assign(x.shape().size(), 0);
  attrs.steps.assign(x.shape().size(), 1);
  attrs.sizes = x.shape();
  const auto a = static_cast<size_t>(axis);
  if (start == 0 && step == 1 && size == x.shape()[a]) return x;
  attrs.starts[a] = start;
  attrs.steps[a] = step;
  attrs.sizes[a] = size;
  return x.builder().add(Op::kSlice, {x}, std::move(attrs));
}

Var concat(std::span<const Var> parts, int64_t axis) {
  TRAINRT_CHECK(!parts.empty(), "concat of nothing");
  if (parts.size() == 1) return parts[0];
  return parts[0].builder().add_all(Op::kConcat, parts,
                                    AxisAttrs{normalized(axis, parts[0].rank())})[0];
}

std::vector<Var> split(Var x, int64_t axis, std::vector<int64_t> sizes) {
  if (sizes.size() == 1 && sizes[0] == x.dim(normalized(axis, x.rank()))) return {x};
  return x.builder().add_all(Op::kSplit, std::span<const Var>(&x, 1),
                             SplitAttrs{normalized(axis, x.rank()), std::move(sizes)});
}

Var gather(Var data, Var indices, int64_t axis) {
  return data.builder().add(Op::kGather, {data, indices}, AxisAttrs{normalized(axis, data.rank())});
}

namespace {

Var reduce(Op op, Var x, std::vector<int64_t> axes, bool keepdims) {
  axes = normalized(std::move(axes), x.rank());
  return axes.empty() ? x : x.builder().add(op, {x}, ReduceAttrs{std::move(axes), keepdims});
}

}  // namespace

Var reduce_sum(Var x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(Op::kReduceSum, x, std::move(axes), keepdims);
}
Var reduce_mean(Var x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(Op::kReduceMean, x, std::move(axes), keepdims);
}
Var reduce_max(Var x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(Op::kReduceMax, x, std::move(axes), keepdims);
}
Var reduce_min(Var x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(Op::kReduceMin, x, std::move(axes), keepdims);
}
Var reduce_prod(Var x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(Op::kReduceProd, x, std::move(axes), keepdims);
}

std::vector<int64_t> all_axes(Var x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Var sum_to_shape(Var x, Shape shape) {
  if (x.shape() == shape) return x;
  const int64_t extra = x.rank() - static_cast<int64_t>(shape.size());
  TRAINRT_CHECK(extra >= 0, "sum_to_shape to a higher rank");
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i < extra || (shape[static_cast<size_t>(i - extra)] == 1 && x.dim(i) != 1)) {
      axes.push_back(i);
    }
  }
  return reshape(reduce_sum(x, std::move(axes), true), std::move(shape));
}

Var matmul(Var a, Var b, MatMulAttrs attrs) { return a.builder().add(Op::kMatMul, {a, b}, attrs); }
Var softmax(Var x, int64_t axis) {
  return x.builder().add(Op::kSoftmax, {x}, AxisAttrs{normalized(axis, x.rank())});
}
Var log_softmax(Var x, int64_t axis) {
  return x.builder().add(Op::kLogSoftmax, {x}, AxisAttrs{normalized(axis, x.rank())});
}
Var layer_norm(Var x, Var scale, Var bias, int64_t axis, double epsilon) {
  const NormAttrs attrs{normalized(axis, x.rank()), epsilon};
  if (!scale) return x.builder().add(Op::kLayerNorm, {x}, attrs);
  return x.builder().add(Op::kLayerNorm, {x, scale, bias}, attrs);
}

}  // namespace trainrt
