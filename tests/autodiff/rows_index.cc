#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

void add_scatters(std::vector<Row>& rows) {
  const struct {
    std::string name;
    Reduction reduction;
  } forms[] = {
      {"replacing", Reduction::kNone}, {"add", Reduction::kAdd}, {"mul", Reduction::kMul},
      {"max", Reduction::kMax},        {"min", Reduction::kMin},
  };
  for (const auto& [name, reduction] : forms) {
    rows.push_back(node(Op::kScatterElements, name + ", repeated indices",
                        {distinct({3, 4}), ints({2, 3}, {0, 0, 2, 0, -3, 1}), normal({2, 3})},
                        ScatterAttrs{0, reduction}));
    rows.push_back(node(Op::kScatterElements, name + ", axis 1",
                        {distinct({2, 3}), ints({2, 3}, {1, 1, 1, 2, 0, 2}), normal({2, 3})},
                        ScatterAttrs{1, reduction}));
    rows.push_back(node(Op::kScatterElements, name + ", no updates",
                        {distinct({2, 3}), ints({0, 3}, {}), normal({0, 3})},
                        ScatterAttrs{0, reduction}));
    rows.push_back(node(Op::kScatterND, name + ", elements",
                        {distinct({3, 2}), ints({4, 2}, {0, 1, 2, 0, 0, 1, -1, -1}), normal({4})},
                        ScatterAttrs{0, reduction}));
    rows.push_back(node(Op::kScatterND, name + ", repeated rows",
                        {distinct({3, 2}), ints({3, 1}, {1, 2, 1}), normal({3, 2})},
                        ScatterAttrs{0, reduction}));
  }
  const std::vector<double> zeros = {0, 2, 0, 3, 0, 1.5};
  rows.push_back(node(Op::kScatterElements, "mul, zeros",
                      {values({2, 3}, zeros), ints({2, 3}, {0, 1, 1, 0, 1, 0}),
                       values({2, 3}, {2, 0, 3, 0, 0.5, 0})},
                      ScatterAttrs{0, Reduction::kMul}));
  rows.push_back(
      node(Op::kScatterND, "mul, zeros",
           {values({2, 3}, zeros), ints({2, 1}, {1, 1}), values({2, 3}, {2, 0, 3, 0, 0.5, 0})},
           ScatterAttrs{0, Reduction::kMul}));
}

}  // namespace

std::vector<Row> index_rows() {
  std::vector<Row> rows = {
      node(Op::kGather, "rows, repeated", {normal({4, 3}), ints({2, 2}, {0, 3, 3, -4})},
           AxisAttrs{0}),
      node(Op::kGather, "middle axis", {normal({2, 4, 3}), ints({3}, {1, 1, -1})}, AxisAttrs{1}),
      node(Op::kGather, "one index", {normal({4, 3}), ints({}, {2})}, AxisAttrs{1}),
      node(Op::kGather, "no index", {normal({4, 3}), ints({0}, {})}, AxisAttrs{0}),
      node(Op::kGatherGrad, "rows, repeated", {normal({3, 2}), ints({3}, {1, 1, -1})},
           GatherGradAttrs{0, {4, 2}}),
      node(Op::kGatherGrad, "last axis", {normal({2, 3}), ints({3}, {0, 0, 2})},
           GatherGradAttrs{1, {2, 4}}),
      node(Op::kGatherElements, "axis 0", {normal({3, 2}), ints({2, 2}, {0, 2, 0, -1})},
           AxisAttrs{0}),
      node(Op::kGatherElements, "axis 1, smaller",
           {normal({3, 4}), ints({2, 3}, {0, 0, 3, 1, 1, 1})}, AxisAttrs{1}),
      node(Op::kGatherND, "elements", {normal({3, 4}), ints({3, 2}, {0, 1, 2, 3, 0, 1})},
           GatherNDAttrs{}),
      node(Op::kGatherND, "rows", {normal({3, 4}), ints({2, 1}, {2, -1})}, GatherNDAttrs{}),
      node(Op::kGatherND, "one batch axis", {normal({2, 3, 4}), ints({2, 2, 1}, {0, 2, 1, 1})},
           GatherNDAttrs{1}),
      node(Op::kGatherND, "two batch axes", {normal({2, 2, 3}), ints({2, 2, 1}, {0, 2, 1, 1})},
           GatherNDAttrs{2}),
  };
  add_scatters(rows);
  return rows;
}

}  // namespace trainrt::test
