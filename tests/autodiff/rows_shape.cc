#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

void add_pads(std::vector<Row>& rows) {
  const struct {
    std::string name;
    PadMode mode;
    std::vector<int64_t> before, after;
  } forms[] = {
      {"constant", PadMode::kConstant, {1, 0}, {0, 2}},
      {"constant, cropping", PadMode::kConstant, {-1, 1}, {2, -2}},
      {"reflect", PadMode::kReflect, {2, 1}, {1, 3}},
      {"edge", PadMode::kEdge, {2, 0}, {1, 3}},
      {"edge, cropping", PadMode::kEdge, {-1, 2}, {1, -1}},
      {"wrap", PadMode::kWrap, {2, 1}, {1, 3}},
      {"nothing", PadMode::kConstant, {0, 0}, {0, 0}},
  };
  for (const auto& [name, mode, before, after] : forms) {
    PadAttrs attrs{before, after, mode, mode == PadMode::kConstant ? 1.5 : 0.0, {}};
    rows.push_back(node(Op::kPad, name, {normal({3, 4})}, attrs));
    attrs.value = 0;
    attrs.shape = {3, 4};
    rows.push_back(node(Op::kPadGrad, name,
                        {normal({3 + before[0] + after[0], 4 + before[1] + after[1]})}, attrs));
  }
}

void add_slices(std::vector<Row>& rows) {
  const struct {
    std::string name;
    std::vector<int64_t> starts, steps, sizes;
  } forms[] = {
      {"inner", {1, 1}, {1, 1}, {2, 3}},
      {"steps", {0, 1}, {2, 3}, {2, 2}},
      {"negative steps", {3, 4}, {-1, -2}, {4, 3}},
      {"one element", {2, 0}, {1, 1}, {1, 1}},
      {"nothing", {0, 0}, {1, 1}, {0, 5}},
  };
  for (const auto& [name, starts, steps, sizes] : forms) {
    rows.push_back(node(Op::kSlice, name, {normal({4, 5})}, SliceAttrs{starts, steps, sizes, {}}));
    rows.push_back(
        node(Op::kSliceGrad, name, {normal(sizes)}, SliceAttrs{starts, steps, sizes, {4, 5}}));
  }
}

}  // namespace

std::vector<Row> shape_rows() {
  std::vector<Row> rows = {
      node(Op::kReshape, "matrix", {normal({2, 6})}, ShapeAttrs{{3, 4}}),
      node(Op::kReshape, "to rank 0", {normal({1, 1})}, ShapeAttrs{{}}),
      node(Op::kReshape, "empty", {normal({0, 3})}, ShapeAttrs{{5, 0}}),
      node(Op::kTranspose, "three axes", {normal({2, 3, 4})}, PermAttrs{{1, 2, 0}}),
      node(Op::kTranspose, "rank 0", {normal({})}, PermAttrs{{}}),
      node(Op::kExpand, "row", {normal({3})}, ShapeAttrs{{2, 3}}),
      node(Op::kExpand, "inner", {normal({2, 1, 3})}, ShapeAttrs{{4, 2, 5, 3}}),
      node(Op::kExpand, "rank 0", {normal({})}, ShapeAttrs{{2, 2}}),
      node(Op::kExpand, "to nothing", {normal({1, 3})}, ShapeAttrs{{0, 3}}),
      node(Op::kConcat, "axis 0", {normal({2, 3}), normal({1, 3}), normal({2, 3})}, AxisAttrs{0}),
      node(Op::kConcat, "axis 1", {normal({2, 1}), normal({2, 3})}, AxisAttrs{1}),
      node(Op::kConcat, "one part", {normal({2, 3})}, AxisAttrs{1}),
      node(Op::kConcat, "an empty part", {normal({2, 0}), normal({2, 3})}, AxisAttrs{1}),
      node(Op::kSplit, "axis 0", {normal({5, 2})}, SplitAttrs{0, {1, 3, 1}}),
      node(Op::kSplit, "axis 1 with an empty part", {normal({2, 5})}, SplitAttrs{1, {3, 0, 2}}),
      {Op::kSplit,
       "an unused part",
       {normal({2, 5})},
       [](Builder&, std::span<const Var> x) {
         return std::vector<Var>{square(split(x[0], 1, {2, 2, 1})[1])};
       }},
      {Op::kConcat,
       "a part without gradient",
       {normal({2, 2}), normal({2, 2})},
       [](Builder& b, std::span<const Var> x) {
         const std::vector<Var> parts = {x[0], b.fill(DType::kFloat64, 2, {2, 1}), x[1]};
         return std::vector<Var>{square(concat(parts, 1))};
       }},
      node(Op::kTrilu, "lower", {normal({3, 4})}, TriluAttrs{false, 0}),
      node(Op::kTrilu, "upper, batched", {normal({2, 3, 4})}, TriluAttrs{true, 1}),
      node(Op::kTrilu, "lower below the diagonal", {normal({4, 3})}, TriluAttrs{false, -1}),
  };
  add_slices(rows);
  add_pads(rows);
  return rows;
}

}  // namespace trainrt::test
