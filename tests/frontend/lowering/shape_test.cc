#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

using List = std::vector<int64_t>;

OneNode node(std::string op, int64_t opset = 17) { return OneNode(std::move(op), opset); }

Tensor counted(Shape shape) {
  Tensor t(DType::kFloat64, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i)
    t.data<double>()[static_cast<size_t>(i)] = static_cast<double>(i);
  return t;
}

TEST_CASE("Reshape copies dims with 0 and infers -1") {
  const Tensor x = counted({2, 3, 4});
  CHECK(node("Reshape").input(x).constant(ints({0, -1})).y().shape() == Shape{2, 12});
  CHECK(node("Reshape").input(x).constant(ints({-1, 0, 2})).y().shape() == Shape{4, 3, 2});
  CHECK(node("Reshape").input(x).constant(ints({24})).y().shape() == Shape{24});
}

TEST_CASE("Reshape with allowzero makes empty dims") {
  const Tensor x = counted({0, 3});
  CHECK(node("Reshape").attr("allowzero", 1).input(x).constant(ints({3, 0})).y().shape() ==
        Shape{3, 0});
  CHECK(node("Reshape").input(x).constant(ints({0, 5, 0})).refusal() == "invalid");
}

TEST_CASE("Reshape refuses shapes of another size") {
  const Tensor x = counted({2, 3});
  for (const Tensor& shape :
       {ints({4}), ints({-1, -1}), ints({-1, 4}), ints({-2, 3}), ints({1, 1, 0})}) {
    INFO(show(shape));
    CHECK(node("Reshape").input(x).constant(shape).refusal() == "invalid");
  }
  CHECK(node("Reshape").input(x).constant(ints({kMax, kMax})).refusal() == "memory");
}

TEST_CASE("Reshape to an unknown shape is dynamic") {
  CHECK(node("Reshape").input(counted({2})).input(ints({2})).refusal() == "dynamic");
}

TEST_CASE("Flatten takes axes from 0 to the rank") {
  const Tensor x = counted({2, 3, 4});
  const std::pair<int64_t, Shape> rows[] = {{0, {1, 24}}, {1, {2, 12}}, {2, {6, 4}},
                                            {3, {24, 1}}, {-1, {6, 4}}, {-3, {1, 24}}};
  for (const auto& [axis, shape] : rows) {
    CHECK(node("Flatten").attr("axis", AttrValue(axis)).input(x).y().shape() == shape);
  }
  CHECK(node("Flatten").attr("axis", 4).input(x).refusal() == "invalid");
  CHECK(node("Flatten").attr("axis", 0).input(real(1)).y().shape() == Shape{1, 1});
}

TEST_CASE("Squeeze and Unsqueeze take axes as attribute or input") {
  const Tensor x = counted({1, 2, 1});
  CHECK(node("Squeeze", 11).attr("axes", List{-1}).input(x).y().shape() == Shape{1, 2});
  CHECK(node("Squeeze", 13).input(x).constant(ints({0})).y().shape() == Shape{2, 1});
  CHECK(node("Squeeze", 13).input(x).y().shape() == Shape{2});
  CHECK(node("Squeeze", 13).input(x).constant(ints({1})).refusal() == "invalid");
  CHECK(node("Unsqueeze", 11).attr("axes", List{0, 4}).input(x).y().shape() ==
        Shape{1, 1, 2, 1, 1});
  CHECK(node("Unsqueeze", 13).input(x).constant(ints({-1, 0})).y().shape() == Shape{1, 1, 2, 1, 1});
  CHECK(node("Unsqueeze", 13).input(x).constant(ints({0, 0})).refusal() == "invalid");
}

TEST_CASE("Transpose reverses by default") {
  CHECK_SAME(node("Transpose").input(reals({1, 2, 3, 4}, {2, 2})).y(), reals({1, 3, 2, 4}, {2, 2}));
  CHECK(node("Transpose").attr("perm", List{2, 0, 1}).input(counted({2, 3, 4})).y().shape() ==
        Shape{4, 2, 3});
  CHECK(node("Transpose").attr("perm", List{0, 0}).input(counted({2, 3})).refusal() == "invalid");
}

