// Numbers by ONNX's reference implementation and ONNX Runtime.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

// [2,1,4,5]: two images with no pattern.
Tensor images() {
  Tensor t(DType::kFloat64, {2, 1, 4, 5});
  for (size_t i = 0; i < 40; ++i) {
    t.data<double>()[i] = static_cast<double>(i % 7) - 3 + static_cast<double>(i) / 8;
  }
  return t;
}

const Tensor kRois = reals({0.5, 0.25, 3.75, 3, -1, 1, 6, 2.5, 2, 2, 2.25, 2.25}, {3, 4});
const Tensor kImages = ints({1, 0, 1});

OneNode align(int64_t opset, int height, int width) {
  return OneNode("RoiAlign", opset)
      .attr("output_height", height)
      .attr("output_width", width)
      .input(images())
      .input(kRois)
      .input(kImages);
}

// The gradient of <dy, y> in input i against central differences.
void check_gradient(const OneNode& node, const std::vector<Tensor>& inputs, int input) {
  const auto rebuilt = [&](const Tensor& x) {
    OneNode n = node;
    for (size_t i = 0; i < inputs.size(); ++i)
      n.input(static_cast<int>(i) == input ? x : inputs[i]);
    return n;
  };
  const Tensor x = inputs[static_cast<size_t>(input)];
  Tensor dy = rebuilt(x).y().clone();
  for (size_t i = 0; i < dy.data<double>().size(); ++i) {
    dy.data<double>()[i] = std::sin(1.0 + static_cast<double>(i));
  }
  const auto value = [&](const Tensor& at) {
    const Tensor y = rebuilt(at).y();
    double sum = 0;
    for (size_t i = 0; i < y.data<double>().size(); ++i) {
      sum += dy.data<double>()[i] * y.data<double>()[i];
    }
    return sum;
  };
  const Tensor dx = rebuilt(x).gradient(input, dy);
  const double h = 1e-6;
  for (size_t i = 0; i < x.data<double>().size(); ++i) {
    Tensor up = x.clone(), down = x.clone();
    up.data<double>()[i] += h;
    down.data<double>()[i] -= h;
    const double slope = (value(up) - value(down)) / (2 * h);
    INFO("element " << i << ": " << dx.data<double>()[i] << ", by differences " << slope);
    CHECK(std::abs(dx.data<double>()[i] - slope) < 1e-7);
  }
}

TEST_CASE("RoiAlign averages samples") {
  CHECK_SAME(align(16, 2, 2).attr("sampling_ratio", 2).y(),
             reals({3.0439453125, 2.36328125, 3.921875, 4.9365234375, 1.98046875, -0.2265625,
                    2.234375, 0.8203125, 5.109375, 5.25, 4.9375, 5.078125},
                   {3, 1, 2, 2}));
}

TEST_CASE("RoiAlign with as many samples as the roi has cells") {
  CHECK_SAME(align(16, 2, 1).y(),
             reals({2.70361328125, 4.42919921875, 0.671875, 1.265625, 5.1796875, 5.0078125},
                   {3, 1, 2, 1}));
}

TEST_CASE("RoiAlign without the half pixel, which opset 10 does not know") {
  OneNode n = align(16, 1, 2).attr("coordinate_transformation_mode", "output_half_pixel");
  CHECK_SAME(n.attr("spatial_scale", 0.5).attr("sampling_ratio", 1).y(),
             reals({4.259765625, 4.72265625, 3.046875, -1.984375, 4.84375, 5.40625}, {3, 1, 1, 2}));
  CHECK_SAME(
      align(10, 1, 2).attr("spatial_scale", 0.5).y(),
      reals({3.90087890625, 4.17578125, 3.08203125, -0.890625, 4.84375, 5.40625}, {3, 1, 1, 2}));
}

TEST_CASE("RoiAlign max takes the largest weighted corner") {
  CHECK_SAME(
      align(22, 1, 2).attr("sampling_ratio", 2).attr("mode", "max").y(),
      reals({2.459716796875, 4.198974609375, 2.87109375, 2.529296875, 2.041015625, 2.470703125},
            {3, 1, 1, 2}));
}

TEST_CASE("RoiAlign's gradient flows to the image alone") {
  for (const char* mode : {"avg", "max"}) {
    for (int ratio : {0, 3}) {
      OneNode n("RoiAlign", 16);
      n.attr("output_height", 2).attr("output_width", 2).attr("mode", mode);
      check_gradient(n.attr("sampling_ratio", ratio), {images(), kRois, kImages}, 0);
    }
  }
  const auto dx = align(16, 1, 1).gradients({{0, reals({1, 1, 1}, {3, 1, 1, 1})}});
  CHECK(dx.at(0).defined());
  CHECK_FALSE(dx.at(1).defined());
}

