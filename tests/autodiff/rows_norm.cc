#include <limits>
#include <optional>

#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

/// All three outputs count, or only the normalised values, as nearly always.
Row first_output(Row row) {
  const Build all = row.build;
  row.name += ", first output";
  row.build = [all](Builder& b, std::span<const Var> x) { return std::vector<Var>{all(b, x)[0]}; };
  return row;
}

void add_norms(std::vector<Row>& rows) {
  const Row norms[] = {
      node(Op::kLayerNorm, "last axis", {normal({3, 5}), normal({5}), normal({5})},
           NormAttrs{1, 1e-3}),
      node(Op::kLayerNorm, "two axes", {normal({2, 3, 4}), normal({3, 4}), normal({3, 4})},
           NormAttrs{1, 1e-3}),
      node(Op::kLayerNorm, "axis 0", {normal({6}), normal({6}), normal({6})}, NormAttrs{0, 1e-3}),
      node(Op::kLayerNorm, "no scale", {normal({3, 5})}, NormAttrs{1, 1e-3}),
      node(Op::kLayerNorm, "no rows", {normal({0, 5}), normal({5}), normal({5})},
           NormAttrs{1, 1e-3}),
      node(Op::kRmsNorm, "last axis", {normal({3, 5}), normal({5})}, NormAttrs{1, 1e-3}),
      node(Op::kRmsNorm, "two axes, no scale", {normal({2, 3, 4})}, NormAttrs{1, 1e-3}),
      node(Op::kRmsNorm, "axis 0", {normal({6}), normal({6})}, NormAttrs{0, 1e-3}),
      node(Op::kBatchNorm, "2-D", {normal({6, 3}), normal({3}), normal({3})}, NormAttrs{1, 1e-3}),
      node(Op::kBatchNorm, "4-D", {normal({2, 3, 2, 3}), normal({3}), normal({3})},
           NormAttrs{1, 1e-3}),
      node(Op::kBatchNorm, "batch of one", {normal({1, 2, 5}), normal({2}), normal({2})},
           NormAttrs{1, 1e-3}),
  };
  for (const Row& row : norms) {
    rows.push_back(row);
    rows.push_back(first_output(row));
  }
  const auto statistics = [](Op op, const char* name, Shape x, Shape parameter) {
    return Row{op,
               name,
               {normal(x), uniform(parameter, 0.5, 1.5), normal(parameter)},
               [op](Builder& b, std::span<const Var> in) {
                 const std::vector<Var> y = b.add_all(op, in, NormAttrs{1, 1e-3});
                 return std::vector<Var>{y[1], square(y[2])};
               }};
  };
  rows.push_back(statistics(Op::kLayerNorm, "statistics only", {3, 5}, {5}));
  rows.push_back(statistics(Op::kBatchNorm, "statistics only", {4, 3, 2}, {3}));
}

void add_attention(std::vector<Row>& rows) {
  const auto attention = [&](const char* name, std::vector<Operand> operands, AttentionAttrs attrs,
                             std::optional<Tensor> mask = {}) {
    rows.push_back(first_output({Op::kAttention, name, std::move(operands),
                                 [attrs, mask](Builder& b, std::span<const Var> x) {
                                   std::vector<Var> in(x.begin(), x.end());
                                   if (mask) in.push_back(b.constant(*mask));
                                   return b.add_all(Op::kAttention, in, attrs);
                                 }}));
  };
  const Operand q = normal({2, 4, 3, 5}), k = normal({2, 4, 6, 5}), v = normal({2, 4, 6, 7});
  attention("heads first", {q, k, v}, {0.5, false, false, false});
  attention("causal", {q, k, v}, {0.5, true, false, false});
  attention("one key", {q, normal({2, 4, 1, 5}), normal({2, 4, 1, 2})}, {0.5, false, false, false});
  attention("grouped", {q, normal({2, 2, 6, 5}), normal({2, 2, 6, 7})}, {0.5, true, false, false});
  attention("tokens first, grouped",
            {normal({2, 3, 4, 5}), normal({2, 6, 2, 5}), normal({2, 6, 2, 7})},
            {0.4, true, true, false});
  attention("packed", {normal({2, 4, 3, 2, 5})}, {0.5, true, true, true});
  attention("sequence first, grouped",
            {normal({3, 2, 4, 5}), normal({6, 2, 2, 5}), normal({6, 2, 2, 7})},
            {0.4, true, true, false, true});
  attention("packed, sequence first", {normal({4, 2, 3, 2, 5})}, {0.5, true, true, true, true});
  Tensor mask(DType::kFloat64, {4, 1, 6});
  for (size_t i = 0; i < 24; ++i) {
    mask.data<double>()[i] =
        i % 5 == 3 ? -std::numeric_limits<double>::infinity() : 0.1 * static_cast<double>(i);
  }
  attention("masked", {q, k, v}, {0.5, false, false, false}, mask);
  Tensor row(DType::kFloat64, {4});
  row.fill(0);
  row.data<double>()[1] = -3;
  attention("packed, masked", {normal({2, 4, 3, 2, 5})}, {0.5, false, true, true}, row);
}

}  // namespace

