#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/gradient_check.h"

namespace trainrt {
namespace {

OneNode node(std::string op) { return OneNode(std::move(op), 1, "com.microsoft"); }

TEST_CASE("the Gelu family") {
  const double exact = 0.5 * (1 + std::erf(std::sqrt(0.5)));
  const double fast = 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * 1.044715));
  CHECK_SAME(node("Gelu").input(reals({0, 1})).y(), reals({0, exact}));
  CHECK_SAME(node("BiasGelu").input(reals({-1, 0})).input(reals({1})).y(), reals({0, exact}));
  CHECK_SAME(node("FastGelu").input(reals({1})).y(), reals({fast}));
  CHECK_SAME(node("FastGelu").input(reals({0})).input(reals({1})).y(), reals({fast}));
  CHECK_SAME(node("QuickGelu").attr("alpha", 1.0).input(reals({0, 1})).y(),
             reals({0, 1 / (1 + std::exp(-1.0))}));
}

TEST_CASE("SkipLayerNormalization gives the sum as its fourth output") {
  const auto y = node("SkipLayerNormalization")
                     .attr("epsilon", 0.0)
                     .input(reals({0, 1}, {1, 2}))
                     .input(reals({1, 1}, {1, 2}))
                     .input(reals({1, 2}))
                     .input(reals({0, 1}))
                     .input(reals({0, 1}))
                     .outputs(4)
                     .run();
  CHECK_SAME(y[0], reals({-1, 3}, {1, 2}));
  CHECK_SAME(y[1], reals({2}, {1, 1}));
  CHECK_SAME(y[2], reals({1}, {1, 1}));
  CHECK_SAME(y[3], reals({1, 3}, {1, 2}));
}

TEST_CASE("SkipSimplifiedLayerNormalization divides by the root mean square") {
  const double rms = std::sqrt(12.5);
  CHECK_SAME(node("SkipSimplifiedLayerNormalization")
                 .attr("epsilon", 0.0)
                 .input(reals({1, 1}, {1, 2}))
                 .input(reals({1, 2}, {1, 2}))
                 .input(reals({1, 2}))
                 .input(reals({1, 1}))
                 .y(),
             reals({3 / rms, 8 / rms}, {1, 2}));
}