TEST_CASE("RoiAlign of no rois, and of rois beyond the image") {
  CHECK_SAME(OneNode("RoiAlign", 16)
                 .input(images())
                 .input(Tensor(DType::kFloat64, {0, 4}))
                 .input(ints({}))
                 .y(),
             Tensor(DType::kFloat64, {0, 1, 1, 1}));
  const auto of = [](std::initializer_list<double> roi) {
    return OneNode("RoiAlign", 16).input(images()).input(reals(roi, {1, 4})).input(ints({0}));
  };
  CHECK_SAME(of({100, 100, 104, 104}).y(), reals({0}, {1, 1, 1, 1}));
  CHECK_SAME(of({3, 3, 1, 1}).y(), reals({0}, {1, 1, 1, 1}));          // no samples in a turned roi
  CHECK(std::abs(of({-1e12, -1e12, 1e12, 1e12}).y().item()) < 1e-20);  // a few cells of many
  CHECK_THROWS_AS(of({0, 0, std::nan(""), 1}).y(), Error);
  CHECK_THROWS_AS(of({0, 0, 1e300, 1}).y(), Error);
}

TEST_CASE("RoiAlign on an image that is not there, or that has no cells") {
  const auto of = [](const Tensor& x, int64_t image) {
    return OneNode("RoiAlign", 16).input(x).input(reals({0, 0, 1, 1}, {1, 4})).input(ints({image}));
  };
  CHECK_THROWS_AS(of(images(), 2).y(), Error);
  CHECK_THROWS_AS(of(images(), -1).y(), Error);
  CHECK(of(Tensor(DType::kFloat64, {1, 1, 0, 3}), 0).refusal() == "invalid");
}

TEST_CASE("RoiAlign refuses what it does not know") {
  CHECK(align(16, 1, 1).attr("mode", "sum").refusal() == "invalid");
  CHECK(align(16, 1, 1).attr("coordinate_transformation_mode", "none").refusal() == "invalid");
  CHECK(align(16, -1, 1).refusal() != "");
  CHECK(align(16, 1 << 30, 1 << 30).refusal() != "");
  CHECK(align(16, 1, 1).attr("sampling_ratio", 1 << 30).refusal() == "invalid");
  CHECK(align(16, 1, 1).attr("sampling_ratio", -2).refusal() == "invalid");
  CHECK(OneNode("RoiAlign", 16).input(images()).input(reals({1, 2})).input(kImages).refusal() ==
        "invalid");
  CHECK(OneNode("RoiAlign", 16).input(images()).input(kRois).input(ints({0})).refusal() ==
        "invalid");
}

const Tensor kNumberedRois =
    reals({1, 0.5, 0.25, 3.75, 3, 0, -1, 1, 6, 2.5, 1, 2, 2, 2.25, 2.25}, {3, 5});

OneNode max_pool(int64_t height, int64_t width) {
  return OneNode("MaxRoiPool", 7)
      .attr("pooled_shape", AttrValue(std::vector<int64_t>{height, width}));
}

TEST_CASE("MaxRoiPool takes whole cells") {
  CHECK_SAME(max_pool(2, 2).input(images()).input(kNumberedRois).y(),
             reals({6.375, 3, 5, 7.25, 3.75, 4.625, 3.5, 4.625, 5, 5, 5, 5}, {3, 1, 2, 2}));
  CHECK_SAME(max_pool(1, 3).attr("spatial_scale", 0.5).input(images()).input(kNumberedRois).y(),
             reals({5.5, 5.25, 6.375, 2.625, 3.75, -1, 5.25, 5.25, 5.25}, {3, 1, 1, 3}));
}

TEST_CASE("MaxRoiPool: the gradient, empty bins, refusals") {
  check_gradient(max_pool(2, 2), {images(), kNumberedRois}, 0);
  const Tensor outside = reals({0, 50, 50, 60, 60}, {1, 5});
  CHECK_SAME(max_pool(1, 1).input(images()).input(outside).y(), reals({0}, {1, 1, 1, 1}));
  CHECK_SAME(max_pool(1, 1).input(images()).input(outside).gradient(0, reals({1}, {1, 1, 1, 1})),
             Tensor(DType::kFloat64, {2, 1, 4, 5}));
  CHECK(max_pool(1, 1).input(images()).input(kRois).refusal() == "invalid");
  CHECK(OneNode("MaxRoiPool", 7).input(images()).input(kNumberedRois).refusal() == "invalid");
  CHECK(OneNode("MaxRoiPool", 7)
            .attr("pooled_shape", AttrValue(std::vector<int64_t>{2}))
            .input(images())
            .input(kNumberedRois)
            .refusal() == "invalid");
}

