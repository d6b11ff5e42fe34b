// Forms that end with opset 6: operands broadcast only where an attribute says so.
#include "frontend/lower_util.h"
#include "graph/infer.h"

namespace trainrt {
namespace {

using namespace lowering;

// The second operand: of the first one's shape or, with broadcast = 1, a run of its dims that
// starts at `axis` (without one: ends at the last), where a dim of 1 stretches.
Var second_operand(LowerContext& c) {
  const Var a = c.need(0);
  Var b = c.need(1);
  if (b.shape() == a.shape()) return b;
  const std::string shapes = to_string(a.shape()) + " and " + to_string(b.shape());
  if (c.attr_int("broadcast", 0) == 0) c.invalid("shapes " + shapes + " differ without broadcast");
  if (c.has_attr("axis")) {
    const int64_t behind = a.rank() - c.axis(c.attr_int("axis"), a.rank()) - b.rank();
    if (behind < 0) c.invalid("axis does not fit the shapes " + shapes);
    Shape shape = b.shape();
    shape.insert(shape.end(), at(behind), 1);
    b = reshape(b, shape);
  }
  if (broadcast_shapes(a.shape(), b.shape()) != a.shape()) {
    c.invalid("the second operand does not broadcast to the first: " + shapes);
  }
  return b;
}

template <Op kOp>
void lower_binary_1(LowerContext& c) {
  c.set(binary(kOp, c.need(0), second_operand(c)));
}

// One slope, or one for each channel (axis 1).
void lower_prelu_1(LowerContext& c) {
  const Var x = c.need(0), slope = c.need(1);
  const int64_t size = slope.type().size();
  if (size != 1 && (x.rank() < 2 || size != x.dim(1))) {
    c.invalid("slope " + to_string(slope.shape()) + " has neither one element nor one for each " +
              "channel of " + to_string(x.shape()));
  }
  const Var wide = size == 1 ? reshape(slope, {}) : along(reshape(slope, {size}), 1, x.rank());
  c.set(where(greater(x, 0), x, wide * x));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Add", 1, lower_binary_1<Op::kAdd>},
    {"", "And", 1, lower_binary_1<Op::kAnd>, kNone},
    {"", "Div", 1, lower_binary_1<Op::kDiv>},
    {"", "Equal", 1, lower_binary_1<Op::kEqual>, kNone},
    {"", "Greater", 1, lower_binary_1<Op::kGreater>, kNone},
    {"", "Less", 1, lower_binary_1<Op::kLess>, kNone},
    {"", "Mul", 1, lower_binary_1<Op::kMul>},
    {"", "Or", 1, lower_binary_1<Op::kOr>, kNone},
    {"", "PRelu", 1, lower_prelu_1},
    {"", "Pow", 1, lower_binary_1<Op::kPow>},
    {"", "Sub", 1, lower_binary_1<Op::kSub>},
    {"", "Xor", 1, lower_binary_1<Op::kXor>, kNone},
};

}  // namespace

std::span<const LoweringRow> legacy_lowerings() { return kRows; }

}  // namespace trainrt
