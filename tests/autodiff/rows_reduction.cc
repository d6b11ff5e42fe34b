#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {

std::vector<Row> reduction_rows() {
  std::vector<Row> rows;
  const struct {
    std::string name;
    Shape shape;
    ReduceAttrs attrs;
  } forms[] = {
      {"one axis", {2, 3, 4}, {{1}, false}},
      {"kept", {2, 3, 4}, {{1}, true}},
      {"outer axes", {2, 3, 4}, {{0, 2}, false}},
      {"all", {2, 3}, {{0, 1}, false}},
      {"no axis", {2, 3}, {{}, false}},
      {"axis of size 1", {2, 1, 3}, {{1}, false}},
      {"rank 0", {}, {{}, false}},
      {"empty result", {0, 3}, {{1}, false}},
  };
  for (const auto& [name, shape, attrs] : forms) {
    for (Op op : {Op::kReduceSum, Op::kReduceMean, Op::kReduceProd}) {
      rows.push_back(node(op, name, {normal(shape)}, attrs));
    }
    for (Op op : {Op::kReduceMax, Op::kReduceMin}) {
      rows.push_back(node(op, name, {distinct(shape)}, attrs));
    }
  }
  rows.push_back(node(Op::kReduceSum, "over nothing", {normal({0, 3})}, ReduceAttrs{{0}, false}));
  rows.push_back(node(Op::kReduceProd, "over nothing", {normal({0, 3})}, ReduceAttrs{{0}, false}));
  rows.push_back(node(Op::kReduceProd, "no, one and two zeros",
                      {values({3, 3}, {1, 2, 3, 0, 2, 3, 0, 2, 0})}, ReduceAttrs{{1}, false}));
  for (bool exclusive : {false, true}) {
    for (bool reverse : {false, true}) {
      const std::string name =
          std::string(exclusive ? "exclusive" : "inclusive") + (reverse ? ", reverse" : "");
      rows.push_back(node(Op::kCumSum, name, {normal({2, 3, 2})}, CumAttrs{1, exclusive, reverse}));
      rows.push_back(
          node(Op::kCumProd, name, {normal({2, 3, 2})}, CumAttrs{1, exclusive, reverse}));
      rows.push_back(node(Op::kCumProd, name + ", zeros",
                          {values({2, 4}, {1, 0, 3, 2, 2, 0, 0, 3})},
                          CumAttrs{1, exclusive, reverse}));
    }
  }
  rows.push_back(node(Op::kCumSum, "empty", {normal({0, 2})}, CumAttrs{0, false, false}));
  rows.push_back(node(Op::kCumProd, "empty", {normal({0, 2})}, CumAttrs{0, false, false}));
  rows.push_back(node(Op::kTopK, "largest", {distinct({3, 5})}, TopKAttrs{1, 2, true}));
  rows.push_back(node(Op::kTopK, "smallest on axis 0", {distinct({4, 3})}, TopKAttrs{0, 3, false}));
  rows.push_back(node(Op::kTopK, "all", {distinct({4})}, TopKAttrs{0, 4, true}));
  rows.push_back(node(Op::kTopK, "none", {distinct({4})}, TopKAttrs{0, 0, true}));
  return rows;
}

}  // namespace trainrt::test
