#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

TEST_CASE("MatMul with transposed operands") {
  const Tensor a = tensor<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = tensor<double>({7, 8, 9, 10, 11, 12}, {3, 2});
  const Tensor at = eval(Op::kTranspose, {a}, PermAttrs{{1, 0}});
  const Tensor bt = eval(Op::kTranspose, {b}, PermAttrs{{1, 0}});
  const std::vector<double> want = {58, 64, 139, 154};
  check_close(eval(Op::kMatMul, {a, b}, MatMulAttrs{false, false}), want);
  check_close(eval(Op::kMatMul, {at, b}, MatMulAttrs{true, false}), want);
  check_close(eval(Op::kMatMul, {a, bt}, MatMulAttrs{false, true}), want);
  check_close(eval(Op::kMatMul, {at, bt}, MatMulAttrs{true, true}), want);
  check_close(eval(Op::kMatMul, {a.to(DType::kFloat32), b.to(DType::kFloat32)}, MatMulAttrs{}),
              want);
  check_close(eval(Op::kMatMul, {a.to(DType::kInt32), b.to(DType::kInt32)}, MatMulAttrs{}), want);
}

TEST_CASE("MatMul broadcasts leading dims and passes blocks") {
  const Tensor a = noise({2, 1, 3, 5}, 1), b = noise({4, 5, 70}, 2);
  const Tensor y = eval(Op::kMatMul, {a, b}, MatMulAttrs{});
  REQUIRE(y.shape() == Shape{2, 4, 3, 70});
  std::vector<double> want;
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 4; ++j)
      for (size_t m = 0; m < 3; ++m)
        for (size_t n = 0; n < 70; ++n) {
          double sum = 0;
          for (size_t k = 0; k < 5; ++k) {
            sum += a.data<double>()[(i * 3 + m) * 5 + k] * b.data<double>()[(j * 5 + k) * 70 + n];
          }
          want.push_back(sum);
        }
  check_close(y, want);
}

TEST_CASE("MatMul over an empty inner dim is 0") {
  check_close(eval(Op::kMatMul, {Tensor(DType::kFloat64, {2, 0}), Tensor(DType::kFloat64, {0, 3})},
                   MatMulAttrs{}),
              std::vector<double>(6, 0));
  CHECK(eval(Op::kMatMul, {Tensor(DType::kFloat32, {0, 2}), Tensor(DType::kFloat32, {2, 3})},
             MatMulAttrs{})
            .shape() == Shape{0, 3});
}

/// Convolution by scattering every input cell, over up to three spatial dims.
Tensor scatter_conv(const Tensor& x, const Tensor& w, const ConvAttrs& a, const Shape& y_shape) {
  const size_t spatial = x.shape().size() - 2;
  const auto three = [&](const std::vector<int64_t>& v, size_t skip, int64_t missing) {
    std::vector<int64_t> out(3 - spatial, missing);
    out.insert(out.end(), v.begin() + static_cast<ptrdiff_t>(skip), v.end());
    return out;
  };
  const auto in = three(x.shape(), 2, 1), out = three(y_shape, 2, 1), ker = three(w.shape(), 2, 1);
  const auto stride = three(a.strides, 0, 1), dil = three(a.dilations, 0, 1);
  const auto pad = three(a.pads_begin, 0, 0);
  Tensor y(DType::kFloat64, y_shape);
  const int64_t channels = x.shape()[1], maps = w.shape()[0], per = w.shape()[1];
  const auto volume = [](const std::vector<int64_t>& d) { return d[0] * d[1] * d[2]; };
  for (int64_t n = 0; n < x.shape()[0]; ++n)
    for (int64_t m = 0; m < maps; ++m)
      for (int64_t c = 0; c < per; ++c)
        for (int64_t i = 0; i < volume(in); ++i)
          for (int64_t k = 0; k < volume(ker); ++k) {
            const int64_t cell[] = {i / (in[1] * in[2]), i / in[2] % in[1], i % in[2]};
            const int64_t tap[] = {k / (ker[1] * ker[2]), k / ker[2] % ker[1], k % ker[2]};
            int64_t o = 0;
            bool hit = true;
            for (size_t d = 0; d < 3; ++d) {
              const int64_t at = cell[d] + pad[d] - tap[d] * dil[d];
              hit = hit && at >= 0 && at % stride[d] == 0 && at / stride[d] < out[d];
              if (hit) o = o * out[d] + at / stride[d];
            }
            if (!hit) continue;
            const int64_t source = n * channels + m / (maps / a.group) * per + c;
            y.data<double>()[size_t((n * maps + m) * volume(out) + o)] +=
                x.data<double>()[size_t(source * volume(in) + i)] *
                w.data<double>()[size_t((m * per + c) * volume(ker) + k)];
          }
  return y;
}