TEST_CASE("EmbedLayerNormalization adds three embeddings") {
  const auto y = node("EmbedLayerNormalization")
                     .attr("epsilon", 0.0)
                     .input(ints({1}, {1, 1}))
                     .input(ints({0}, {1, 1}))
                     .input(reals({0, 0, 1, 2}, {2, 2}))
                     .input(reals({1, 1}, {1, 2}))
                     .input(reals({0, 3}, {1, 2}))
                     .input(reals({1, 1}))
                     .input(reals({0, 1}))
                     .input(ints({1}, {1, 1}).to(DType::kInt32))
                     .outputs(3)
                     .run();
  CHECK_SAME(y[0], reals({-1, 2}, {1, 1, 2}));
  CHECK_SAME(y[1], ints({1}).to(DType::kInt32));
  CHECK_SAME(y[2], reals({2, 6}, {1, 1, 2}));
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("gated activations") {
  CHECK_SAME(node("ScaledSiLU").attr("alpha", 2.0).input(reals({1})).y(), reals({2 * sigma(2)}));
  CHECK_SAME(node("ScaledSiLU").input(reals({1})).input(real(3)).y(), reals({3 * sigma(3)}));
  CHECK_SAME(node("BiasSplitGelu").input(reals({3, 1}, {1, 1, 2})).input(reals({1, -1})).y(),
             reals({0}, {1, 1, 1}));
  CHECK(node("BiasSplitGelu").input(reals({3}, {1, 1, 1})).input(reals({1})).refusal() ==
        "invalid");
  CHECK_SAME(node("SwiGLU")
                 .attr("limit", 1.0)
                 .attr("activation_beta", 1.0)
                 .input(reals({5, -5}, {1, 2}))
                 .y(),
             reals({0}, {1, 1}));
  CHECK_SAME(node("GatedAdd")
                 .input(reals({1, 2}, {1, 2}))
                 .input(reals({3, 4}, {1, 2}))
                 .input(reals({2}, {1, 1}))
                 .y(),
             reals({7, 10}, {1, 2}));
  CHECK_SAME(node("GatedAdd")
                 .input(reals({1}, {1, 1}))
                 .input(reals({4}, {1, 1}))
                 .input(reals({2}, {1, 1}))
                 .input(reals({0}, {1, 1}))
                 .y(),
             reals({3}, {1, 1}));
}

TEST_CASE("biases that are fused in") {
  CHECK_SAME(node("BiasAdd")
                 .input(reals({1, 2}, {1, 1, 2}))
                 .input(reals({3, 4}))
                 .input(reals({5, 6}, {1, 1, 2}))
                 .y(),
             reals({9, 12}, {1, 1, 2}));
  CHECK_SAME(node("BiasSoftmax")
                 .attr("axis", 1)
                 .attr("is_inner_broadcast", 1)
                 .input(Tensor(DType::kFloat64, {1, 2, 2}))
                 .input(reals({5}, {1}))
                 .y(),
             reals({0.25, 0.25, 0.25, 0.25}, {1, 2, 2}));
  OneNode dropout = node("BiasDropout").input(reals({1})).input(reals({2})).input(reals({3}));
  dropout.options.training = false;
  CHECK_SAME(dropout.y(), reals({6}));
}

TEST_CASE("GroupNorm and SkipGroupNorm, channels last or second") {
  const Tensor x = reals({-1, 1, 3, 7}, {1, 1, 2, 2});  // last: channels (-1, 3) and (1, 7)
  const auto norm = [](const char* op, int64_t last) {
    OneNode n = node(op).attr("groups", 2).attr("epsilon", 0.0).attr("activation", 0);
    return n.attr("channels_last", AttrValue(last));
  };
  CHECK_SAME(norm("GroupNorm", 1).input(x).input(reals({1, 2})).input(reals({0, 1})).y(),
             reals({-1, -1, 1, 3}, {1, 1, 2, 2}));
  CHECK_SAME(norm("GroupNorm", 0)
                 .input(reals({-1, 1, 3, 7}, {1, 2, 1, 2}))
                 .input(reals({1, 2}))
                 .input(reals({0, 1}))
                 .y(),
             reals({-1, 1, -1, 3}, {1, 2, 1, 2}));
  const auto y = norm("SkipGroupNorm", 1)
                     .input(x)
                     .input(reals({1, 2}))
                     .input(reals({0, 1}))
                     .input(reals({10, 20}, {1, 2}))
                     .outputs(2)
                     .run();
  CHECK_SAME(y[0], reals({-1, -1, 1, 3}, {1, 1, 2, 2}));
  CHECK_SAME(y[1], reals({9, 21, 13, 27}, {1, 1, 2, 2}));
  CHECK(norm("GroupNorm", 1)
            .attr("groups", 0)
            .input(x)
            .input(reals({1, 2}))
            .input(reals({0, 1}))
            .refusal() == "invalid");
  const auto silu = [](std::span<const Tensor> v) {
    OneNode n = node("SkipGroupNorm").attr("groups", 2).attr("activation", 1).outputs(2);
    for (const Tensor& t : v) n.input(t);
    return n;
  };
  CHECK(gradient_error(silu,
                       {random_reals({2, 2, 3, 4}, 1), random_reals({4}, 2), random_reals({4}, 3),
                        random_reals({2, 4}, 4), random_reals({4}, 5)}) < 1e-6);
}

TEST_CASE("GatedRMSNorm normalises rows as long as its scale") {
  const auto make = [](std::span<const Tensor> v) {
    return node("GatedRMSNorm").attr("epsilon", 0.0).input(v[0]).input(v[1]).input(v[2]);
  };
  const std::vector<Tensor> x = {reals({3, 3, 5, 5}, {1, 4}), reals({1, 2}),
                                 reals({1, 1, 1, 0}, {1, 4})};
  const double s = sigma(1);
  CHECK_SAME(make(x).y(), reals({s, 2 * s, s, 0}, {1, 4}));
  CHECK(gradient_error(
            make, {random_reals({2, 4}, 1), random_reals({2}, 2), random_reals({2, 4}, 3)}) < 1e-7);
}

TEST_CASE("Inverse, with zeros on the diagonal") {
  const auto make = [](std::span<const Tensor> v) { return node("Inverse").input(v[0]); };
  CHECK_SAME(node("Inverse").input(reals({0, 2, 1, 0}, {2, 2})).y(), reals({0, 1, 0.5, 0}, {2, 2}));
  CHECK_SAME(node("Inverse").input(reals({4}, {1, 1})).y(), reals({0.25}, {1, 1}));
  CHECK(gradient_error(make, {random_reals({2, 3, 3}, 3)}) < 1e-6);
  CHECK(node("Inverse").input(reals({1, 2}, {1, 2})).refusal() == "invalid");
  CHECK(node("Inverse").input(Tensor(DType::kFloat64, {0, 2, 2})).y().shape() == Shape{0, 2, 2});
}

TEST_CASE("CDist has no gradient where rows meet") {
  const Tensor a = reals({0, 0, 3, 4}, {2, 2}), b = reals({0, 0}, {1, 2});
  OneNode n = node("CDist").attr("metric", "euclidean").input(a).input(b);
  CHECK_SAME(n.y(), reals({0, 5}, {2, 1}));
  CHECK_SAME(n.gradient(0, reals({1, 1}, {2, 1})), reals({0, 0, 0.6, 0.8}, {2, 2}));
  CHECK_SAME(node("CDist").input(a).input(b).y(), reals({0, 25}, {2, 1}));
  CHECK(node("CDist").attr("metric", "cosine").input(a).input(b).refusal() == "no_lowering");
}

TEST_CASE("IsAllFinite looks at all of its inputs") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto answer = [](Tensor x, const char* only = "") {
    OneNode n = node("IsAllFinite").input(reals({1, 2})).input(std::move(x));
    if (*only != 0) n.attr(only, 1);
    return n.y().to_ints()[0] != 0;
  };
  CHECK(answer(reals({0})));
  CHECK_FALSE(answer(reals({-inf})));
  CHECK_FALSE(answer(reals({NAN})));
  CHECK(answer(reals({NAN}), "isinf_only"));
  CHECK(answer(reals({inf}), "isnan_only"));
}

