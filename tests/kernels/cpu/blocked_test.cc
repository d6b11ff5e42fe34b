// Rows on activations in blocks of 16 channels.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/blocked_view.h"
#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Whole and padded blocks, fewer blocks than threads and more, chunks of 256 pixels and tails.
const std::vector<Shape> kShapes = {{2, 16, 5, 7},   {3, 24, 4, 4},  {1, 5, 9, 3},
                                    {4, 64, 17, 19}, {2, 40, 1, 33}, {2, 3, 20, 31}};

NormAttrs activated(Activation activation) {
  return {1, 1e-5, activation, activation == Activation::kClip ? -0.5 : 0,
          activation == Activation::kClip ? 0.8 : 0};
}

TEST_CASE("BatchNorm on CPU: its result once more, in the same bits") {
  for (const bool blocked : {false, true}) {
    for (const Shape& shape : {Shape{3, 32, 7, 5}, Shape{40, 48, 1, 1}}) {
      for (const Activation a : {Activation::kNone, Activation::kRelu, Activation::kClip}) {
        for (const bool residual : {false, true}) {
          if (residual && a == Activation::kClip) continue;
          const Operand channels(Shape{shape[1]}, 0.2, 2.0);
          RowCase norm{Op::kBatchNorm, {shape, channels, channels}, activated(a)};
          if (residual) {
            Tensor r(DType::kFloat32, shape);
            for (int64_t i = 0; i < r.size(); ++i) {
              r.data<float>()[static_cast<size_t>(i)] = std::sin(static_cast<float>(i));
            }
            norm.inputs.emplace_back(r);
          }
          norm.blocked_inputs = blocked ? 0b1001 : 0;
          norm.blocked_outputs = blocked ? 1 : 0;
          const std::vector<Tensor> y = run_first_row(norm);
          RowCase again = norm;
          again.op = Op::kBatchNormApply;
          again.inputs.insert(again.inputs.begin() + 3, {Operand(y[1]), Operand(y[2])});
          again.blocked_inputs = blocked ? 0b100001 : 0;
          check_rows(again, {3e-5, false});
          const Tensor got = run_first_row(again)[0];
          CHECK(std::memcmp(got.raw(), y[0].raw(), got.bytes()) == 0);
        }
      }
    }
  }
}

TEST_CASE("BatchNorm on blocks, with residual and activation") {
  for (const Shape& shape : kShapes) {
    const Shape channels = {shape[1]};
    for (double shift : {0.0, 30.0}) {
      const Operand x(shape, shift - 2, shift + 2);
      for (const Activation a : {Activation::kNone, Activation::kRelu, Activation::kClip}) {
        check_both_types({Op::kBatchNorm, {x, channels, channels}, activated(a), 0b1, 0b1},
                         {3e-5, false});
        if (a == Activation::kClip) continue;
        check_both_types(
            {Op::kBatchNorm, {x, channels, channels, shape}, activated(a), 0b1001, 0b1},
            {3e-5, false});
      }
    }
  }
}

TEST_CASE("BatchNormGrad on blocks, with residual and activation") {
  for (const Shape& shape : kShapes) {
    const Shape channels = {shape[1]};
    const Operand variance(channels, 0.2, 2);
    check_both_types({Op::kBatchNormGrad,
                      {shape, shape, channels, channels, variance},
                      activated(Activation::kNone),
                      0b11,
                      0b1},
                     kClose);
    for (const Activation a : {Activation::kRelu, Activation::kClip}) {
      check_both_types({Op::kBatchNormGrad,
                        {shape, shape, channels, channels, variance, channels},
                        activated(a),
                        0b11,
                        0b1},
                       kClose);
    }
    check_both_types({Op::kBatchNormGrad,
                      {shape, shape, channels, channels, variance, shape},
                      activated(Activation::kRelu),
                      0b100011,
                      0b1001},
                     kClose);
  }
}

