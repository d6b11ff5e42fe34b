#include <algorithm>
#include <unordered_set>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

constexpr int kMaxRounds = 16;
// Larger constants are weights: not worth a scan.
constexpr int64_t kScanLimit = 4096;

using Inputs = std::span<const Var>;

const Node& producer(Var v) { return v.builder().graph().producer(v.id()); }
Var operand(Var v, size_t i = 0) { return v.builder().wrap(producer(v).inputs[i]); }
bool made_by(Var v, Op op) { return producer(v).op == op; }

// The one value of all elements, when it is known.
std::optional<double> uniform(Var v) {
  const Node& node = producer(v);
  if (node.op == Op::kFill) return std::get<FillAttrs>(node.attrs).value;
  if (node.op != Op::kConstant) return std::nullopt;
  const Tensor& t = std::get<ConstantAttrs>(node.attrs).value;
  if (t.size() == 0 || t.size() > kScanLimit) return std::nullopt;
  std::optional<double> result;
  with_type(t.dtype(), [&](auto zero) {
    const auto data = t.data<decltype(zero)>();
    if (std::all_of(data.begin(), data.end(), [&](auto x) { return x == data[0]; })) {
      result = static_cast<double>(data[0]);
    }
  });
  return result;
}

bool is_uniform(Var v, double value) { return uniform(v) == value; }

// Whether every value of `from` is also one of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  if (is_float(from)) return from == DType::kFloat32 && to == DType::kFloat64;
  const auto is_signed = [](DType t) {
    return t == DType::kInt8 || t == DType::kInt16 || t == DType::kInt32 || t == DType::kInt64;
  };
  const size_t bits = dtype_size(from) * 8;
  if (to == DType::kFloat32) return bits <= 16;
  if (to == DType::kFloat64) return bits <= 32;
  if (is_float(to)) return false;
  if (is_signed(from) == is_signed(to)) return dtype_size(to) >= dtype_size(from);
  return is_signed(to) && dtype_size(to) > dtype_size(from);
}

bool swaps_last_two(const std::vector<int64_t>& perm) {
  const auto n = static_cast<int64_t>(perm.size());
  if (n < 2) return false;
  for (int64_t i = 0; i < n - 2; ++i) {
    if (perm[static_cast<size_t>(i)] != i) return false;
  }
  return perm[static_cast<size_t>(n - 2)] == n - 1 && perm[static_cast<size_t>(n - 1)] == n - 2;
}

bool all_zero(const std::vector<int64_t>& list) {
  return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
}

// The node's only result is one of its operands, unchanged.
Var identity_of(const Node& node, Inputs in, const TensorType& type) {
  switch (node.op) {
    case Op::kIdentity:
      return in[0];
    case Op::kReshape:
    case Op::kExpand:
    case Op::kCast:
      return in[0].type() == type ? in[0] : Var();
    case Op::kTranspose: {
      const auto& perm = std::get<PermAttrs>(node.attrs).perm;
      return std::is_sorted(perm.begin(), perm.end()) ? in[0] : Var();
    }
    case Op::kSlice: {
      const auto& s = std::get<SliceAttrs>(node.attrs);
      const bool forward =
          std::all_of(s.steps.begin(), s.steps.end(), [](auto v) { return v > 0; });
      return in[0].shape() == s.sizes && forward ? in[0] : Var();
    }
    case Op::kPad: {
      const auto& p = std::get<PadAttrs>(node.attrs);
      return all_zero(p.before) && all_zero(p.after) ? in[0] : Var();
    }
    case Op::kConcat:
      return in.size() == 1 ? in[0] : Var();
    case Op::kSplit:
      return node.outputs.size() == 1 ? in[0] : Var();
    case Op::kReduceSum:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kReduceProd:
      return std::get<ReduceAttrs>(node.attrs).axes.empty() ? in[0] : Var();
    case Op::kClip: {
      const auto& c = std::get<ClipAttrs>(node.attrs);
      const ClipAttrs open;
      return c.lo == open.lo && c.hi == open.hi ? in[0] : Var();
    }
    case Op::kNeg:
    case Op::kNot:
    case Op::kBitwiseNot:
      return made_by(in[0], node.op) ? operand(in[0]) : Var();
    case Op::kRelu:
    case Op::kAbs:
    case Op::kSign:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
      return made_by(in[0], node.op) ? in[0] : Var();
    case Op::kAdd:
      return is_uniform(in[1], 0) ? in[0] : is_uniform(in[0], 0) ? in[1] : Var();
    case Op::kMul:
      return is_uniform(in[1], 1) ? in[0] : is_uniform(in[0], 1) ? in[1] : Var();
    case Op::kSub:
      return is_uniform(in[1], 0) ? in[0] : Var();
    case Op::kChainMul:
    case Op::kDiv:
    case Op::kChainDiv:
    case Op::kPow:
      return is_uniform(in[1], 1) ? in[0] : Var();
    case Op::kAnd:
      return is_uniform(in[1], 1) ? in[0] : is_uniform(in[0], 1) ? in[1] : Var();
    case Op::kOr:
      return is_uniform(in[1], 0) ? in[0] : is_uniform(in[0], 0) ? in[1] : Var();
    case Op::kMax:
    case Op::kMin:
      return in[0].id() == in[1].id() ? in[0] : Var();
    case Op::kWhere:
      return is_uniform(in[0], 1) ? in[1] : is_uniform(in[0], 0) ? in[2] : Var();
    default:
      return {};
  }
}

