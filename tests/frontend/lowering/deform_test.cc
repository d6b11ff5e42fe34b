// Values and gradients by torchvision's deform_conv2d; other ranks by plain convolutions.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

// sin(a i + b)
Tensor waves(Shape shape, double a, double b, double factor = 1) {
  Tensor t(DType::kFloat64, std::move(shape));
  for (size_t i = 0; i < t.data<double>().size(); ++i) {
    t.data<double>()[i] = factor * std::sin(a * static_cast<double>(i) + b);
  }
  return t;
}

// sum of t_i cos(0.61 i), which stands for the whole tensor
double projection(const Tensor& t) {
  double sum = 0;
  for (size_t i = 0; i < t.data<double>().size(); ++i) {
    sum += t.data<double>()[i] * std::cos(0.61 * static_cast<double>(i));
  }
  return sum;
}

void check_projection(const Tensor& t, double expected) {
  REQUIRE(t.defined());
  const double given = projection(t);
  INFO("given " << given << ", expected " << expected);
  CHECK(std::abs(given - expected) < 1e-11);
}

std::vector<int64_t> list(std::initializer_list<int64_t> values) { return values; }

const Tensor kX = waves({2, 4, 4, 5}, 1.3, 0.2), kW = waves({4, 2, 2, 3}, 0.7, 0.1);
const Tensor kOffset = waves({2, 24, 4, 2}, 2.1, 0.5, 1.7), kMask = waves({2, 12, 4, 2}, 0.9, 0.3);
const Tensor kBias = waves({4}, 1.0, 0.0);

OneNode full(int64_t opset = 19) {
  return OneNode("DeformConv", opset)
      .attr("strides", list({1, 2}))
      .attr("pads", list({1, 1, 1, 1}))
      .attr("dilations", list({2, 2}))
      .attr("group", 2)
      .attr("offset_group", 2)
      .input(kX)
      .input(kW)
      .input(kOffset)
      .input(kBias)
      .input(kMask);
}

TEST_CASE("DeformConv with groups, strides, pads, dilations and a mask") {
  for (int64_t opset : {19, 22}) {
    const Tensor y = full(opset).y();
    CHECK(y.shape() == Shape{2, 4, 4, 2});
    check_projection(y, 4.429359944522008);
    const double first[] = {1.1960564749600628,  0.656533242054736,    0.30952924852072516,
                            0.3259688488348847,  0.5374956672353208,   0.1782549704600887,
                            -0.1247389450430055, -0.025557015493895326};
    for (size_t i = 0; i < 8; ++i) CHECK(std::abs(y.data<double>()[i] - first[i]) < 1e-13);
  }
}

TEST_CASE("DeformConv's gradients flow to every input") {
  Tensor dy = waves({2, 4, 4, 2}, 0, 0);
  for (size_t i = 0; i < dy.data<double>().size(); ++i) {
    dy.data<double>()[i] = std::cos(0.37 * static_cast<double>(i));
  }
  const auto dx = full().gradients({{0, dy}});
  check_projection(dx.at(0), 1.2895069670695842);
  check_projection(dx.at(1), 2.179345280235892);
  // torchvision's offsets were the waves alone, times 1.7 afterwards.
  check_projection(dx.at(2), -0.04950226538332114 / 1.7);
  check_projection(dx.at(3), 5.300664295940517);
  check_projection(dx.at(4), -2.4497770525402807);
}

TEST_CASE("DeformConv without offsets is a convolution, of any rank") {
  const struct {
    Shape x, w, offset;
    int groups;
  } cases[] = {
      {{2, 2, 6}, {4, 1, 3}, {2, 3, 4}, 2},
      {{1, 2, 4, 5}, {3, 2, 2, 2}, {1, 8, 3, 4}, 1},
      {{1, 2, 3, 4, 3}, {2, 2, 2, 2, 1}, {1, 12, 2, 3, 3}, 1},
      {{0, 2, 6}, {4, 1, 3}, {0, 3, 4}, 2},
  };
  for (const auto& [x, w, offset, groups] : cases) {
    const Tensor image = waves(x, 0.9, 0.1), weight = waves(w, 0.4, 0.3);
    CHECK_SAME(OneNode("DeformConv", 19)
                   .attr("group", groups)
                   .input(image)
                   .input(weight)
                   .input(Tensor(DType::kFloat64, offset))
                   .y(),
               OneNode("Conv", 19).attr("group", groups).input(image).input(weight).y());
  }
}