TEST_CASE("BatchNorm on blocks keeps small deviations beside large means") {
  check_rows({Op::kBatchNorm,
              {Operand({4, 16, 17, 19}, 1000, 1001), {{16}}, {{16}}},
              activated(Activation::kNone),
              0b1,
              0b1},
             {2e-4, false});
}

PoolAttrs window(int64_t kernel, int64_t stride, int64_t pad, Shape output) {
  PoolAttrs a;
  a.kernel = {kernel, kernel};
  a.strides = {stride, stride};
  a.dilations = {1, 1};
  a.pads_begin = a.pads_end = {pad, pad};
  a.output = std::move(output);
  return a;
}

TEST_CASE("MaxPool and its gradient on blocks") {
  const std::vector<std::pair<Shape, PoolAttrs>> cases = {
      {{2, 16, 8, 8}, window(2, 2, 0, {4, 4})},
      {{2, 24, 9, 7}, window(3, 2, 1, {5, 4})},
      {{1, 5, 12, 12}, window(5, 1, 2, {12, 12})},
      {{2, 32, 40, 70}, window(3, 1, 1, {40, 70})},
      {{1, 16, 7, 7}, window(2, 2, 0, {4, 4})}};
  for (const auto& [shape, attrs] : cases) {
    const Shape out = {shape[0], shape[1], attrs.output[0], attrs.output[1]};
    // Few different values: ties go to the first.
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.size(); ++i) {
      x.data<float>()[static_cast<size_t>(i)] = i % 97 == 0 ? kNaN : static_cast<float>(i * 7 % 5);
    }
    check_both_types({Op::kMaxPool, {Operand(x)}, attrs, 0b1, 0b1}, kExact);
    check_both_types({Op::kMaxPool, {shape}, attrs, 0b1, 0b1}, kExact);
    check_both_types({Op::kMaxPoolGrad, {out, Operand(x)}, attrs, 0b11, 0b1}, kTight);
    check_both_types({Op::kMaxPoolGrad, {out, shape}, attrs, 0b11, 0b1}, kTight);
  }
}

struct ConvCase {
  Shape x, w;
  std::vector<int64_t> pads;  // top, left, bottom, right
};

ConvAttrs attrs_of(const ConvCase& c, Shape shape) {
  ConvAttrs a;
  a.strides = a.dilations = {1, 1};
  a.pads_begin = {c.pads[0], c.pads[1]};
  a.pads_end = {c.pads[2], c.pads[3]};
  a.shape = std::move(shape);
  return a;
}

/// All three passes, the forward one with bias and ReLU too.
void check_conv(const ConvCase& c, Tolerance tolerance) {
  const auto out = [&](size_t d) { return c.x[d + 2] + c.pads[d] + c.pads[d + 2] - 2; };
  const Shape y = {c.x[0], c.w[0], out(0), out(1)}, bias = {c.w[0]};
  check_rows({Op::kConv, {c.x, c.w}, attrs_of(c, {}), 0b1, 0b1}, tolerance);
  ConvAttrs relu = attrs_of(c, {});
  relu.relu = true;
  check_rows({Op::kConv, {c.x, c.w, bias}, relu, 0b1, 0b1}, tolerance);
  check_rows({Op::kConvDataGrad, {y, c.w}, attrs_of(c, c.x), 0b1, 0b1}, tolerance);
  check_rows({Op::kConvWeightGrad, {c.x, y}, attrs_of(c, c.w), 0b11, 0}, tolerance);
}

// Winograd's transforms multiply by up to 8 on either side and cancel again, so its rounding errors
// are larger than those of the direct rows, which linear_test.cc holds to kClose.
TEST_CASE("3x3 convolutions on blocks, direct and by Winograd") {
  constexpr Tolerance kWinograd{3e-5, false};
  const std::vector<ConvCase> cases = {{{2, 32, 8, 8}, {32, 32, 3, 3}, {1, 1, 1, 1}},
                                       {{1, 32, 7, 7}, {64, 32, 3, 3}, {1, 1, 1, 1}},
                                       {{3, 48, 13, 9}, {80, 48, 3, 3}, {1, 1, 1, 1}},
                                       {{1, 64, 5, 6}, {32, 64, 3, 3}, {0, 0, 0, 0}},
                                       {{2, 32, 6, 11}, {48, 32, 3, 3}, {0, 1, 1, 0}},
                                       {{2, 32, 3, 3}, {32, 32, 3, 3}, {2, 2, 2, 2}},
                                       {{4, 32, 40, 37}, {32, 32, 3, 3}, {1, 1, 1, 1}},
                                       {{2, 160, 14, 14}, {192, 160, 3, 3}, {1, 1, 1, 1}}};
  for (const ConvCase& c : cases) check_conv(c, kWinograd);
}

