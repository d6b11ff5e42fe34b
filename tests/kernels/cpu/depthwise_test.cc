// Depthwise convolutions on blocks of 16 channels, alone and with the BatchNorm before them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>

#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

struct DepthwiseCase {
  Shape x;
  int64_t kernel, stride;
  std::vector<int64_t> pads;  // top, left, bottom, right

  Shape w() const { return {x[1], 1, kernel, kernel}; }
  Shape y() const {
    const auto out = [&](size_t d) {
      return (x[d + 2] + pads[d] + pads[d + 2] - kernel) / stride + 1;
    };
    return {x[0], x[1], out(0), out(1)};
  }
  ConvAttrs attrs(Shape shape) const {
    ConvAttrs a;
    a.strides = {stride, stride};
    a.dilations = {1, 1};
    a.pads_begin = {pads[0], pads[1]};
    a.pads_end = {pads[2], pads[3]};
    a.group = x[1];
    a.shape = std::move(shape);
    return a;
  }
};

// Odd sizes, sizes below the filter, tiles of every length, pads that differ, fewer blocks than
// threads, blocks that do not divide among them, padded blocks, results above and below what passes
// by the cache.
const std::vector<DepthwiseCase> kCases = {
    {{2, 16, 7, 7}, 3, 1, {1, 1, 1, 1}},   {{2, 32, 8, 9}, 3, 2, {1, 1, 1, 1}},
    {{1, 80, 14, 15}, 3, 1, {1, 1, 1, 1}}, {{3, 48, 11, 6}, 3, 1, {0, 0, 0, 0}},
    {{2, 16, 13, 10}, 3, 2, {0, 1, 1, 0}}, {{2, 16, 1, 1}, 3, 1, {1, 1, 1, 1}},
    {{2, 64, 2, 3}, 3, 2, {1, 1, 1, 1}},   {{1, 32, 9, 12}, 3, 1, {2, 2, 2, 2}},
    {{2, 16, 9, 8}, 3, 2, {2, 0, 0, 2}},   {{2, 32, 11, 10}, 5, 1, {2, 2, 2, 2}},
    {{2, 16, 12, 13}, 5, 2, {2, 2, 2, 2}}, {{1, 16, 7, 5}, 5, 2, {0, 4, 3, 1}},
    {{3, 32, 57, 59}, 3, 1, {1, 1, 1, 1}}, {{4, 16, 70, 66}, 3, 2, {1, 1, 1, 1}},
    {{2, 24, 9, 10}, 3, 2, {1, 1, 1, 1}},  {{3, 40, 8, 7}, 5, 1, {2, 2, 2, 2}},
    {{2, 24, 49, 48}, 3, 1, {1, 1, 1, 1}}, {{2, 8, 9, 9}, 3, 1, {1, 1, 1, 1}},
    {{1, 16, 50, 49}, 3, 1, {0, 2, 1, 0}}, {{1, 32, 48, 51}, 5, 1, {2, 2, 2, 2}},
};

TEST_CASE("depthwise convolutions on blocks") {
  for (const DepthwiseCase& c : kCases) {
    check_both_types({Op::kConv, {c.x, c.w()}, c.attrs({}), 0b1, 0b1}, kClose);
    check_both_types({Op::kConvDataGrad, {c.y(), c.w()}, c.attrs(c.x), 0b1, 0b1}, kClose);
    check_both_types({Op::kConvWeightGrad, {c.x, c.y()}, c.attrs(c.w()), 0b11, 0}, kClose);
    // As convolutions come: the weights are bfloat16 too.
    check_rows({Op::kConv, {c.x, c.w()}, c.attrs({}), 0b1, 0b1, 0b11, 0b1}, kClose);
    check_rows({Op::kConvDataGrad, {c.y(), c.w()}, c.attrs(c.x), 0b1, 0b1, 0b11, 0b1}, kClose);
  }
}

