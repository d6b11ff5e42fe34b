#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode node(std::string op) { return OneNode(std::move(op), 1, "com.microsoft"); }

Tensor zeros(Shape shape) { return Tensor(DType::kFloat64, std::move(shape)); }

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

TEST_CASE("FusedMatMul transposes and scales") {
  const Tensor a = reals({1, 2, 3, 4}, {2, 2}), b = reals({1, 0, 0, 2}, {2, 2});
  CHECK_SAME(node("FusedMatMul").attr("transA", 1).attr("alpha", 2.0).input(a).input(b).y(),
             reals({2, 12, 4, 16}, {2, 2}));
  CHECK_SAME(node("FusedMatMul").input(reals({1, 1})).input(a).y(), reals({4, 6}));
  CHECK(node("FusedMatMul").attr("transBatchA", 1).input(a).input(b).refusal() == "no_lowering");
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

TEST_CASE("Attention projects, masks and attends") {
  // Weights that give zero queries and keys, and the input as value.
  const Tensor w = reals({0, 0, 1}, {1, 3}), x = reals({1, 3}, {1, 2, 1});
  const auto attention = [&] { return node("Attention").attr("num_heads", 1).input(x).input(w); };
  CHECK_SAME(attention().y(), reals({2, 2}, {1, 2, 1}));
  CHECK_SAME(attention().attr("unidirectional", 1).y(), reals({1, 2}, {1, 2, 1}));
  CHECK_SAME(attention().absent().input(ints({1, 0}, {1, 2}).to(DType::kInt32)).y(),
             reals({1, 1}, {1, 2, 1}));
  CHECK_SAME(attention().absent().input(ints({1}).to(DType::kInt32)).y(), reals({1, 1}, {1, 2, 1}));
}

TEST_CASE("MultiHeadAttention takes packed keys and values, bias and past") {
  const Tensor q = zeros({1, 1, 2}), v = reals({1, 10, 3, 30}, {1, 2, 2});
  const auto mha = [&] { return node("MultiHeadAttention").attr("num_heads", 2).input(q); };
  CHECK_SAME(mha().input(zeros({1, 2, 2})).input(v).y(), reals({2, 20}, {1, 1, 2}));
  CHECK_SAME(mha().input(zeros({1, 2, 2})).input(v).input(reals({0, 0, 0, 0, 1, 2})).y(),
             reals({3, 22}, {1, 1, 2}));
  CHECK_SAME(mha().input(reals({0, 1, 0, 10, 0, 3, 0, 30}, {1, 2, 2, 2, 1})).y(),
             reals({2, 20}, {1, 1, 2}));
  CHECK_SAME(mha()
                 .input(zeros({1, 2, 2}))
                 .input(v)
                 .absent()
                 .absent()
                 .absent()
                 .input(zeros({1, 2, 1, 1}))
                 .input(reals({5, 50}, {1, 2, 1, 1}))
                 .y(),
             reals({3, 30}, {1, 1, 2}));
}

TEST_CASE("GroupQueryAttention is causal and shares keys") {
  OneNode n = node("GroupQueryAttention").attr("num_heads", 2).attr("kv_num_heads", 1);
  n.input(zeros({1, 2, 2})).input(zeros({1, 2, 1})).input(reals({1, 3}, {1, 2, 1}));
  CHECK_SAME(n.y(), reals({1, 1, 2, 2}, {1, 2, 2}));
}

TEST_CASE("RotaryEmbedding counts positions from one number") {
  const Tensor cosine = reals({1, 0}, {2, 1}), sine = reals({0, 1}, {2, 1});
  CHECK_SAME(node("RotaryEmbedding")
                 .input(reals({1, 2, 1, 2}, {1, 2, 2}))
                 .input(ints({0}))
                 .input(cosine)
                 .input(sine)
                 .y(),
             reals({1, 2, -2, 1}, {1, 2, 2}));
}

}  // namespace
}  // namespace trainrt
