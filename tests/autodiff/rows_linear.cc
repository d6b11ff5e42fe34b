#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

void add_matmuls(std::vector<Row>& rows) {
  const struct {
    std::string name;
    Shape a, b;  // without flags
  } forms[] = {
      {"matrices", {2, 3}, {3, 4}},
      {"square", {3, 3}, {3, 3}},
      {"batched left", {5, 2, 3}, {3, 4}},
      {"two batch axes left", {2, 2, 2, 3}, {3, 4}},
      {"batched right", {2, 3}, {5, 3, 4}},
      {"batched", {5, 2, 3}, {5, 3, 4}},
      {"batch stretched", {2, 1, 2, 3}, {4, 3, 2}},
      {"no rows", {0, 3}, {3, 4}},
      {"nothing to sum", {2, 0}, {0, 4}},
      {"empty batch", {0, 2, 3}, {3, 4}},
  };
  for (const auto& [name, a, b] : forms) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        Shape x = a, w = b;
        if (ta) std::swap(x[x.size() - 1], x[x.size() - 2]);
        if (tb) std::swap(w[w.size() - 1], w[w.size() - 2]);
        rows.push_back(node(Op::kMatMul, name + (ta ? ", A'" : "") + (tb ? ", B'" : ""),
                            {normal(x), normal(w)}, MatMulAttrs{ta, tb}));
        for (bool relu : {false, true}) {
          rows.push_back(node(Op::kMatMul,
                              name + (relu ? ", bias and ReLU" : ", bias") + (ta ? ", A'" : "") +
                                  (tb ? ", B'" : ""),
                              {normal(x), normal(w), normal({b.back()})},
                              MatMulAttrs{ta, tb, relu}));
        }
      }
    }
  }
}

struct ConvForm {
  std::string name;
  Shape x, w, y;
  ConvAttrs attrs;
};