TEST_CASE("Expand broadcasts both ways") {
  CHECK(node("Expand").input(counted({3, 1})).constant(ints({2, 1, 4})).y().shape() ==
        Shape{2, 3, 4});
  CHECK(node("Expand").input(counted({3, 4})).constant(ints({1})).y().shape() == Shape{3, 4});
}

TEST_CASE("Tile repeats each axis") {
  CHECK_SAME(node("Tile").input(reals({1, 2}, {1, 2})).constant(ints({2, 2})).y(),
             reals({1, 2, 1, 2, 1, 2, 1, 2}, {2, 4}));
  CHECK(node("Tile").input(counted({2})).constant(ints({0})).y().shape() == Shape{0});
  CHECK(node("Tile").input(counted({2})).constant(ints({kMax})).refusal() == "memory");
  CHECK(node("Tile").input(counted({2})).constant(ints({-1})).refusal() == "invalid");
}

TEST_CASE("Split takes sizes from an attribute, an input or the number of outputs") {
  const Tensor x = counted({5});
  const auto sizes = [](OneNode n) {
    std::vector<int64_t> found;
    for (const Tensor& t : n.run()) found.push_back(t.size());
    return found;
  };
  CHECK(sizes(node("Split", 11).attr("split", List{2, 3}).input(x).outputs(2)) == List{2, 3});
  CHECK(sizes(node("Split", 13).input(x).constant(ints({4, 1})).outputs(2)) == List{4, 1});
  CHECK(sizes(node("Split", 13).input(counted({4})).outputs(2)) == List{2, 2});
  CHECK(sizes(node("Split", 18).attr("num_outputs", 2).input(x).outputs(2)) == List{3, 2});
  CHECK(sizes(node("Split", 18).attr("num_outputs", 1).input(x)) == List{5});
  CHECK(node("Split", 13).input(x).outputs(2).refusal() == "invalid");
  CHECK(node("Split", 13).input(x).constant(ints({4, 2})).outputs(2).refusal() == "invalid");
  CHECK(node("Split", 18).attr("num_outputs", AttrValue(kMax)).input(x).refusal() == "invalid");
}

TEST_CASE("Slice clamps, counts from the end and steps both ways") {
  struct Row {
    int64_t start, end, step;
    std::vector<double> expected;
  };
  const Tensor x = counted({5});
  for (const Row& r : {Row{1, 3, 1, {1, 2}}, Row{-2, kMax, 1, {3, 4}}, Row{0, kMax, 2, {0, 2, 4}},
                       Row{-1, kMin, -1, {4, 3, 2, 1, 0}}, Row{kMax, 1, -2, {4, 2}},
                       Row{3, 3, 1, {}}, Row{4, 1, 1, {}}, Row{-100, 2, 1, {0, 1}},
                       Row{0, 5, kMax, {0}}, Row{4, kMin, kMin, {4}}, Row{-100, kMin, -1, {0}}}) {
    INFO(r.start << ":" << r.end << ":" << r.step);
    const Tensor y = node("Slice")
                         .input(x)
                         .constant(ints({r.start}))
                         .constant(ints({r.end}))
                         .constant(ints({0}))
                         .constant(ints({r.step}))
                         .y();
    CHECK(std::vector<double>(y.data<double>().begin(), y.data<double>().end()) == r.expected);
  }
}

TEST_CASE("Slice with attributes, and without axes") {
  const Tensor x = counted({3, 3});
  CHECK_SAME(node("Slice", 9)
                 .attr("starts", List{1})
                 .attr("ends", List{2})
                 .attr("axes", List{1})
                 .input(x)
                 .y(),
             reals({1, 4, 7}, {3, 1}));
  CHECK_SAME(node("Slice").input(x).constant(ints({1, 2})).constant(ints({3, 3})).y(),
             reals({5, 8}, {2, 1}));
  CHECK(node("Slice").input(counted({0})).constant(ints({0})).constant(ints({9})).y().size() == 0);
}

