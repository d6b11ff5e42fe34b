#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

TEST_CASE("Softmax and LogSoftmax are stable") {
  const Tensor x = tensor<double>({1000, 1000, -1000, 0, std::log(3.0), -kInf}, {2, 3});
  check_close(eval(Op::kSoftmax, {x}, AxisAttrs{1}), {0.5, 0.5, 0, 0.25, 0.75, 0});
  check_close(eval(Op::kLogSoftmax, {x}, AxisAttrs{1}),
              {-std::log(2.0), -std::log(2.0), -2000 - std::log(2.0), std::log(0.25),
               std::log(0.75), -kInf});
  const Tensor dead = vec<double>({-kInf, -kInf});
  check_close(eval(Op::kSoftmax, {dead}, AxisAttrs{0}), {kNaN, kNaN});
  check_close(eval(Op::kLogSoftmax, {dead}, AxisAttrs{0}), {kNaN, kNaN});
  CHECK(eval(Op::kSoftmax, {Tensor(DType::kFloat64, {2, 0})}, AxisAttrs{1}).size() == 0);
}

TEST_CASE("Softmax along an inner axis") {
  const Tensor x = noise({2, 3, 4}, 1), y = eval(Op::kSoftmax, {x}, AxisAttrs{1});
  for (size_t o = 0; o < 2; ++o)
    for (size_t j = 0; j < 4; ++j) {
      double sum = 0;
      for (size_t i = 0; i < 3; ++i) sum += std::exp(x.data<double>()[(o * 3 + i) * 4 + j]);
      for (size_t i = 0; i < 3; ++i) {
        const size_t at = (o * 3 + i) * 4 + j;
        CHECK(std::abs(y.data<double>()[at] - std::exp(x.data<double>()[at]) / sum) < 1e-14);
      }
    }
}

TEST_CASE("gradients of Softmax and LogSoftmax by differences") {
  const Tensor x = noise({2, 3, 2}, 1), dy = noise({2, 3, 2}, 2);
  for (int64_t axis : {0, 1, 2}) {
    const AxisAttrs a{axis};
    for (auto [forward, backward] : {std::pair{Op::kSoftmax, Op::kSoftmaxGrad},
                                     std::pair{Op::kLogSoftmax, Op::kLogSoftmaxGrad}}) {
      const auto f = [&](const Tensor& t) { return eval(forward, {t}, a); };
      check_gradient(x, dy, eval(backward, {dy, f(x)}, a), f);
    }
  }
}

TEST_CASE("LayerNorm gives y, mean and 1/sd") {
  const Tensor x = tensor<double>({1, 3, 2, 6}, {2, 2});
  const auto y =
      eval_all(Op::kLayerNorm, {x, vec<double>({1, 2}), vec<double>({0, 10})}, NormAttrs{1, 0});
  check_close(y[0], {-1, 12, -1, 12});
  check_close(y[1], {2, 4});
  check_close(y[2], {1, 0.5});
  CHECK(y[1].shape() == Shape{2, 1});
  check_close(eval(Op::kLayerNorm, {x}, NormAttrs{1, 3}),
              {-0.5, 0.5, -2 / std::sqrt(7.0), 2 / std::sqrt(7.0)});
  check_close(eval(Op::kLayerNorm, {counting({2, 1, 2})}, NormAttrs{0, 0}),
              {-3 / std::sqrt(5.0), -1 / std::sqrt(5.0), 1 / std::sqrt(5.0), 3 / std::sqrt(5.0)});
}

TEST_CASE("LayerNorm keeps small variances beside large means") {
  const Tensor x = vec<float>({100000, 100001, 100002, 100003});
  check_close(eval(Op::kLayerNorm, {x}, NormAttrs{0, 0}),
              {-3 / std::sqrt(5.0), -1 / std::sqrt(5.0), 1 / std::sqrt(5.0), 3 / std::sqrt(5.0)},
              1e-6);
}