TEST_CASE("what depthwise rows refuse") {
  const DepthwiseCase plain = {{2, 32, 8, 8}, 3, 1, {1, 1, 1, 1}};
  const auto refuses = [&](const DepthwiseCase& c, ConvAttrs attrs, Shape w, uint32_t blocked,
                           std::string_view reason) {
    const auto all = refusals({Op::kConv, {c.x, std::move(w)}, std::move(attrs), blocked, blocked});
    INFO(reason);
    CHECK(std::find(all.begin(), all.end(), reason) != all.end());
  };
  refuses(plain, plain.attrs({}), plain.w(), 0, "takes activations in nChw16c");
  refuses(plain, plain.attrs({}), plain.w(), 1, "leaves this shape to oneDNN, which is faster");
  const DepthwiseCase strided = {{2, 32, 8, 8}, 3, 2, {1, 1, 1, 1}};
  refuses(strided, strided.attrs({}), strided.w(), 1,
          "leaves this shape to oneDNN, which is faster");
  ConvAttrs dense = plain.attrs({});
  dense.group = 1;
  refuses(plain, dense, {32, 32, 3, 3}, 1, "takes a group for each channel");
  const DepthwiseCase few = {{2, 7, 8, 8}, 3, 1, {1, 1, 1, 1}};
  refuses(few, few.attrs({}), few.w(), 1, "takes channels that fill half of their blocks");
  const DepthwiseCase wide = {{2, 32, 8, 8}, 7, 1, {3, 3, 3, 3}};
  refuses(wide, wide.attrs({}), wide.w(), 1, "takes 3x3 and 5x5 filters");
  const DepthwiseCase far = {{2, 32, 8, 8}, 3, 3, {1, 1, 1, 1}};
  refuses(far, far.attrs({}), far.w(), 1,
          "takes strides 1 and 2, the same both ways, and no dilation");
  const DepthwiseCase padded = {{2, 32, 8, 8}, 3, 1, {3, 1, 1, 1}};
  refuses(padded, padded.attrs({}), padded.w(), 1, "takes pads smaller than the filter");
}

/// x, in values that bfloat16 has too, and the mean and variance of its channels.
struct Statistics {
  Tensor x, mean, variance;

  explicit Statistics(const Shape& shape)
      : x(DType::kFloat32, shape),
        mean(DType::kFloat32, {shape[1]}),
        variance(DType::kFloat32, {shape[1]}) {
    std::mt19937 random(7);
    for (float& v : x.data<float>()) {
      v = std::uniform_real_distribution<float>(-1.0f, 2.0f)(random);
    }
    x = x.to(DType::kBFloat16).to(DType::kFloat32);
    const int64_t pixels = shape[2] * shape[3];
    const auto value = [&](int64_t n, int64_t c, int64_t p) -> double {
      return x.data<float>()[static_cast<size_t>((n * shape[1] + c) * pixels + p)];
    };
    for (int64_t c = 0; c < shape[1]; ++c) {
      double sum = 0, squares = 0;
      for (int64_t n = 0; n < shape[0]; ++n) {
        for (int64_t p = 0; p < pixels; ++p) {
          sum += value(n, c, p);
          squares += value(n, c, p) * value(n, c, p);
        }
      }
      const double count = static_cast<double>(shape[0] * pixels), m = sum / count;
      mean.data<float>()[static_cast<size_t>(c)] = static_cast<float>(m);
      variance.data<float>()[static_cast<size_t>(c)] = static_cast<float>(squares / count - m * m);
    }
  }
};

TEST_CASE("BatchNorm inside a depthwise convolution, and the gradient of both") {
  for (const DepthwiseCase& c : kCases) {
    if (c.x[0] * c.x[2] * c.x[3] < 4) continue;  // the variance is all rounding
    const Shape channels = {c.x[1]};
    const Statistics s(c.x);
    for (const Activation a : {Activation::kNone, Activation::kRelu, Activation::kClip}) {
      const bool clip = a == Activation::kClip;
      const NormConvAttrs attrs({1, 1e-3, a, clip ? -0.5 : 0, clip ? 0.8 : 0}, c.attrs({}));
      check_both_types({Op::kNormConv, {Operand(s.x), channels, channels, c.w()}, attrs, 0b1, 0b1},
                       {3e-5, false});
      check_both_types(
          {Op::kNormConvGrad,
           {c.y(), Operand(s.x), channels, channels, Operand(s.mean), Operand(s.variance), c.w()},
           attrs,
           0b11,
           0b1},
          {3e-5, false});
    }
  }
}

}  // namespace
}  // namespace trainrt