TEST_CASE("Slice refuses step 0 and lists of different length") {
  const Tensor x = counted({3});
  CHECK(node("Slice")
            .input(x)
            .constant(ints({0}))
            .constant(ints({1}))
            .constant(ints({0}))
            .constant(ints({0}))
            .refusal() == "invalid");
  CHECK(node("Slice").input(x).constant(ints({0})).constant(ints({1, 2})).refusal() == "invalid");
  CHECK(node("Slice")
            .input(x)
            .constant(ints({0}))
            .constant(ints({1}))
            .constant(ints({1}))
            .refusal() == "invalid");
}

TEST_CASE("Pad in all forms") {
  const Tensor x = reals({1, 2, 3});
  CHECK_SAME(node("Pad", 2).attr("pads", List{1, 1}).attr("value", 9.0).input(x).y(),
             reals({9, 1, 2, 3, 9}));
  CHECK_SAME(node("Pad", 11).input(x).constant(ints({0, 2})).constant(real(7)).y(),
             reals({1, 2, 3, 7, 7}));
  CHECK_SAME(node("Pad", 11).input(x).constant(ints({-1, 0})).y(), reals({2, 3}));
  CHECK_SAME(node("Pad", 11).attr("mode", "reflect").input(x).constant(ints({2, 1})).y(),
             reals({3, 2, 1, 2, 3, 2}));
  CHECK_SAME(node("Pad", 11).attr("mode", "edge").input(x).constant(ints({1, 1})).y(),
             reals({1, 1, 2, 3, 3}));
  CHECK_SAME(node("Pad", 19).attr("mode", "wrap").input(x).constant(ints({1, 1})).y(),
             reals({3, 1, 2, 3, 1}));
  CHECK_SAME(node("Pad", 18)
                 .input(reals({1, 2}, {1, 2}))
                 .constant(ints({1, 0}))
                 .absent()
                 .constant(ints({-1}))
                 .y(),
             reals({0, 1, 2}, {1, 3}));
}

TEST_CASE("Pad refuses a wrong number of pads and unknown modes") {
  const Tensor x = counted({2, 2});
  CHECK(node("Pad").input(x).constant(ints({1, 1})).refusal() == "invalid");
  CHECK(node("Pad").attr("mode", "mirror").input(x).constant(ints({0, 0, 0, 1})).refusal() ==
        "invalid");
}

TEST_CASE("Shape takes a range of dims, Size counts elements") {
  const Tensor x = counted({2, 3, 4});
  CHECK_SAME(node("Shape").input(x).y(), ints({2, 3, 4}));
  CHECK_SAME(node("Shape", 15).attr("start", 1).input(x).y(), ints({3, 4}));
  CHECK_SAME(node("Shape", 15).attr("start", -2).attr("end", -1).input(x).y(), ints({3}));
  CHECK(node("Shape", 15).attr("start", 2).attr("end", 1).input(x).y().size() == 0);
  CHECK_SAME(node("Size").input(x).y(), ints({24}, {}));
}

TEST_CASE("ConstantOfShape fills with its value's type") {
  CHECK_SAME(node("ConstantOfShape").constant(ints({2})).y(), reals({0, 0}));
  CHECK_SAME(node("ConstantOfShape").attr("value", ints({5})).constant(ints({2})).y(),
             ints({5, 5}));
  CHECK_SAME(node("ConstantOfShape").attr("value", ints({kMax})).constant(ints({2})).y(),
             ints({kMax, kMax}));
  CHECK(node("ConstantOfShape").constant(ints({}, {0})).y().rank() == 0);
  CHECK(node("ConstantOfShape").constant(ints({-1})).refusal() == "memory");
}

TEST_CASE("Range counts its elements without overflow") {
  const auto range = [](Tensor a, Tensor b, Tensor c) {
    return node("Range").constant(a).constant(b).constant(c);
  };
  CHECK_SAME(range(ints({3}, {}), ints({9}, {}), ints({3}, {})).y(), ints({3, 6}));
  CHECK_SAME(range(ints({10}, {}), ints({4}, {}), ints({-2}, {})).y(), ints({10, 8, 6}));
  CHECK(range(ints({1}, {}), ints({0}, {}), ints({1}, {})).y().size() == 0);
  CHECK_SAME(range(real(0), real(1), real(0.4)).y(), reals({0, 0.4, 0.8}));
  CHECK_SAME(range(ints({kMin}, {}), ints({kMax}, {}), ints({kMax}, {})).y(),
             ints({kMin, -1, kMax - 1}));
  CHECK(range(ints({0}, {}), ints({kMax}, {}), ints({1}, {})).refusal() == "invalid");
  CHECK(range(ints({0}, {}), ints({1}, {}), ints({0}, {})).refusal() == "invalid");
  CHECK(range(real(0), real(1), real(0)).refusal() == "invalid");
}

