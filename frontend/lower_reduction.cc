// Reductions, ArgMax and ArgMin, cumulative sums and products.
#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

struct Axes {
  std::vector<int64_t> list;
  bool keepdims;

  Var reduce(Op op, Var x) const { return x.builder().add(op, {x}, ReduceAttrs{list, keepdims}); }
};

// No axes mean all of them, or none with noop_with_empty_axes.
Axes axes_of(LowerContext& c, Var x) {
  Axes axes{{}, c.attr_int("keepdims", 1) != 0};
  const auto given = ints_argument(c, "axes", 1);
  if (given && !given->empty()) {
    axes.list = c.axes(*given, x.rank());
  } else if (c.attr_int("noop_with_empty_axes", 0) == 0) {
    axes.list = all_axes(x);
  }
  return axes;
}

template <Op kOp>
void lower_reduce(LowerContext& c) {
  const Var x = c.need(0);
  c.set(axes_of(c, x).reduce(kOp, x));
}

// Bools have an order: false < true.
template <Op kOp>
void lower_reduce_extremum(LowerContext& c) {
  const Var x = c.need(0);
  const bool is_bool = x.dtype() == DType::kBool;
  const Var y = axes_of(c, x).reduce(kOp, is_bool ? cast(x, DType::kUInt8) : x);
  c.set(cast(y, x.dtype()));
}

// Integers: the sum divided, towards zero.
void lower_reduce_mean(LowerContext& c) {
  const Var x = c.need(0);
  const Axes axes = axes_of(c, x);
  if (is_float(x.dtype())) {
    c.set(axes.reduce(Op::kReduceMean, x));
    return;
  }
  int64_t count = 1;
  for (int64_t a : axes.list) count *= x.dim(a);
  if (count == 0) c.invalid("the mean of no integers");
  const Var sum = axes.reduce(Op::kReduceSum, cast(x, DType::kInt64));
  c.set(cast(sum / static_cast<double>(count), x.dtype()));
}

void lower_reduce_l1(LowerContext& c) {
  const Var x = c.need(0);
  c.set(axes_of(c, x).reduce(Op::kReduceSum, abs(x)));
}

void lower_reduce_sum_square(LowerContext& c) {
  const Var x = c.need(0);
  c.set(axes_of(c, x).reduce(Op::kReduceSum, square(x)));
}

// A reduction over real numbers; integers are computed in float64.
void with_reals(LowerContext& c, Var (*formula)(Var, const Axes&)) {
  const Var x = c.need(0);
  const Var real = is_float(x.dtype()) ? x : cast(x, DType::kFloat64);
  c.set(cast(formula(real, axes_of(c, x)), x.dtype()));
}

// sqrt(sum x^2); the zero vector has norm 0 and gradient 0.
void lower_reduce_l2(LowerContext& c) {
  with_reals(c, [](Var x, const Axes& axes) {
    const Var s = axes.reduce(Op::kReduceSum, square(x));
    const Var zero = equal(s, s.builder().fill(s.dtype(), 0));
    return where(zero, 0.0, sqrt(where(zero, 1.0, s)));
  });
}

void lower_reduce_log_sum(LowerContext& c) {
  with_reals(c, [](Var x, const Axes& axes) { return log(axes.reduce(Op::kReduceSum, x)); });
}

// m + log(sum exp(x - m)) with the finite maximum m.
void lower_reduce_log_sum_exp(LowerContext& c) {
  with_reals(c, [](Var x, const Axes& axes) {
    const Var top = stop_gradient(Axes{axes.list, true}.reduce(Op::kReduceMax, x));
    const Var m = where(less(abs(top), kInf), top, 0.0);
    const Var s = log(axes.reduce(Op::kReduceSum, exp(x - m)));
    return s + reshape(m, s.shape());
  });
}

template <Op kOp>
void lower_arg(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", 0), x.rank());
  c.set(c.b.add(
      kOp, {x},
      ArgAttrs{axis, c.attr_int("keepdims", 1) != 0, c.attr_int("select_last_index", 0) != 0}));
}

template <Op kOp>
void lower_cumulative(LowerContext& c) {
  const Var x = c.need(0);
  const std::vector<int64_t> axis = c.ints(1);
  if (axis.size() != 1) c.invalid("axis is a scalar");
  c.set(c.b.add(kOp, {x},
                CumAttrs{c.axis(axis[0], x.rank()), c.attr_int("exclusive", 0) != 0,
                         c.attr_int("reverse", 0) != 0}));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "ArgMax", 1, lower_arg<Op::kArgMax>, kNone},
    {"", "ArgMin", 1, lower_arg<Op::kArgMin>, kNone},
    {"", "CumProd", 26, lower_cumulative<Op::kCumProd>, kFirst},
    {"", "CumSum", 11, lower_cumulative<Op::kCumSum>, kFirst},
    {"", "ReduceL1", 1, lower_reduce_l1, kFirst},
    {"", "ReduceL2", 1, lower_reduce_l2, kFirst},
    {"", "ReduceLogSum", 1, lower_reduce_log_sum, kFirst},
    {"", "ReduceLogSumExp", 1, lower_reduce_log_sum_exp, kFirst},
    {"", "ReduceMax", 1, lower_reduce_extremum<Op::kReduceMax>, kFirst},
    {"", "ReduceMean", 1, lower_reduce_mean, kFirst},
    {"", "ReduceMin", 1, lower_reduce_extremum<Op::kReduceMin>, kFirst},
    {"", "ReduceProd", 1, lower_reduce<Op::kReduceProd>, kFirst},
    {"", "ReduceSum", 1, lower_reduce<Op::kReduceSum>, kFirst},
    {"", "ReduceSumSquare", 1, lower_reduce_sum_square, kFirst},
};

}  // namespace

std::span<const LoweringRow> reduction_lowerings() { return kRows; }

}  // namespace trainrt