std::vector<Row> norm_rows() {
  std::vector<Row> rows = {
      node(Op::kSoftmax, "last axis", {normal({3, 4})}, AxisAttrs{1}),
      node(Op::kSoftmax, "first axis", {normal({3, 4})}, AxisAttrs{0}),
      node(Op::kSoftmax, "middle axis", {normal({2, 3, 2})}, AxisAttrs{1}),
      node(Op::kSoftmax, "large values", {uniform({2, 3}, 798, 802)}, AxisAttrs{1}),
      node(Op::kSoftmax, "one class", {normal({3, 1})}, AxisAttrs{1}),
      node(Op::kSoftmax, "no rows", {normal({0, 3})}, AxisAttrs{1}),
      node(Op::kLogSoftmax, "last axis", {normal({3, 4})}, AxisAttrs{1}),
      node(Op::kLogSoftmax, "first axis", {normal({3, 4})}, AxisAttrs{0}),
      node(Op::kLogSoftmax, "middle axis", {normal({2, 3, 2})}, AxisAttrs{1}),
      node(Op::kLogSoftmax, "large values", {uniform({2, 3}, 798, 802)}, AxisAttrs{1}),
      node(Op::kCrossEntropy, "rows", {normal({3, 4}), ints({3}, {0, 3, 1})}, LossAttrs{}),
      node(Op::kCrossEntropy, "ignored", {normal({3, 4}), ints({3}, {0, -100, 1})}, LossAttrs{}),
      node(Op::kCrossEntropy, "image",
           {normal({2, 3, 2, 2}), ints({2, 2, 2}, {0, 1, 2, -100, 0, 0, 2, 1})}, LossAttrs{}),
      node(Op::kCrossEntropy, "other ignored id, last axis",
           {normal({2, 2, 3}), ints({2, 2}, {0, 1, 2, 0})}, LossAttrs{2, 0, {}}),
      node(Op::kNllLoss, "rows", {normal({3, 4}), ints({3}, {0, 3, 1})}, LossAttrs{}),
      node(Op::kNllLoss, "ignored, last axis", {normal({2, 2, 3}), ints({2, 2}, {0, 1, -100, 0})},
           LossAttrs{2, -100, {}}),
      node(Op::kNllLossGrad, "rows", {normal({3}), ints({3}, {0, -100, 1})},
           LossAttrs{1, -100, {3, 4}}),
      node(Op::kDropout, "half", {normal({4, 5}), ints({2}, {7, 3})}, DropoutAttrs{0.5, 1}),
      node(Op::kDropout, "none", {normal({4, 5}), ints({2}, {7, 3})}, DropoutAttrs{0, 1}),
      {Op::kDropout,
       "squared",  // the mask matters twice: forward and backward must draw the same
       {normal({4, 5}), ints({2}, {9, 2})},
       [](Builder& b, std::span<const Var> x) {
         return std::vector<Var>{square(b.add(Op::kDropout, {x[0], x[1]}, DropoutAttrs{0.3, 2}))};
       }},
  };
  add_norms(rows);
  add_attention(rows);
  return rows;
}

}  // namespace trainrt::test