// One tap on [0, 1, 2, 3] as a row.
Tensor moved(double rows, double columns) {
  return OneNode("DeformConv", 19)
      .input(reals({1, 2, 3, 4}, {1, 1, 1, 4}))
      .input(reals({1}, {1, 1, 1, 1}))
      .input(reals({rows, rows, rows, rows, columns, columns, columns, columns}, {1, 2, 1, 4}))
      .y();
}

TEST_CASE("DeformConv: offsets move along rows first, and nothing lies outside") {
  CHECK_SAME(moved(0, 0.5), reals({1.5, 2.5, 3.5, 2}, {1, 1, 1, 4}));
  CHECK_SAME(moved(0, -1.25), reals({0, 0.75, 1.75, 2.75}, {1, 1, 1, 4}));
  CHECK_SAME(moved(-0.25, 0), reals({0.75, 1.5, 2.25, 3}, {1, 1, 1, 4}));
  CHECK_SAME(moved(1, 0), reals({0, 0, 0, 0}, {1, 1, 1, 4}));
  CHECK_SAME(moved(1e300, -1e300), reals({0, 0, 0, 0}, {1, 1, 1, 4}));
}

TEST_CASE("DeformConv: one value as two inputs gets both gradients") {
  // x is [1,2,2,2], and a kernel of one cell has offsets of that shape too.
  const Tensor x = waves({1, 2, 2, 2}, 1.1, 0.4), w = reals({1, 2}, {1, 2, 1, 1});
  const auto dx = OneNode("DeformConv", 19)
                      .input(x)
                      .input(w)
                      .input(x)
                      .gradients({{0, reals({1, 2, 3, 4}, {1, 1, 2, 2})}});
  const auto value = [&](const Tensor& at) {
    const Tensor y = OneNode("DeformConv", 19).input(at).input(w).input(at).y();
    double sum = 0;
    for (size_t i = 0; i < 4; ++i) sum += static_cast<double>(i + 1) * y.data<double>()[i];
    return sum;
  };
  for (size_t i = 0; i < 8; ++i) {
    Tensor up = x.clone(), down = x.clone();
    up.data<double>()[i] += 1e-6;
    down.data<double>()[i] -= 1e-6;
    const double slope = (value(up) - value(down)) / 2e-6;
    CHECK(std::abs(dx.at(0).data<double>()[i] + dx.at(2).data<double>()[i] - slope) < 1e-7);
  }
}

TEST_CASE("DeformConv refuses shapes that do not fit") {
  const auto of = [](const Shape& x, const Shape& w, const Shape& offset) {
    return OneNode("DeformConv", 19)
        .input(Tensor(DType::kFloat64, x))
        .input(Tensor(DType::kFloat64, w))
        .input(Tensor(DType::kFloat64, offset));
  };
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2}).refusal() == "");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 3, 2}).refusal() == "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 4, 2, 2}).refusal() == "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 2, 2, 2}, {1, 8, 2, 2}).refusal() == "invalid");
  CHECK(of({1, 1, 1, 1}, {1, 1, 2, 2}, {1, 8, 0, 0}).refusal() == "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2}).attr("group", 0).refusal() == "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2}).attr("offset_group", 2).refusal() ==
        "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2}).attr("pads", list({-1, 0, 0, 0})).refusal() ==
        "invalid");
  CHECK(
      of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2}).input(Tensor(DType::kFloat64, {2})).refusal() ==
      "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2})
            .absent()
            .input(Tensor(DType::kFloat64, {1, 8, 2, 2}))
            .refusal() == "invalid");
  CHECK(of({1, 1, 3, 3}, {1, 1, 2, 2}, {1, 8, 2, 2})
            .attr("pads", list({1 << 30, 0, 1 << 30, 0}))
            .refusal() != "");
}

}  // namespace
}  // namespace trainrt