struct ConvCase {
  Shape x, w;
  ConvAttrs attrs;
};

std::vector<ConvCase> conv_cases() {
  return {
      {{2, 3, 9}, {4, 3, 3}, {{1}, {1}, {1}, {1}, 1, {}}},
      {{1, 4, 150}, {2, 2, 5}, {{2}, {3}, {4}, {0}, 2, {}}},
      {{2, 2, 7, 6}, {4, 1, 3, 2}, {{2, 1}, {1, 2}, {1, 0}, {0, 2}, 2, {}}},
      {{1, 3, 5, 5}, {2, 3, 1, 1}, {{2, 2}, {1, 1}, {0, 0}, {0, 0}, 1, {}}},
      {{1, 2, 4, 5, 3}, {2, 2, 2, 3, 2}, {{1, 2, 3}, {2, 1, 1}, {1, 0, 1}, {0, 1, 2}, 1, {}}},
      {{1, 1, 4}, {1, 1, 2}, {{3}, {1}, {5}, {4}, 1, {}}},  // windows wholly in padding
  };
}

TEST_CASE("Conv agrees with scattering") {
  for (const ConvCase& c : conv_cases()) {
    const Tensor x = noise(c.x, 1), w = noise(c.w, 2);
    const Tensor y = eval(Op::kConv, {x, w}, c.attrs);
    check_close(y, scatter_conv(x, w, c.attrs, y.shape()));
    const Tensor y32 = eval(Op::kConv, {x.to(DType::kFloat32), w.to(DType::kFloat32)}, c.attrs);
    check_close(y32, y, 1e-5);
  }
}

TEST_CASE("Conv adds the bias of the output channel") {
  const ConvAttrs attrs{{1}, {1}, {0}, {0}, 1, {}};
  check_close(eval(Op::kConv,
                   {tensor<double>({1, 2, 3}, {1, 1, 3}), tensor<double>({1, 1, 2, 0}, {2, 1, 2}),
                    vec<double>({10, 20})},
                   attrs),
              {13, 15, 22, 24});
}

TEST_CASE("gradients of Conv are its adjoints") {
  for (const ConvCase& c : conv_cases()) {
    const Tensor x = noise(c.x, 1), w = noise(c.w, 2);
    const Tensor y = eval(Op::kConv, {x, w}, c.attrs), dy = noise(y.shape(), 3);
    ConvAttrs attrs = c.attrs;
    attrs.shape = c.x;
    CHECK(std::abs(dot(eval(Op::kConvDataGrad, {dy, w}, attrs), x) - dot(dy, y)) < 1e-10);
    attrs.shape = c.w;
    CHECK(std::abs(dot(eval(Op::kConvWeightGrad, {x, dy}, attrs), w) - dot(dy, y)) < 1e-10);
  }
}

TEST_CASE("Conv of an empty batch") {
  const ConvAttrs attrs{{1}, {1}, {0}, {0}, 1, {}};
  const Tensor x(DType::kFloat64, {0, 1, 3}), w = counting({2, 1, 2});
  CHECK(eval(Op::kConv, {x, w}, attrs).shape() == Shape{0, 2, 2});
  ConvAttrs grad = attrs;
  grad.shape = {2, 1, 2};
  check_close(eval(Op::kConvWeightGrad, {x, Tensor(DType::kFloat64, {0, 2, 2})}, grad),
              {0, 0, 0, 0});
}

PoolAttrs pool(std::vector<int64_t> kernel, std::vector<int64_t> strides,
               std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int64_t> output) {
  PoolAttrs a{kernel, strides, std::vector<int64_t>(kernel.size(), 1), begin, end, output, false,
              false,  {}};
  return a;
}

TEST_CASE("MaxPool: first maximum, NaN, padding") {
  const Tensor x = tensor<double>({1, 3, 3, 2, -5, kNaN}, {1, 1, 6});
  const PoolAttrs a = pool({3}, {1}, {1}, {1}, {6});
  check_close(eval(Op::kMaxPool, {x}, a), {3, 3, 3, 3, kNaN, kNaN});
  CHECK(values<int64_t>(eval(Op::kMaxPoolIndices, {x}, a)) ==
        std::vector<int64_t>{1, 1, 1, 2, 5, 5});
  const Tensor dy = tensor<double>({1, 2, 4, 8, 16, 32}, {1, 1, 6});
  check_close(eval(Op::kMaxPoolGrad, {dy, x}, a), {0, 7, 8, 0, 0, 48});
  const Tensor low = tensor<double>({-3, -2}, {1, 1, 2});
  check_close(eval(Op::kMaxPool, {low}, pool({2}, {1}, {1}, {1}, {3})), {-3, -2, -2});
  const Tensor lowest = tensor<double>({-kInf, -kInf}, {1, 1, 2});
  CHECK(values<int64_t>(eval(Op::kMaxPoolIndices, {lowest}, pool({2}, {1}, {0}, {0}, {1}))) ==
        std::vector<int64_t>{0});
}