TEST_CASE("Trilu keeps a triangle from diagonal k") {
  const Tensor x = reals({1, 2, 3, 4}, {2, 2});
  CHECK_SAME(node("Trilu").input(x).y(), reals({1, 2, 0, 4}, {2, 2}));
  CHECK_SAME(node("Trilu").attr("upper", 0).input(x).constant(ints({-1}, {})).y(),
             reals({0, 0, 3, 0}, {2, 2}));
}

TEST_CASE("EyeLike has one diagonal of ones") {
  CHECK_SAME(node("EyeLike").attr("k", 1).attr("dtype", 7).input(counted({2, 3})).y(),
             ints({0, 1, 0, 0, 0, 1}, {2, 3}));
  CHECK_SAME(node("EyeLike").attr("k", -5).input(counted({1, 2})).y(), reals({0, 0}, {1, 2}));
}

TEST_CASE("DepthToSpace and SpaceToDepth undo each other") {
  const Tensor x = counted({1, 8, 2, 3});
  const Tensor y = node("DepthToSpace").attr("blocksize", 2).input(x).y();
  CHECK(y.shape() == Shape{1, 2, 4, 6});
  CHECK_SAME(node("SpaceToDepth").attr("blocksize", 2).input(y).y(), x);
  const Tensor z = node("DepthToSpace").attr("blocksize", 2).attr("mode", "CRD").input(x).y();
  CHECK_SAME(node("SpaceToDepth", 28).attr("blocksize", 2).attr("mode", "CRD").input(z).y(), x);
  CHECK(node("DepthToSpace").attr("blocksize", 3).input(x).refusal() == "invalid");
  CHECK(node("SpaceToDepth").attr("blocksize", 0).input(x).refusal() == "invalid");
}

TEST_CASE("CenterCropPad takes odd elements from the end") {
  CHECK_SAME(node("CenterCropPad", 18).input(reals({1, 2, 3, 4, 5})).constant(ints({2})).y(),
             reals({2, 3}));
  CHECK_SAME(node("CenterCropPad", 18)
                 .attr("axes", List{-1})
                 .input(reals({1, 2}, {1, 2}))
                 .constant(ints({5}))
                 .y(),
             reals({0, 1, 2, 0, 0}, {1, 5}));
}

TEST_CASE("ReverseSequence reverses the first elements of each sequence") {
  const Tensor x = counted({4, 2});
  CHECK_SAME(node("ReverseSequence").input(x).input(ints({3, 1})).y(),
             reals({4, 1, 2, 3, 0, 5, 6, 7}, {4, 2}));
  CHECK_SAME(node("ReverseSequence")
                 .attr("time_axis", 1)
                 .attr("batch_axis", 0)
                 .input(counted({2, 2}))
                 .input(ints({2, 0}))
                 .y(),
             reals({1, 0, 2, 3}, {2, 2}));
  CHECK(node("ReverseSequence").input(x).input(ints({1})).refusal() == "invalid");
  CHECK(node("ReverseSequence").input(x).constant(ints({1, 5})).refusal() == "invalid");
  CHECK(node("ReverseSequence").input(x).constant(ints({1, -1})).refusal() == "invalid");
}

TEST_CASE("Concat refuses other dims that differ") {
  CHECK(node("Concat").attr("axis", 0).input(counted({2, 2})).input(counted({2, 3})).refusal() ==
        "invalid");
  CHECK(node("Concat").attr("axis", 2).input(counted({2, 2})).refusal() == "invalid");
  CHECK(node("Concat").attr("axis", -1).input(counted({2, 2})).input(counted({2, 0})).y().shape() ==
        Shape{2, 2});
}

}  // namespace
}  // namespace trainrt
