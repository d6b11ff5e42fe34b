#include <algorithm>
#include <numeric>

#include "autodiff/rule.h"

namespace trainrt {
namespace {

Grads reshape_grad(const GradArgs& a) { return {reshape(a.dy(), a.x().shape())}; }

// y = transpose(x, p)  =>  dx = transpose(dy, p^-1)
Grads transpose_grad(const GradArgs& a) {
  const std::vector<int64_t>& perm = a.attr<PermAttrs>().perm;
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  return {transpose(a.dy(), std::move(inverse))};
}

// y = x stretched  =>  dx = dy summed over what was stretched
Grads expand_grad(const GradArgs& a) { return {sum_to_shape(a.dy(), a.x().shape())}; }

// y = x[range]  =>  dx[range] = dy, 0 elsewhere
Grads slice_grad(const GradArgs& a) {
  SliceAttrs attrs = a.attr<SliceAttrs>();
  attrs.shape = a.x().shape();
  return {a.builder().add(Op::kSliceGrad, {a.dy()}, std::move(attrs))};
}

Grads slice_grad_grad(const GradArgs& a) {
  SliceAttrs attrs = a.attr<SliceAttrs>();
  attrs.shape.clear();
  return {a.builder().add(Op::kSlice, {a.dy()}, std::move(attrs))};
}

// y = [x0 x1 ...]  =>  dxi = the i-th part of dy; one Split when every part is needed
Grads concat_grad(const GradArgs& a) {
  const int64_t axis = a.attr<AxisAttrs>().axis;
  std::vector<int64_t> sizes;
  bool all = true;
  for (size_t i = 0; i < a.input_count(); ++i) {
    sizes.push_back(a.x(i).dim(axis));
    all &= a.needs(i);
  }
  if (all) return split(a.dy(), axis, sizes);
  Grads grads;
  int64_t offset = 0;
  for (size_t i = 0; i < sizes.size(); offset += sizes[i++]) {
    grads.push_back(a.want(i, [&] { return slice(a.dy(), axis, offset, sizes[i]); }));
  }
  return grads;
}

// y0, y1, ... = parts of x  =>  dx = [dy0 dy1 ...]
Grads split_grad(const GradArgs& a) {
  std::vector<Var> parts;
  for (size_t i = 0; i < a.output_count(); ++i) {
    parts.push_back(a.dy(i) ? a.dy(i) : full_like(a.y(i), 0));
  }
  return {concat(parts, a.attr<SplitAttrs>().axis)};
}

bool crops(const PadAttrs& attrs) {
  const auto negative = [](int64_t n) { return n < 0; };
  return std::any_of(attrs.before.begin(), attrs.before.end(), negative) ||
         std::any_of(attrs.after.begin(), attrs.after.end(), negative);
}

// y = x inside a frame  =>  dx = the inside of dy, and what the frame repeats is added
Grads pad_grad(const GradArgs& a) {
  PadAttrs attrs = a.attr<PadAttrs>();
  if (attrs.mode == PadMode::kConstant && !crops(attrs)) {
    const std::vector<int64_t> steps(attrs.before.size(), 1);
    return {
        a.builder().add(Op::kSlice, {a.dy()}, SliceAttrs{attrs.before, steps, a.x().shape(), {}})};
  }
  attrs.shape = a.x().shape();
  return {a.builder().add(Op::kPadGrad, {a.dy()}, std::move(attrs))};
}

Grads pad_grad_grad(const GradArgs& a) {
  PadAttrs attrs = a.attr<PadAttrs>();
  attrs.shape.clear();
  attrs.value = 0;
  return {a.builder().add(Op::kPad, {a.dy()}, std::move(attrs))};
}

// y = the kept triangle of x  =>  dx = the same triangle of dy
Grads trilu_grad(const GradArgs& a) {
  return {a.builder().add(Op::kTrilu, {a.dy()}, a.attr<TriluAttrs>())};
}

// y = x[i]  =>  dx = dy added at i
Grads gather_grad(const GradArgs& a) {
  return {a.builder().add(Op::kGatherGrad, {a.dy(), a.x(1)},
                          GatherGradAttrs{a.attr<AxisAttrs>().axis, a.x().shape()})};
}

Grads gather_grad_grad(const GradArgs& a) {
  return {gather(a.dy(), a.x(1), a.attr<GatherGradAttrs>().axis)};
}

Grads gather_elements_grad(const GradArgs& a) {
  return {a.builder().add(Op::kScatterElements, {full_like(a.x(), 0), a.x(1), a.dy()},
                          ScatterAttrs{a.attr<AxisAttrs>().axis, Reduction::kAdd})};
}

Tensor iota(const Shape& shape) {
  Tensor t(DType::kInt64, shape);
  const std::span<int64_t> data = t.data<int64_t>();
  std::iota(data.begin(), data.end(), 0);
  return t;
}

/// Indices with the positions along the batch axes put before them, for ops without batch_dims.
Var with_batch_indices(Var indices, int64_t batch_dims) {
  Builder& builder = indices.builder();
  Shape shape = indices.shape();
  shape.back() = 1;
  std::vector<Var> parts;
  for (int64_t d = 0; d < batch_dims; ++d) {
    Shape column(shape.size(), 1);
    column[static_cast<size_t>(d)] = shape[static_cast<size_t>(d)];
    const Var positions = builder.constant(iota(column));
    parts.push_back(expand(cast(positions, indices.dtype()), shape));
  }
  parts.push_back(indices);
  return concat(parts, -1);
}

Grads gather_nd_grad(const GradArgs& a) {
  const Var indices = with_batch_indices(a.x(1), a.attr<GatherNDAttrs>().batch_dims);
  return {a.builder().add(Op::kScatterND, {full_like(a.x(), 0), indices, a.dy()},
                          ScatterAttrs{0, Reduction::kAdd})};
}

/// The two scatter ops and their gathers under one roof.
class ScatterGrad {
 public:
  explicit ScatterGrad(const GradArgs& a, Op scatter)
      : a_(a), op_(scatter), attrs_(a.attr<ScatterAttrs>()) {}