TEST_CASE("MaxPool of integers in two dims, dilated") {
  const Tensor x = counting({1, 2, 3, 3}, DType::kInt8);
  PoolAttrs a = pool({2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1});
  a.dilations = {2, 2};
  CHECK(values<int8_t>(eval(Op::kMaxPool, {x}, a)) == std::vector<int8_t>{8, 17});
  CHECK(values<int64_t>(eval(Op::kMaxPoolIndices, {x}, a)) == std::vector<int64_t>{8, 17});
}

TEST_CASE("MaxPoolIndices in column-major order") {
  const Tensor x = tensor<double>({0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0}, {1, 2, 2, 3});
  PoolAttrs a = pool({2, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1});
  CHECK(values<int64_t>(eval(Op::kMaxPoolIndices, {x}, a)) == std::vector<int64_t>{2, 10});
  a.column_major = true;
  CHECK(values<int64_t>(eval(Op::kMaxPoolIndices, {x}, a)) == std::vector<int64_t>{4, 9});
}

TEST_CASE("MaxPoolGrad of overlapping windows adds up, by differences") {
  const Tensor x = noise({2, 2, 5, 6}, 1);
  const PoolAttrs a = pool({3, 2}, {2, 1}, {1, 0}, {1, 1}, {3, 6});
  const Tensor dy = noise({2, 2, 3, 6}, 2);
  check_gradient(x, dy, eval(Op::kMaxPoolGrad, {dy, x}, a),
                 [&](const Tensor& t) { return eval(Op::kMaxPool, {t}, a); });
}

TEST_CASE("AveragePool divides by cells inside the input, or inside the padded input") {
  const Tensor x = tensor<double>({2, 4, 6}, {1, 1, 3});
  PoolAttrs a = pool({2}, {2}, {1}, {0}, {2});
  check_close(eval(Op::kAveragePool, {x}, a), {2, 5});
  a.count_include_pad = true;
  check_close(eval(Op::kAveragePool, {x}, a), {1, 5});
  // ceil_mode: the last window reaches beyond the padding, where cells count for nothing
  PoolAttrs ceil = pool({3}, {2}, {0}, {1}, {2});
  ceil.count_include_pad = true;
  const Tensor longer = tensor<double>({1, 2, 3, 6}, {1, 1, 4});
  check_close(eval(Op::kAveragePool, {longer}, ceil), {2, 3});
  ceil.pads_end = {0};
  check_close(eval(Op::kAveragePool, {longer}, ceil), {2, 4.5});
}

TEST_CASE("AveragePoolGrad is the adjoint") {
  for (bool include : {false, true}) {
    PoolAttrs a = pool({2, 3, 2}, {1, 2, 2}, {1, 1, 0}, {0, 1, 1}, {4, 3, 2});
    a.count_include_pad = include;
    const Tensor x = noise({2, 2, 4, 5, 4}, 1);
    const Tensor y = eval(Op::kAveragePool, {x}, a), dy = noise(y.shape(), 2);
    a.shape = x.shape();
    CHECK(std::abs(dot(eval(Op::kAveragePoolGrad, {dy}, a), x) - dot(dy, y)) < 1e-12);
  }
}

TEST_CASE("Interpolate weighs taps along one axis") {
  const InterpolateAttrs a{
      1, 3, 4, 2, {0, 0, 0, 1, 1, 2, 2, 2}, {1, 0, 0.25, 0.75, 0.5, 0.5, 1, 0}};
  const Tensor x = tensor<double>({0, 4, 8, 1, kInf, 3}, {2, 3});
  check_close(eval(Op::kInterpolate, {x}, a), {0, 3, 6, 8, 1, kInf, kInf, 3});
  const Tensor z = noise({2, 3, 70}, 1), y = eval(Op::kInterpolate, {z}, a);
  REQUIRE(y.shape() == Shape{2, 4, 70});
  const Tensor dy = noise(y.shape(), 2);
  CHECK(std::abs(dot(eval(Op::kInterpolateGrad, {dy}, a), z) - dot(dy, y)) < 1e-12);
}

}  // namespace
}  // namespace trainrt::testing