TEST_CASE("LayerNormGrad by differences") {
  const NormAttrs a{1, 1e-3};
  const Tensor x = noise({3, 2, 4}, 1), scale = noise({2, 4}, 2), bias = noise({2, 4}, 3);
  const Tensor dy = noise({3, 2, 4}, 4);
  const auto y = eval_all(Op::kLayerNorm, {x, scale, bias}, a);
  const auto grads = eval_all(Op::kLayerNormGrad, {dy, x, y[1], y[2], scale}, a);
  check_gradient(x, dy, grads[0], [&](const Tensor& t) {
    return eval(Op::kLayerNorm, {t, scale, bias}, a);
  });
  check_gradient(scale, dy, grads[1], [&](const Tensor& t) {
    return eval(Op::kLayerNorm, {x, t, bias}, a);
  });
  check_gradient(bias, dy, grads[2], [&](const Tensor& t) {
    return eval(Op::kLayerNorm, {x, scale, t}, a);
  });
  const auto plain = eval_all(Op::kLayerNormGrad, {dy, x, y[1], y[2]}, a);
  REQUIRE(plain.size() == 1);
  check_gradient(x, dy, plain[0], [&](const Tensor& t) { return eval(Op::kLayerNorm, {t}, a); });
}

TEST_CASE("BatchNorm gives y, batch mean and population variance") {
  const Tensor x = tensor<double>({1, 2, 10, 10, 3, 4, 10, 10}, {2, 2, 2});
  const auto y =
      eval_all(Op::kBatchNorm, {x, vec<double>({2, 1}), vec<double>({0, 5})}, NormAttrs{1, 0.75});
  check_close(y[1], {2.5, 10});
  check_close(y[2], {1.25, 0});
  const double f = std::sqrt(2.0);
  check_close(y[0], {-1.5 * f, -0.5 * f, 5, 5, 0.5 * f, 1.5 * f, 5, 5});
}

TEST_CASE("BatchNormGrad by differences") {
  const NormAttrs a{1, 1e-3};
  const Tensor x = noise({3, 2, 2}, 1), scale = noise({2}, 2), bias = noise({2}, 3);
  const Tensor dy = noise({3, 2, 2}, 4);
  const auto y = eval_all(Op::kBatchNorm, {x, scale, bias}, a);
  const auto grads = eval_all(Op::kBatchNormGrad, {dy, x, scale, y[1], y[2]}, a);
  check_gradient(x, dy, grads[0], [&](const Tensor& t) {
    return eval(Op::kBatchNorm, {t, scale, bias}, a);
  });
  check_gradient(scale, dy, grads[1], [&](const Tensor& t) {
    return eval(Op::kBatchNorm, {x, t, bias}, a);
  });
  check_gradient(bias, dy, grads[2], [&](const Tensor& t) {
    return eval(Op::kBatchNorm, {x, scale, t}, a);
  });
}

NormConvAttrs norm_conv(Activation activation) {
  ConvAttrs conv;
  conv.strides = {2, 1};
  conv.dilations = {1, 1};
  conv.pads_begin = {1, 0};
  conv.pads_end = {0, 1};
  conv.group = 2;
  return {{1, 1e-3, activation, -0.25, 0.75}, conv};
}

TEST_CASE("NormConv is BatchNorm, then Conv") {
  const NormConvAttrs a = norm_conv(Activation::kClip);
  const Tensor x = noise({2, 2, 4, 5}, 1), scale = noise({2}, 2), bias = noise({2}, 3);
  const Tensor w = noise({4, 1, 3, 2}, 4);
  const auto fused = eval_all(Op::kNormConv, {x, scale, bias, w}, a);
  const auto norm = eval_all(Op::kBatchNorm, {x, scale, bias}, a.norm());
  check_close(fused[0], eval(Op::kConv, {norm[0], w}, a.conv()));
  check_close(fused[1], norm[1]);
  check_close(fused[2], norm[2]);
}