TEST_CASE("Reorder between layouts") {
  for (const Shape& shape : kShapes) {
    check_rows({Op::kReorder, {shape}, LayoutAttrs{Layout::kNChw16c}, 0b0, 0b1}, kExact);
    check_rows({Op::kReorder, {shape}, LayoutAttrs{Layout::kPlain}, 0b1, 0b0}, kExact);
  }
}

TEST_CASE("plain kernels on blocks") {
  const Shape full = {2, 32, 5, 7}, padded = {2, 24, 5, 7};
  for (const Shape& s : {full, padded}) {
    check_rows({Op::kAdd, {s, s}, NoAttrs{}, 0b11, 0b1}, kExact);
    check_rows({Op::kRelu, {s}, NoAttrs{}, 0b1, 0b1}, kExact);
    check_rows({Op::kReluGrad, {s, s}, NoAttrs{}, 0b11, 0b1}, kExact);
    check_rows({Op::kClip, {s}, ClipAttrs{0, 1}, 0b1, 0b1}, kExact);
  }
  // Per channel, per pixel, per image, scalars.
  for (const Shape& other : {Shape{2, 32, 1, 1}, Shape{1, 32, 1, 1}, Shape{32, 1, 1},
                             Shape{2, 1, 5, 7}, Shape{2, 1, 1, 1}, Shape{1}, Shape{}}) {
    check_rows({Op::kMul, {full, other}, NoAttrs{}, 0b1, 0b1}, kExact);
    check_rows({Op::kAdd, {other, full}, NoAttrs{}, 0b10, 0b1}, kExact);
  }
  check_rows({Op::kSigmoid, {full}, NoAttrs{}, 0b1, 0b1}, kTight);
  check_rows({Op::kReduceSum, {full}, ReduceAttrs{{0, 2, 3}, false}, 0b1, 0}, kTight);
  check_rows({Op::kReduceMean, {full}, ReduceAttrs{{2, 3}, true}, 0b1, 0}, kTight);
  check_rows({Op::kConcat, {full, full, Shape{2, 16, 5, 7}}, AxisAttrs{1}, 0b111, 0b1}, kExact);
  check_rows({Op::kSplit, {full}, SplitAttrs{1, {16, 16}}, 0b1, 0b11}, kExact);
}

TEST_CASE("no plain view where padding would not stay 0, or layouts are mixed") {
  const TensorType blocked{DType::kFloat32, {2, 24, 5, 7}, Layout::kNChw16c};
  const TensorType whole{DType::kFloat32, {2, 32, 5, 7}, Layout::kNChw16c};
  const TensorType plain{DType::kFloat32, {2, 32, 5, 7}};
  const TensorType scalar{DType::kFloat32, {}};
  const Attrs none = NoAttrs{};
  const auto seen = [&](Op op, std::vector<TensorType> in, const TensorType& out) {
    return plain_view({op, none, in, {&out, 1}}).has_value();
  };
  CHECK(!seen(Op::kExp, {blocked}, blocked));
  CHECK(seen(Op::kExp, {whole}, whole));
  CHECK(!seen(Op::kAdd, {blocked, scalar}, blocked));
  CHECK(seen(Op::kAdd, {whole, scalar}, whole));
  CHECK(!seen(Op::kAdd, {whole, plain}, whole));
  CHECK(!seen(Op::kTranspose, {whole}, whole));
}

}  // namespace
}  // namespace trainrt