TEST_CASE("small relatives of ONNX's operators") {
  CHECK_SAME(node("ExpandDims").input(reals({1, 2})).constant(ints({-1})).y(),
             reals({1, 2}, {2, 1}));
  CHECK_SAME(node("UnfoldTensor").attr("size", 2).input(reals({1, 2, 3})).y(),
             reals({1, 2, 2, 3}, {2, 2}));
  CHECK(node("UnfoldTensor").attr("size", 4).input(reals({1, 2, 3})).refusal() == "invalid");
  CHECK_SAME(node("Pad")
                 .input(reals({1}, {1, 1}))
                 .constant(ints({0, 1, 0, 0}, {1, 4}))
                 .constant(reals({5}))
                 .y(),
             reals({5, 1}, {1, 2}));
  CHECK_SAME(node("Range").constant(reals({1})).constant(reals({3})).y(), reals({1, 2}));
  CHECK_SAME(node("GatherND").input(reals({1, 2})).input(ints({1}, {1, 1})).y(), reals({2}));
  CHECK_SAME(node("DequantizeLinear")
                 .constant(ints({3}).to(DType::kUInt8))
                 .constant(real(0.5))
                 .constant(ints({1}, {}).to(DType::kUInt8))
                 .y(),
             reals({1}));
  CHECK_SAME(node("QuantizeLinear")
                 .input(reals({1}))
                 .constant(real(0.5))
                 .constant(ints({1}, {}).to(DType::kUInt8))
                 .y(),
             ints({3}).to(DType::kUInt8));
  OneNode embedding = node("TorchEmbedding")
                          .input(reals({1, 2}, {2, 1}))
                          .input(ints({0, 1}))
                          .constant(ints({1}, {}));
  CHECK_SAME(embedding.y(), reals({1, 2}, {2, 1}));
  CHECK_SAME(embedding.gradient(0, reals({5, 7}, {2, 1})), reals({5, 0}, {2, 1}));
  CHECK_SAME(node("SoftmaxCrossEntropyLossInternal")
                 .input(Tensor(DType::kFloat64, {2, 2}))
                 .input(ints({0, 9}))
                 .absent()
                 .constant(ints({9}, {}))
                 .y(),
             real(std::log(2)));
}

}  // namespace
}  // namespace trainrt
