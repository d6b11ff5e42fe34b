#include "tests/kernels/cases/linear.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

void check_all(const std::vector<RowCase>& cases, Tolerance tolerance) {
  for (const RowCase& c : cases) check_rows(c, tolerance);
}

TEST_CASE("MatMul by oneDNN: shapes, transposition, batches") { check_all(matmul_cases(), kClose); }

TEST_CASE("a ReLU behind a product or a convolution keeps NaN and infinity") {
  check_rows(matmul_of_nan(), kExact);
  check_rows(conv_of_nan(), kClose);
}

TEST_CASE("MatMul with empty dims") { check_all(empty_matmuls(), kExact); }

void check_convs(const std::vector<ConvCase>& cases) {
  for (const ConvCase& c : cases) check_all(conv_rows(c), kClose);
}

TEST_CASE("2-D convolution and its gradients by oneDNN") { check_convs(kConvs2d); }

TEST_CASE("pointwise convolution by oneDNN, plain and strided") { check_convs(kPointwiseConvs); }

TEST_CASE("strided pointwise convolution with few channels stays within its memory") {
  for (int64_t channels : {3, 4, 8, 12, 15}) {
    check_convs({{{2, channels, 56, 56}, {32, channels, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}});
  }
}

TEST_CASE("depthwise and grouped convolution by oneDNN") { check_convs(kGroupedConvs); }

TEST_CASE("dilated convolution and asymmetric pads by oneDNN") { check_convs(kDilatedConvs); }

TEST_CASE("1-D and 3-D convolution by oneDNN") { check_convs(kConvs1dAnd3d); }

/// Activations in nChw16c; x stays plain where it has few channels, as in a first layer.
void check_blocked_conv(const ConvCase& c) {
  ConvAttrs attrs{c.strides, c.dilations, c.begin, c.end, c.group, {}};
  ConvAttrs data = attrs, weights = attrs;
  data.shape = c.x;
  weights.shape = c.w;
  const Shape y = output_of(c);
  const uint32_t x = c.x[1] > 4 ? 1 : 0;
  check_rows({Op::kConv, {c.x, c.w}, attrs, x, 1}, kClose);
  check_rows({Op::kConv, {c.x, c.w, Shape{c.w[0]}}, attrs, x, 1}, kClose);
  if (x) check_rows({Op::kConvDataGrad, {y, c.w}, data, 1, 1}, kClose);
  check_rows({Op::kConvWeightGrad, {c.x, y}, weights, x | 2, 0}, kClose);
  attrs.relu = true;
  check_rows({Op::kConv, {c.x, c.w, Shape{c.w[0]}}, attrs, x, 1}, kClose);
}

TEST_CASE("convolution of blocked activations by oneDNN") {
  check_blocked_conv({{2, 32, 12, 12}, {48, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  check_blocked_conv({{3, 32, 13, 9}, {64, 32, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  check_blocked_conv({{2, 64, 8, 8}, {128, 64, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
  check_blocked_conv({{1, 16, 7, 7}, {96, 16, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

TEST_CASE("convolution of blocked activations: padded channels") {
  check_blocked_conv({{2, 24, 9, 9}, {40, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  check_blocked_conv({{2, 20, 9, 8}, {24, 20, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  check_blocked_conv({{2, 24, 8, 8}, {144, 24, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
  check_blocked_conv({{2, 8, 56, 56}, {20, 8, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}});
}

TEST_CASE("convolution of a plain image to blocked activations") {
  check_blocked_conv({{2, 3, 33, 31}, {64, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}});
  check_blocked_conv({{2, 3, 16, 16}, {32, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  check_blocked_conv({{2, 1, 14, 14}, {6, 1, 5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}});
}

TEST_CASE("depthwise convolution of blocked activations") {
  check_blocked_conv({{2, 32, 14, 14}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 32});
  check_blocked_conv({{2, 144, 15, 13}, {144, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 144});
  check_blocked_conv({{1, 32, 7, 7}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2});
}

TEST_CASE("convolution refuses layouts that it does not run") {
  const ConvAttrs attrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {}};
  const RowCase from_blocked{Op::kConv, {Shape{1, 16, 8, 8}, Shape{16, 16, 3, 3}}, attrs, 1, 0};
  const RowCase to_blocked{Op::kConv, {Shape{1, 16, 8, 8}, Shape{16, 16, 3, 3}}, attrs, 0, 1};
  for (const RowCase& c : {from_blocked, to_blocked}) {
    for (const std::string& reason : refusals(c)) CHECK(!reason.empty());
  }
}

struct PoolCase {
  Shape x;
  std::vector<int64_t> kernel, strides, dilations, begin, end;
  int64_t ceil = 0;  // added to the last output dim
};

PoolAttrs pool_attrs(const PoolCase& c) {
  PoolAttrs a{c.kernel, c.strides, c.dilations, c.begin, c.end, {}, false, false, {}};
  for (size_t d = 0; d < c.kernel.size(); ++d) {
    const int64_t reach = (c.kernel[d] - 1) * c.dilations[d] + 1;
    a.output.push_back((c.x[d + 2] + c.begin[d] + c.end[d] - reach) / c.strides[d] + 1);
  }
  a.output.back() += c.ceil;
  return a;
}

const PoolCase kPools[] = {
    {{2, 3, 8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 3, 65, 67}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 3, 56, 56}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 2, 37, 71}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {{1, 2, 40, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 5, 7, 7}, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 2, 9, 11}, {3, 2}, {3, 4}, {2, 1}, {1, 0}, {0, 1}},
    {{2, 2, 7, 8}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1},
    {{2, 3, 50}, {3}, {2}, {1}, {1}, {1}},
    {{2, 2, 6, 7, 8}, {2, 3, 2}, {2, 2, 1}, {1, 1, 1}, {0, 1, 0}, {0, 1, 1}},
    {{1, 1, 1, 700}, {1, 2}, {1, 2}, {1, 1}, {0, 0}, {0, 0}},
};

Shape output_of(const PoolCase& c) {
  Shape y = {c.x[0], c.x[1]};
  for (int64_t d : pool_attrs(c).output) y.push_back(d);
  return y;
}

TEST_CASE("MaxPool, its indices and its gradient on CPU") {
  for (const PoolCase& c : kPools) {
    check_rows({Op::kMaxPool, {c.x}, pool_attrs(c)}, kExact);
    check_rows({Op::kMaxPoolIndices, {c.x}, pool_attrs(c)}, kExact);
    check_rows({Op::kMaxPoolGrad, {output_of(c), c.x}, pool_attrs(c)}, kTight);
  }
}

TEST_CASE("in a tie the first maximum takes the gradient") {
  const PoolCase c = kPools[2];
  const Operand flat(Tensor(DType::kFloat32, c.x));
  check_rows({Op::kMaxPoolGrad, {output_of(c), flat}, pool_attrs(c)}, kTight);
  check_rows({Op::kMaxPoolIndices, {flat}, pool_attrs(c)}, kExact);
}

TEST_CASE("MaxPool takes NaN for the largest value, -inf for the smallest") {
  Tensor x(DType::kFloat32, {1, 1, 40, 40});
  x.fill(-INFINITY);
  for (int64_t i = 0; i < x.size(); i += 7) x.data<float>()[static_cast<size_t>(i)] = NAN;
  const PoolCase c = {{1, 1, 40, 40}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
  check_rows({Op::kMaxPool, {Operand(x)}, pool_attrs(c)}, kExact);
  check_rows({Op::kMaxPoolIndices, {Operand(x)}, pool_attrs(c)}, kExact);
}

TEST_CASE("AveragePool and its gradient on CPU") {
  for (const PoolCase& c : kPools) {
    for (bool padding : {false, true}) {
      PoolAttrs attrs = pool_attrs(c);
      attrs.count_include_pad = padding;
      check_rows({Op::kAveragePool, {c.x}, attrs}, kClose);
      attrs.shape = c.x;
      check_rows({Op::kAveragePoolGrad, {output_of(c)}, attrs}, kClose);
    }
  }
}

TEST_CASE("Interpolate and its gradient on CPU") {
  for (const auto& [shape, axis] : std::vector<std::pair<Shape, int64_t>>{
           {{2, 3, 5, 20}, 2}, {{2, 3, 4, 5}, 3}, {{5}, 0}, {{3, 5, 1}, 1}}) {
    const InterpolateAttrs attrs{axis,
                                 5,
                                 7,
                                 2,
                                 {0, 1, 0, 0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 1},
                                 {0.5, 0.5, 1, 0, 0.25, 0.75, 0.9, 0.1, 1, 0, 0.3, 0.7, 0.2, 0.8}};
    Shape in = shape, out = shape;
    in[static_cast<size_t>(axis)] = 5;
    out[static_cast<size_t>(axis)] = 7;
    check_rows({Op::kInterpolate, {in}, attrs}, kClose);
    check_rows({Op::kInterpolateGrad, {out}, attrs}, kClose);
  }
}

}  // namespace
}  // namespace trainrt