  Grads grads() const {
    switch (attrs_.reduction) {
      case Reduction::kNone:
        return replaced();
      case Reduction::kAdd:
        return {a_.dy(), Var(), a_.want(2, [&] { return gathered(a_.dy()); })};
      case Reduction::kMul:
        return multiplied();
      default:
        return selected();
    }
  }

 private:
  Var scattered(Var data, Var updates, Reduction reduction) const {
    return a_.builder().add(op_, {data, a_.x(1), updates}, ScatterAttrs{attrs_.axis, reduction});
  }

  Var gathered(Var data) const {
    if (op_ == Op::kScatterND) {
      return a_.builder().add(Op::kGatherND, {data, a_.x(1)}, GatherNDAttrs{});
    }
    return a_.builder().add(Op::kGatherElements, {data, a_.x(1)}, AxisAttrs{attrs_.axis});
  }

  /// True for the updates that stand in the result: when cells are written twice, the last one.
  /// Found by scattering running numbers and looking which of them survive.
  Var survivors() const {
    const Var numbers = a_.builder().constant(iota(a_.x(2).shape()));
    const Var before = a_.builder().fill(DType::kInt64, -1, a_.x(0).shape());
    return equal(gathered(scattered(before, numbers, Reduction::kNone)), numbers);
  }

  // y = x, cells replaced by u  =>  dx = dy, 0 in those cells; du = dy there, 0 for overwritten u
  Grads replaced() const {
    return {a_.want(0, [&] { return scattered(a_.dy(), full_like(a_.x(2), 0), Reduction::kNone); }),
            Var(), a_.want(2, [&] { return where(survivors(), gathered(a_.dy()), 0.0); })};
  }

  // y = x times its updates  =>  a factor gets dy times the product of the others, which is
  // product / factor while no factor is 0, and 0 or the product of the non-zero ones otherwise
  Grads multiplied() const {
    const Var x = a_.x(0), u = a_.x(2);
    const auto zeros = [](Var v) { return cast(equal(v, full_like(v, 0)), v.dtype()); };
    const auto filled = [](Var v) { return where(equal(v, full_like(v, 0)), 1.0, v); };
    const Var product = scattered(filled(x), filled(u), Reduction::kMul);
    const Var count = scattered(zeros(x), zeros(u), Reduction::kAdd);
    const auto gradient = [&](Var factor, Var product, Var count, Var dy) {
      return where(equal(count, zeros(factor)), dy * product / filled(factor), 0.0);
    };
    return {a_.want(0, [&] { return gradient(x, product, count, a_.dy()); }), Var(),
            a_.want(2, [&] {
              return gradient(u, gathered(product), gathered(count), gathered(a_.dy()));
            })};
  }

  // y = max or min of x and its updates  =>  dy is shared evenly by those that equal y
  Grads selected() const {
    const auto hits = [](Var v, Var y) { return cast(equal(v, y), y.dtype()); };
    const Var in_x = hits(a_.x(0), a_.y()), in_u = hits(a_.x(2), gathered(a_.y()));
    const Var share = a_.dy() / scattered(in_x, in_u, Reduction::kAdd);
    return {a_.want(0, [&] { return in_x * share; }), Var(),
            a_.want(2, [&] { return in_u * gathered(share); })};
  }

  const GradArgs& a_;
  Op op_;
  ScatterAttrs attrs_;
};

Grads scatter_elements_grad(const GradArgs& a) {
  return ScatterGrad(a, Op::kScatterElements).grads();
}

Grads scatter_nd_grad(const GradArgs& a) { return ScatterGrad(a, Op::kScatterND).grads(); }

constexpr uint32_t kIndices = 0b10;

constexpr GradRow kRows[] = {
    {Op::kReshape, reshape_grad},
    {Op::kTranspose, transpose_grad},
    {Op::kExpand, expand_grad},
    {Op::kSlice, slice_grad},
    {Op::kSliceGrad, slice_grad_grad},
    {Op::kConcat, concat_grad},
    {Op::kSplit, split_grad},
    {Op::kPad, pad_grad},
    {Op::kPadGrad, pad_grad_grad},
    {Op::kTrilu, trilu_grad},
    {Op::kReorder, nullptr, GradKind::kUnsupported},   // layouts and devices come after
    {Op::kTransfer, nullptr, GradKind::kUnsupported},  // differentiation
    {Op::kGather, gather_grad, GradKind::kRule, kIndices},
    {Op::kGatherGrad, gather_grad_grad, GradKind::kRule, kIndices},
    {Op::kGatherElements, gather_elements_grad, GradKind::kRule, kIndices},
    {Op::kGatherND, gather_nd_grad, GradKind::kRule, kIndices},
    {Op::kScatterElements, scatter_elements_grad, GradKind::kRule, kIndices},
    {Op::kScatterND, scatter_nd_grad, GradKind::kRule, kIndices},
};

}  // namespace

std::span<const GradRow> shape_rules() { return kRows; }

}  // namespace trainrt
