// Gather family, OneHot, TopK, and the ops whose result's shape depends on contents.
#include <algorithm>
#include <numeric>

#include "frontend/lower_util.h"

namespace trainrt {
namespace {

using namespace lowering;

// Known indices are checked when the plan is built, unknown ones by the kernel.
void check_indices(LowerContext& c, size_t input, int64_t size) {
  const auto known = c.try_constant(input);
  if (!known) return;
  for (int64_t i : known->to_ints()) {
    if (i < -size || i >= size) {
      c.invalid("index " + std::to_string(i) + " is outside a dim of " + std::to_string(size));
    }
  }
}

// One known index is a slice: its gradient needs no index arithmetic.
void lower_gather(LowerContext& c) {
  const Var x = c.need(0), indices = c.need(1);
  const int64_t axis = c.axis(c.attr_int("axis", 0), x.rank()), dim = x.dim(axis);
  check_indices(c, 1, dim);
  const auto known = c.try_constant(1);
  if (known && known->size() == 1 && known->rank() <= 1) {
    const int64_t i = known->to_ints()[0];
    const Var one = slice(x, axis, i < 0 ? i + dim : i, 1);
    c.set(known->rank() == 0 ? squeeze(one, {axis}) : one);
    return;
  }
  c.set(gather(x, indices, axis));
}

void lower_gather_elements(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", 0), x.rank());
  check_indices(c, 1, x.dim(axis));
  c.set(c.b.add(Op::kGatherElements, {x, c.need(1)}, AxisAttrs{axis}));
}

void lower_gather_nd(LowerContext& c) {
  c.set(c.b.add(Op::kGatherND, {c.need(0), c.need(1)}, GatherNDAttrs{c.attr_int("batch_dims", 0)}));
}

// on where the index equals the position, else off. Negative ones count from the end (opset 11).
void lower_one_hot(LowerContext& c) {
  const Var given = c.need(0), values = c.need(2);
  const double depth_value = c.number(1);
  if (!(depth_value >= 0 && depth_value <= static_cast<double>(kMaxConstant))) {
    c.invalid("depth " + std::to_string(depth_value) + " is out of reach");
  }
  if (values.type().size() != 2) c.invalid("values has the two elements off and on");
  const int64_t depth = static_cast<int64_t>(depth_value);
  const int64_t axis = c.axis(c.attr_int("axis", -1), given.rank() + 1);
  Var index = unsqueeze(cast(given, DType::kInt64), {axis});
  if (c.opset >= 11) {
    index = where(less(index, 0), index + static_cast<double>(depth), index);
  }
  const Var hit = equal(index, along(iota(c, depth), axis, given.rank() + 1));
  const Var flat = reshape(values, {2});
  c.set(where(hit, squeeze(slice(flat, 0, 1, 1), {0}), squeeze(slice(flat, 0, 0, 1), {0})));
}

void lower_topk(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", -1), x.rank());
  const std::vector<int64_t> k = c.has(1) ? c.ints(1) : std::vector{c.attr_int("k")};
  if (k.size() != 1) c.invalid("k has one element, not " + std::to_string(k.size()));
  const int64_t count = k[0];
  if (count < 0 || count > x.dim(axis)) {
    c.invalid("k = " + std::to_string(count) + " of a dim of " + std::to_string(x.dim(axis)));
  }
  const std::vector<Var> y = c.b.add_all(Op::kTopK, std::span<const Var>(&x, 1),
                                         TopKAttrs{axis, count, c.attr_int("largest", 1) != 0});
  for (size_t i = 0; i < 2; ++i) c.set(i, y[i]);
}

// Positions of the true elements must be known.
void lower_compress(LowerContext& c) {
  Var x = c.need(0);
  int64_t axis = 0;
  if (c.has_attr("axis")) {
    axis = c.axis(c.attr_int("axis"), x.rank());
  } else {
    x = reshape(x, {x.type().size()});
  }
  const std::vector<int64_t> condition = c.constant(1).to_ints();
  if (static_cast<int64_t>(condition.size()) > x.dim(axis)) {
    c.invalid("condition is longer than the dim of " + std::to_string(x.dim(axis)));
  }
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) kept.push_back(static_cast<int64_t>(i));
  }
  c.set(gather(x, c.b.constant(Tensor::of_ints(kept)), axis));
}