// Six boxes in three places.
const Tensor kBoxes = reals(
    {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101},
    {1, 6, 4});
const Tensor kScores = reals({0.9, 0.75, 0.6, 0.95, 0.5, 0.3}, {1, 1, 6});

OneNode suppress(const Tensor& boxes, const Tensor& scores, int64_t most) {
  return OneNode("NonMaxSuppression", 11)
      .constant(boxes)
      .constant(scores)
      .constant(ints({most}))
      .constant(reals({0.5}));
}

TEST_CASE("NonMaxSuppression keeps the best box of each place") {
  CHECK_SAME(suppress(kBoxes, kScores, 3).y(), ints({0, 0, 3, 0, 0, 0, 0, 0, 5}, {3, 3}));
  CHECK_SAME(suppress(kBoxes, kScores, 2).y(), ints({0, 0, 3, 0, 0, 0}, {2, 3}));
  CHECK_SAME(suppress(kBoxes, kScores, 3).constant(reals({0.4})).y(),
             ints({0, 0, 3, 0, 0, 0}, {2, 3}));
  CHECK_SAME(suppress(kBoxes, kScores, 0).y(), ints({}, {0, 3}));
  CHECK_SAME(OneNode("NonMaxSuppression", 10).constant(kBoxes).constant(kScores).y(),
             ints({}, {0, 3}));
}

TEST_CASE("NonMaxSuppression: corners in any order, centres, equal boxes") {
  const Tensor turned = reals(
      {1, 1, 0, 0, 0, 0.1, 1, 1.1, 0, 0.9, 1, -0.1, 0, 10, 1, 11, 1, 10.1, 0, 11.1, 1, 101, 0, 100},
      {1, 6, 4});
  CHECK_SAME(suppress(turned, kScores, 3).y(), ints({0, 0, 3, 0, 0, 0, 0, 0, 5}, {3, 3}));
  const Tensor centres = reals({0.5, 0.5,  1, 1, 0.5, 0.6,  1, 1, 0.5, 0.4,   1, 1,
                                0.5, 10.5, 1, 1, 0.5, 10.6, 1, 1, 0.5, 100.5, 1, 1},
                               {1, 6, 4});
  CHECK_SAME(suppress(centres, kScores, 3).attr("center_point_box", 1).y(),
             ints({0, 0, 3, 0, 0, 0, 0, 0, 5}, {3, 3}));
  const Tensor equal = reals({0, 0, 1, 1, 0, 0, 1, 1}, {1, 2, 4});
  CHECK_SAME(suppress(equal, reals({0.5, 0.5}, {1, 1, 2}), 3).y(), ints({0, 0, 0}, {1, 3}));
  // An overlap of exactly the threshold stays.
  const Tensor half = reals({0, 0, 1, 2, 0, 0, 1, 1}, {1, 2, 4});
  CHECK_SAME(suppress(half, reals({0.5, 0.4}, {1, 1, 2}), 3).y(), ints({0, 0, 0, 0, 0, 1}, {2, 3}));
}

TEST_CASE("NonMaxSuppression counts for each image and class") {
  const Tensor boxes = reals({0, 0, 1, 1, 5, 5, 6, 6, 0, 0, 1, 1, 0, 0, 1, 1}, {2, 2, 4});
  const Tensor scores = reals({1, 2, 4, 3, 1, std::nan(""), 2, 1}, {2, 2, 2});
  CHECK_SAME(suppress(boxes, scores, 9).y(),
             ints({0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0}, {6, 3}));
}

TEST_CASE("NonMaxSuppression needs contents, and shapes that fit") {
  CHECK(OneNode("NonMaxSuppression", 11).input(kBoxes).constant(kScores).refusal() == "dynamic");
  CHECK(OneNode("NonMaxSuppression", 11).constant(kBoxes).input(kScores).refusal() == "dynamic");
  CHECK(suppress(kBoxes, reals({1}, {1, 1, 1}), 1).refusal() == "invalid");
  CHECK(suppress(reals({1}), kScores, 1).refusal() == "invalid");
  CHECK(suppress(kBoxes, kScores, 1).attr("center_point_box", 2).refusal() == "invalid");
  CHECK_SAME(
      suppress(Tensor(DType::kFloat64, {1, 0, 4}), Tensor(DType::kFloat64, {1, 2, 0}), 1).y(),
      ints({}, {0, 3}));
}

}  // namespace
}  // namespace trainrt