void add_convolutions(std::vector<Row>& rows) {
  const ConvForm forms[] = {
      {"1-D", {2, 3, 7}, {4, 3, 3}, {2, 4, 5}, {{1}, {1}, {0}, {0}, 1, {}}},
      {"2-D", {2, 3, 5, 6}, {4, 3, 3, 2}, {2, 4, 5, 5}, {{1, 1}, {1, 1}, {1, 0}, {1, 0}, 1, {}}},
      {"strides and lopsided pads",
       {1, 2, 6, 5},
       {3, 2, 3, 3},
       {1, 3, 3, 3},
       {{2, 2}, {1, 1}, {0, 1}, {1, 2}, 1, {}}},
      {"stride that leaves a rest", {1, 2, 8}, {2, 2, 3}, {1, 2, 2}, {{3}, {1}, {0}, {0}, 1, {}}},
      {"dilation",
       {1, 2, 7, 7},
       {2, 2, 3, 2},
       {1, 2, 3, 4},
       {{1, 1}, {2, 3}, {0, 0}, {0, 0}, 1, {}}},
      {"groups", {2, 4, 5}, {6, 2, 3}, {2, 6, 5}, {{1}, {1}, {1}, {1}, 2, {}}},
      {"depthwise",
       {1, 3, 4, 4},
       {3, 1, 3, 3},
       {1, 3, 2, 2},
       {{1, 1}, {1, 1}, {0, 0}, {0, 0}, 3, {}}},
      {"3-D",
       {1, 2, 4, 3, 4},
       {2, 2, 2, 2, 2},
       {1, 2, 3, 2, 2},
       {{1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, {}}},
      {"pointwise", {2, 3, 4}, {2, 3, 1}, {2, 2, 4}, {{1}, {1}, {0}, {0}, 1, {}}},
      {"empty batch", {0, 3, 4}, {2, 3, 1}, {0, 2, 4}, {{1}, {1}, {0}, {0}, 1, {}}},
  };
  for (const ConvForm& f : forms) {
    rows.push_back(node(Op::kConv, f.name, {normal(f.x), normal(f.w)}, f.attrs));
    rows.push_back(
        node(Op::kConv, f.name + ", bias", {normal(f.x), normal(f.w), normal({f.w[0]})}, f.attrs));
    ConvAttrs attrs = f.attrs;
    attrs.relu = true;
    rows.push_back(
        node(Op::kConv, f.name + ", ReLU", {normal(f.x), normal(f.w), normal({f.w[0]})}, attrs));
    attrs.relu = false;
    attrs.shape = f.x;
    rows.push_back(node(Op::kConvDataGrad, f.name, {normal(f.y), normal(f.w)}, attrs));
    attrs.shape = f.w;
    rows.push_back(node(Op::kConvWeightGrad, f.name, {normal(f.x), normal(f.y)}, attrs));
  }
}

void add_pools(std::vector<Row>& rows) {
  const struct {
    std::string name;
    Shape x;
    PoolAttrs attrs;
  } forms[] = {
      {"1-D", {2, 2, 7}, {{3}, {2}, {1}, {0}, {0}, {3}, false, false, {}}},
      {"2-D, overlapping, padded",
       {1, 2, 4, 5},
       {{3, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 0}, {4, 5}, false, false, {}}},
      {"ceil mode",
       {1, 1, 6, 7},
       {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {3, 3}, false, false, {}}},
      {"dilation",
       {1, 1, 7, 7},
       {{2, 3}, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {5, 3}, false, false, {}}},
      {"3-D",
       {1, 1, 4, 4, 4},
       {{2, 2, 2}, {2, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {2, 3, 2}, false, false, {}}},
      {"empty batch", {0, 1, 4}, {{2}, {2}, {1}, {0}, {0}, {2}, false, false, {}}},
  };
  const auto output_shape = [](const Shape& x, const PoolAttrs& attrs) {
    Shape y = {x[0], x[1]};
    y.insert(y.end(), attrs.output.begin(), attrs.output.end());
    return y;
  };
  for (const auto& [name, x, attrs] : forms) {
    rows.push_back(node(Op::kMaxPool, name, {distinct(x)}, attrs));
    Operand selector = distinct(x);
    selector.differentiable = false;
    rows.push_back(node(Op::kMaxPoolGrad, name, {normal(output_shape(x, attrs)), selector}, attrs));
    for (bool include : {false, true}) {
      PoolAttrs average = attrs;
      average.count_include_pad = include;
      const std::string label = name + (include ? ", pads counted" : "");
      rows.push_back(node(Op::kAveragePool, label, {normal(x)}, average));
      average.shape = x;
      rows.push_back(
          node(Op::kAveragePoolGrad, label, {normal(output_shape(x, average))}, average));
    }
  }
}

Operand fixed(Operand operand) {
  operand.differentiable = false;
  return operand;
}

void add_rois(std::vector<Row>& rows) {
  const Operand rois =
      fixed(values({3, 4}, {0.3, 0.6, 3.1, 4.2, 1.2, -0.9, 5.6, 3.3, 2.1, 2.2, 2.4, 2.3}));
  const Operand images = ints({3}, {1, 0, 1});
  const struct {
    std::string name;
    RoiAttrs attrs;
  } forms[] = {
      {"average", {RoiMode::kAverage, 2, 3, 2, 1, true}},
      {"average, adaptive", {RoiMode::kAverage, 1, 2, 0, 0.8, false}},
      {"max", {RoiMode::kMax, 2, 2, 2, 1, true}},
      {"max, adaptive", {RoiMode::kMax, 2, 1, 0, 1, false}},
      {"cells", {RoiMode::kCellMax, 2, 3, 0, 0.7, false}},
  };
  for (const auto& [name, attrs] : forms) {
    rows.push_back(node(Op::kRoiPool, name, {distinct({2, 2, 5, 6}), rois, images}, attrs));
  }
  rows.push_back(node(Op::kRoiPool, "no rois",
                      {normal({1, 2, 3, 3}), fixed(normal({0, 4})), ints({0}, {})},
                      RoiAttrs{RoiMode::kAverage, 2, 2, 0, 1, false}));
}

}  // namespace

std::vector<Row> linear_rows() {
  std::vector<Row> rows;
  add_matmuls(rows);
  add_convolutions(rows);
  add_pools(rows);
  for (int64_t n : {0, 1, 2, 3, 9}) {
    rows.push_back(node(Op::kDet, std::to_string(n) + " rows", {normal({2, n, n})}));
  }
  // The inverse does not exist; in the last one all cofactors vanish.
  rows.push_back(node(Op::kDet, "singular", {values({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}));
  rows.push_back(node(Op::kDet, "rank 1", {values({2, 2}, {1, 2, 2, 4})}));
  rows.push_back(node(Op::kDet, "rank 1 of 3", {values({3, 3}, {1, 2, 3, 2, 4, 6, 3, 6, 9})}));
  const InterpolateAttrs up{
      1, 3, 4, 2, {0, 0, 0, 1, 1, 2, 2, 2}, {1, 0, 0.25, 0.75, 0.5, 0.5, -0.25, 1.25}};
  rows.push_back(node(Op::kInterpolate, "two taps", {normal({2, 3, 2})}, up));
  rows.push_back(node(Op::kInterpolateGrad, "two taps", {normal({2, 4, 2})}, up));
  const InterpolateAttrs nearest{0, 2, 5, 1, {0, 0, 0, 1, 1}, {1, 1, 1, 1, 1}};
  rows.push_back(node(Op::kInterpolate, "nearest", {normal({2, 3})}, nearest));
  rows.push_back(node(Op::kInterpolateGrad, "nearest", {normal({5, 3})}, nearest));
  add_rois(rows);
  return rows;
}

}  // namespace trainrt::test