void lower_non_zero(LowerContext& c) {
  const Tensor given = c.constant(0);
  const Tensor x = given.to(is_float(given.dtype()) ? DType::kFloat64 : DType::kInt64);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.size(); ++i) {
    const bool set =
        x.dtype() == DType::kInt64 ? x.data<int64_t>()[at(i)] != 0 : x.data<double>()[at(i)] != 0;
    if (set) found.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(found.size());
  Tensor y(DType::kInt64, {x.rank(), count});
  for (int64_t a = x.rank() - 1; a >= 0; --a) {
    const int64_t dim = x.shape()[at(a)];
    for (int64_t j = 0; j < count; ++j) {
      y.data<int64_t>()[at(a * count + j)] = found[at(j)] % dim;
      found[at(j)] /= dim;
    }
  }
  c.set(c.b.constant(y));
}

// Rows of a [count, width] tensor, compared element by element.
template <typename T>
struct Rows {
  std::span<const T> values;
  size_t width;

  std::span<const T> row(int64_t i) const { return values.subspan(at(i) * width, width); }
  bool less(int64_t i, int64_t j) const {
    const auto a = row(i), b = row(j);
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

// First occurrences, inverse and counts; contents must be known, Y itself is gathered from x.
void lower_unique(LowerContext& c) {
  const Var given = c.need(0);
  const bool flat = !c.has_attr("axis");
  const int64_t axis = flat ? 0 : c.axis(c.attr_int("axis"), given.rank());
  const Var x = flat ? reshape(given, {given.type().size()}) : given;
  std::vector<int64_t> perm = identity_perm(x.rank());
  std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
  c.constant(0);
  const Tensor contents = c.constant_of(transpose(x, perm), "the input");
  const int64_t n = x.dim(axis);
  const size_t width = n == 0 ? 0 : at(contents.size() / n);

  std::vector<int64_t> order(at(n)), first, inverse(at(n)), counts;
  std::iota(order.begin(), order.end(), int64_t{0});
  with_type(contents.dtype(), [&]<typename T>(T) {
    const Rows<T> rows{contents.template data<T>(), width};
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return rows.less(i, j); });
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || rows.less(order[i - 1], order[i])) {
        first.push_back(order[i]);
        counts.push_back(0);
      }
      inverse[at(order[i])] = static_cast<int64_t>(first.size()) - 1;
      ++counts.back();
    }
  });
  if (c.attr_int("sorted", 1) == 0) {
    std::vector<int64_t> by_place(first.size()), rank(first.size());
    std::iota(by_place.begin(), by_place.end(), int64_t{0});
    std::sort(by_place.begin(), by_place.end(),
              [&](int64_t i, int64_t j) { return first[at(i)] < first[at(j)]; });
    for (size_t i = 0; i < by_place.size(); ++i) rank[at(by_place[i])] = static_cast<int64_t>(i);
    const std::vector<int64_t> old_first = first, old_counts = counts;
    for (size_t i = 0; i < by_place.size(); ++i) {
      first[i] = old_first[at(by_place[i])];
      counts[i] = old_counts[at(by_place[i])];
    }
    for (int64_t& i : inverse) i = rank[at(i)];
  }
  c.set(0, gather(x, c.b.constant(Tensor::of_ints(first)), axis));
  const std::vector<int64_t>* lists[] = {&first, &inverse, &counts};
  for (size_t i = 0; i < 3; ++i) {
    if (c.wants(i + 1)) c.set(i + 1, c.b.constant(Tensor::of_ints(*lists[i])));
  }
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "Compress", 9, lower_compress, kFirst},
    {"", "Gather", 1, lower_gather, kFirst},
    {"", "GatherElements", 11, lower_gather_elements, kFirst},
    {"", "GatherND", 11, lower_gather_nd, kFirst},
    {"", "NonZero", 9, lower_non_zero, kNone},
    {"", "OneHot", 9, lower_one_hot, kNone},
    {"", "TopK", 1, lower_topk, kFirst},
    {"", "Unique", 11, lower_unique, kFirst},
};

}  // namespace

std::span<const LoweringRow> indexing_lowerings() {
  static const std::vector<LoweringRow> rows =
      joined({kRows, scatter_lowerings(), grid_lowerings()});
  return rows;
}

}  // namespace trainrt