TEST_CASE("NormConvGrad by differences") {
  for (const Activation activation : {Activation::kNone, Activation::kClip}) {
    const NormConvAttrs a = norm_conv(activation);
    const Tensor x = noise({2, 2, 4, 5}, 1), scale = noise({2}, 2), bias = noise({2}, 3);
    const Tensor w = noise({4, 1, 3, 2}, 4);
    const auto z = eval_all(Op::kNormConv, {x, scale, bias, w}, a);
    const Tensor dz = noise(z[0].shape(), 5);
    const auto grads = eval_all(Op::kNormConvGrad, {dz, x, scale, bias, z[1], z[2], w}, a);
    check_gradient(x, dz, grads[0], [&](const Tensor& t) {
      return eval_all(Op::kNormConv, {t, scale, bias, w}, a)[0];
    });
    check_gradient(scale, dz, grads[1], [&](const Tensor& t) {
      return eval_all(Op::kNormConv, {x, t, bias, w}, a)[0];
    });
    check_gradient(bias, dz, grads[2], [&](const Tensor& t) {
      return eval_all(Op::kNormConv, {x, scale, t, w}, a)[0];
    });
    check_gradient(w, dz, grads[3], [&](const Tensor& t) {
      return eval_all(Op::kNormConv, {x, scale, bias, t}, a)[0];
    });
  }
}

TEST_CASE("CrossEntropy: values, ignored positions, large logits") {
  const Tensor x = tensor<double>({0, std::log(3.0), 5000, 0, 1, 1}, {3, 2});
  const Tensor t = vec<int64_t>({1, 1, -100});
  check_close(eval(Op::kCrossEntropy, {x, t}, LossAttrs{}), {-std::log(0.75), 5000, 0});
  const Tensor dloss = vec<double>({2, 1, 7});
  check_close(eval(Op::kCrossEntropyGrad, {dloss, x, t}, LossAttrs{}), {0.5, -0.5, 1, -1, 0, 0});
  check_close(eval(Op::kCrossEntropy, {x, vec<int32_t>({0, 0, 1})}, LossAttrs{1, 1, {}}),
              {-std::log(0.25), 0, 0});
}

TEST_CASE("CrossEntropyGrad and NllLossGrad by differences, classes in the middle") {
  const LossAttrs a{1, 2, {}};
  const Tensor x = noise({2, 3, 2}, 1), dloss = noise({2, 2}, 2);
  const Tensor t = tensor<int64_t>({0, 1, 2, 1}, {2, 2});
  check_gradient(x, dloss, eval(Op::kCrossEntropyGrad, {dloss, x, t}, a), [&](const Tensor& v) {
    return eval(Op::kCrossEntropy, {v, t}, a);
  });
  check_gradient(x, dloss, eval(Op::kNllLossGrad, {dloss, t}, LossAttrs{1, 2, {2, 3, 2}}),
                 [&](const Tensor& v) {
                   return eval(Op::kNllLoss, {v, t}, a);
                 });
}

TEST_CASE("NllLoss takes the negative log-probability") {
  const Tensor x = tensor<double>({-1, -2, -3, -4}, {2, 2});
  check_close(eval(Op::kNllLoss, {x, vec<int64_t>({1, 0})}, LossAttrs{}), {2, 3});
  check_close(eval(Op::kNllLoss, {x, vec<int64_t>({-100, 0})}, LossAttrs{}), {0, 3});
}

TEST_CASE("a target that is no class is named with the number of classes") {
  const Tensor x = counting({2, 3});
  for (int64_t bad : {int64_t{3}, int64_t{-1}}) {
    const Tensor t = vec<int64_t>({0, bad}), d = vec<double>({1, 1});
    const std::string text = message_of([&] { eval(Op::kCrossEntropy, {x, t}, LossAttrs{}); });
    CHECK(text.find("target " + std::to_string(bad)) != std::string::npos);
    CHECK(text.find("3 classes") != std::string::npos);
    CHECK_THROWS_AS(eval(Op::kCrossEntropyGrad, {d, x, t}, LossAttrs{}), Error);
    CHECK_THROWS_AS(eval(Op::kNllLoss, {x, t}, LossAttrs{}), Error);
    CHECK_THROWS_AS(eval(Op::kNllLossGrad, {d, t}, LossAttrs{1, -100, {2, 3}}), Error);
  }
}

}  // namespace
}  // namespace trainrt::testing