Var merge_transposes(Builder& b, const Node& node, Inputs in) {
  if (!made_by(in[0], Op::kTranspose)) return {};
  const auto& outer = std::get<PermAttrs>(node.attrs).perm;
  const auto& inner = std::get<PermAttrs>(producer(in[0]).attrs).perm;
  std::vector<int64_t> perm;
  for (int64_t p : outer) perm.push_back(inner[static_cast<size_t>(p)]);
  const Var x = operand(in[0]);
  return std::is_sorted(perm.begin(), perm.end()) ? x : b.add(Op::kTranspose, {x}, PermAttrs{perm});
}

// Moving around elements that are all the same only changes the shape.
Var move_fill(Builder& b, Inputs in, const TensorType& type) {
  if (!made_by(in[0], Op::kFill)) return {};
  const double value = std::get<FillAttrs>(producer(in[0]).attrs).value;
  return b.fill(type.dtype, value, type.shape);
}

Var matmul_flags(Builder& b, const Node& node, Inputs in) {
  MatMulAttrs attrs = std::get<MatMulAttrs>(node.attrs);
  Var x = in[0], y = in[1];
  const auto absorb = [](Var& v, bool& flag) {
    if (!made_by(v, Op::kTranspose) ||
        !swaps_last_two(std::get<PermAttrs>(producer(v).attrs).perm)) {
      return false;
    }
    v = operand(v);
    flag = !flag;
    return true;
  };
  const bool first = absorb(x, attrs.trans_a), second = absorb(y, attrs.trans_b);
  return first || second ? b.add(Op::kMatMul, {x, y}, attrs) : Var();
}

// Over axes of size 1 there is nothing to reduce.
Var trivial_reduction(Builder& b, const Node& node, Inputs in, const TensorType& type) {
  for (int64_t axis : std::get<ReduceAttrs>(node.attrs).axes) {
    if (in[0].dim(axis) != 1) return {};
  }
  return b.add(Op::kReshape, {in[0]}, ShapeAttrs{type.shape});
}

Var simpler(Builder& b, const Node& node, Inputs in, const TensorType& type) {
  switch (node.op) {
    case Op::kReshape:
      if (made_by(in[0], Op::kReshape)) {
        return b.add(Op::kReshape, {operand(in[0])}, ShapeAttrs{type.shape});
      }
      return move_fill(b, in, type);
    case Op::kTranspose: {
      const Var merged = merge_transposes(b, node, in);
      return merged ? merged : move_fill(b, in, type);
    }
    case Op::kExpand:
      if (made_by(in[0], Op::kExpand)) {
        return b.add(Op::kExpand, {operand(in[0])}, ShapeAttrs{type.shape});
      }
      return move_fill(b, in, type);
    case Op::kSlice:
      return move_fill(b, in, type);
    case Op::kCast: {
      if (!made_by(in[0], Op::kCast)) return {};
      const Var x = operand(in[0]);
      if (!is_lossless(x.dtype(), in[0].dtype())) return {};
      return cast(x, type.dtype);
    }
    case Op::kReduceSum:
    case Op::kReduceMean:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kReduceProd:
      return trivial_reduction(b, node, in, type);
    case Op::kMatMul:
      return matmul_flags(b, node, in);
    default:
      return {};
  }
}

class Simplify final : public Pass {
 public:
  explicit Simplify(Evaluator evaluator) : evaluator_(std::move(evaluator)) {}
  std::string_view name() const override { return "simplify"; }

  bool run(Graph& graph) override {
    bool changed = false;
    for (int round = 0; round < kMaxRounds && run_once(graph); ++round) changed = true;
    return changed;
  }

 private:
  bool run_once(Graph& graph) const {
    std::unordered_set<ValueId> leaving;
    for (const Output& output : graph.outputs()) leaving.insert(output.value);
    return rewrite(graph, evaluator_, [&](Builder& b, const Node& node, Inputs in) {
      Replacement result;
      if (in.empty() || node.outputs.size() != 1) return result;
      const TensorType& type = graph.type(node.outputs[0]);
      Var v = identity_of(node, in, type);
      // An identity's operand has its shape unless broadcasting stretched it.
      if (v && v.type() != type) v = Var();
      if (!v) v = simpler(b, node, in, type);
      // An output that is a copy of state must not become the state itself: that may be updated
      // before the output is read.
      if (v && producer(v).op == Op::kInput && leaving.contains(node.outputs[0])) v = Var();
      if (v) result = {v};
      return result;
    });
  }

  Evaluator evaluator_;
};

}  // namespace

std::unique_ptr<Pass> make_simplify_pass(Evaluator evaluator) {
  return std::make_unique<Simplify>(std::move(evaluator));
}

}  // namespace trainrt
