#include <algorithm>
#include <numeric>

#include "autodiff/rule.h"

namespace trainrt {
namespace {

/// A reduced value with the reduced axes put back as 1, so that it broadcasts against x.
Var kept(const GradArgs& a, Var v) {
  Shape shape = a.x().shape();
  for (int64_t axis : a.attr<ReduceAttrs>().axes) shape[static_cast<size_t>(axis)] = 1;
  return reshape(v, std::move(shape));
}

Var spread(const GradArgs& a, Var v) { return expand(kept(a, v), a.x().shape()); }

// y = sum x  =>  dx = dy
Grads sum_grad(const GradArgs& a) { return {spread(a, a.dy())}; }

// y = sum x / n  =>  dx = dy / n
Grads mean_grad(const GradArgs& a) {
  int64_t n = 1;
  for (int64_t axis : a.attr<ReduceAttrs>().axes) n *= a.x().dim(axis);
  return {spread(a, a.dy() * (1.0 / static_cast<double>(std::max<int64_t>(n, 1))))};
}

// y = max x or min x  =>  dx = dy / k at the k elements that equal y
Grads extremum_grad(const GradArgs& a) {
  const Var hits = equal(a.x(), kept(a, a.y()));
  const Var count = reduce_sum(cast(hits, a.x().dtype()), a.attr<ReduceAttrs>().axes, true);
  return {where(hits, kept(a, a.dy()) / count, 0.0)};
}

// y = prod x  =>  dx = dy times the product of the others: P / x while no factor is 0; else P (the
// product of the non-zero ones) at a lone 0, and 0 at all other elements
Grads prod_grad(const GradArgs& a) {
  const std::vector<int64_t>& axes = a.attr<ReduceAttrs>().axes;
  const Var zero = equal(a.x(), full_like(a.x(), 0));
  const Var filled = where(zero, 1.0, a.x()), zeros = cast(zero, a.x().dtype());
  const Var others = reduce_prod(filled, axes, true) / filled;
  const Var counts = equal(reduce_sum(zeros, axes, true), zeros);
  return {where(counts, kept(a, a.dy()) * others, 0.0)};
}

// y_i = sum over j <= i of x_j  =>  dx_j = sum over i >= j of dy_i
Grads cum_sum_grad(const GradArgs& a) {
  CumAttrs attrs = a.attr<CumAttrs>();
  attrs.reverse = !attrs.reverse;
  return {a.builder().add(Op::kCumSum, {a.dy()}, attrs)};
}

Var positions(Builder& builder, Shape shape) {
  Tensor t(DType::kInt64, std::move(shape));
  const std::span<int64_t> data = t.data<int64_t>();
  std::iota(data.begin(), data.end(), 0);
  return builder.constant(std::move(t));
}

// y_i = prod over j <= i of x_j  =>  dx_j = (prod of x before j) * sum over i >= j of
// dy_i (prod of x between j and i): no division, so zeros are nothing special. O(n^2).
Grads cum_prod_grad(const GradArgs& a) {
  const CumAttrs attrs = a.attr<CumAttrs>();
  Builder& b = a.builder();
  const int64_t n = a.x().dim(attrs.axis), j_axis = attrs.axis, i_axis = attrs.axis + 1;
  Shape row(static_cast<size_t>(a.x().rank() + 1), 1), column = row;
  row[static_cast<size_t>(i_axis)] = column[static_cast<size_t>(j_axis)] = n;
  const Var i = positions(b, row), j = positions(b, column);
  const Var later = attrs.reverse ? less(i, j) : greater(i, j);
  const Var from_j = attrs.reverse ? less_equal(i, j) : greater_equal(i, j);
  const Var counted = attrs.exclusive ? later : from_j;
  const Var between = b.add(Op::kCumProd, {where(later, unsqueeze(a.x(), {j_axis}), 1.0)},
                            CumAttrs{i_axis, attrs.exclusive, attrs.reverse});
  const Var after = where(counted, unsqueeze(a.dy(), {j_axis}) * between, 0.0);
  const Var before = b.add(Op::kCumProd, {a.x()}, CumAttrs{attrs.axis, true, attrs.reverse});
  return {before * reduce_sum(after, {i_axis})};
}

// y, i = top k of x  =>  dx = dy at i, 0 elsewhere
Grads top_k_grad(const GradArgs& a) {
  return {a.builder().add(Op::kScatterElements, {full_like(a.x(), 0), a.y(1), a.dy()},
                          ScatterAttrs{a.attr<TopKAttrs>().axis, Reduction::kNone})};
}

constexpr GradRow kRows[] = {
    {Op::kReduceSum, sum_grad},
    {Op::kReduceMean, mean_grad},
    {Op::kReduceMax, extremum_grad},
    {Op::kReduceMin, extremum_grad},
    {Op::kReduceProd, prod_grad},
    {Op::kArgMax, nullptr, GradKind::kNone},
    {Op::kArgMin, nullptr, GradKind::kNone},
    {Op::kCumSum, cum_sum_grad},
    {Op::kCumProd, cum_prod_grad},
    {Op::kTopK, top_k_grad},
};

}  // namespace

std::span<const GradRow> reduction_rules() { return kRows; }

}  // namespace trainrt
