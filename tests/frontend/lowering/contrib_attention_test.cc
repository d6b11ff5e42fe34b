#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/gradient_check.h"

namespace trainrt {
namespace {

OneNode node(std::string op) { return OneNode(std::move(op), 1, "com.microsoft"); }

Tensor zeros(Shape shape) { return Tensor(DType::kFloat64, std::move(shape)); }

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

OneNode mha(std::span<const Tensor> x) {
  OneNode n = node("MultiHeadAttention").attr("num_heads", 2);
  for (const Tensor& t : x) t.defined() ? n.input(t) : n.absent();
  return n;
}

TEST_CASE("the gradients of attention") {
  const std::vector<Tensor> x = {random_reals({2, 3, 4}, 1), random_reals({2, 5, 4}, 2),
                                 random_reals({2, 5, 6}, 3), random_reals({14}, 4)};
  CHECK(gradient_error(mha, x) < 1e-7);
  const auto attention = [](std::span<const Tensor> v) {
    OneNode n = node("Attention").attr("num_heads", 2).attr("unidirectional", 1).outputs(2);
    n.input(v[0]).input(v[1]).input(v[2]).absent().input(v[3]);
    return n;
  };
  CHECK(gradient_error(attention, {random_reals({2, 3, 4}, 1), random_reals({4, 12}, 2),
                                   random_reals({12}, 3), random_reals({2, 2, 2, 1, 2}, 4)}) <
        1e-7);
}

TEST_CASE("Attention: past and present, ends and starts of keys") {
  const Tensor w = reals({0, 0, 1}, {1, 3}), x = reals({1, 3}, {1, 2, 1});
  const auto y = node("Attention")
                     .attr("num_heads", 1)
                     .attr("unidirectional", 1)
                     .input(x)
                     .input(w)
                     .absent()
                     .absent()
                     .input(reals({0, 5}, {2, 1, 1, 1, 1}))
                     .outputs(2)
                     .run();
  CHECK_SAME(y[0], reals({3, 3}, {1, 2, 1}));
  CHECK_SAME(y[1], reals({0, 0, 0, 5, 1, 3}, {2, 1, 1, 3, 1}));
  CHECK_SAME(node("Attention")
                 .attr("num_heads", 1)
                 .input(x)
                 .input(w)
                 .absent()
                 .input(ints({2, 1}).to(DType::kInt32))
                 .y(),
             reals({3, 3}, {1, 2, 1}));
  CHECK(node("Attention")
            .attr("num_heads", 1)
            .input(x)
            .input(w)
            .absent()
            .input(ints({0, 1, 2, 3, 4}).to(DType::kInt32))
            .refusal() == "no_lowering");
}

TEST_CASE("MultiHeadAttention: unidirectional, probabilities, what it refuses") {
  const Tensor q = zeros({1, 2, 1}), k = zeros({1, 2, 1}), v = reals({1, 3}, {1, 2, 1});
  OneNode n = node("MultiHeadAttention").attr("num_heads", 1).attr("unidirectional", 1);
  n.input(q).input(k).input(v).outputs(4);
  const auto y = n.run();
  CHECK_SAME(y[0], reals({1, 2}, {1, 2, 1}));
  CHECK_SAME(y[3], reals({1, 0, 0.5, 0.5}, {1, 1, 2, 2}));
  OneNode fewer = node("MultiHeadAttention").attr("num_heads", 1).attr("unidirectional", 1);
  CHECK(fewer.input(zeros({1, 1, 1})).input(k).input(v).refusal() == "no_lowering");
}

OneNode gqa(std::span<const Tensor> x, size_t extra = 0, Tensor value = {}) {
  OneNode n = node("GroupQueryAttention").attr("num_heads", 4).attr("kv_num_heads", 2);
  for (const Tensor& t : x) n.input(t);
  for (size_t i = x.size(); i < extra; ++i) n.absent();
  if (extra != 0) n.input(value);
  return n;
}

TEST_CASE("GroupQueryAttention: packed operands, windows, sinks, biases") {
  const std::vector<Tensor> x = {random_reals({1, 3, 8}, 1), random_reals({1, 3, 4}, 2),
                                 random_reals({1, 3, 4}, 3)};
  const Tensor y = gqa(x).y();
  Tensor packed(DType::kFloat64, {1, 3, 16});
  for (size_t t = 0; t < 3; ++t) {
    for (size_t i = 0; i < 16; ++i) {
      packed.data<double>()[t * 16 + i] = i < 8    ? x[0].data<double>()[t * 8 + i]
                                          : i < 12 ? x[1].data<double>()[t * 4 + i - 8]
                                                   : x[2].data<double>()[t * 4 + i - 12];
    }
  }
  CHECK_SAME(gqa(std::vector{packed}).y(), y);
  CHECK_SAME(gqa(x).attr("local_window_size", 3).y(), y);
  // A window of one key gives that key's value.
  const Tensor one = gqa(x).attr("local_window_size", 1).y();
  CHECK(one.data<double>()[8 + 2] == x[2].data<double>()[4 + 0]);
  // A sink of score 0 halves a lone key of score 0.
  const Tensor zero_q = zeros({1, 3, 8});
  OneNode sink = gqa(std::vector{zero_q, x[1], x[2]}, 11, zeros({4}));
  CHECK(std::abs(sink.y().data<double>()[0] - x[2].data<double>()[0] / 2) < 1e-12);
  CHECK_SAME(gqa(std::vector{zero_q, x[1], x[2]}).attr("smooth_softmax", 1).y(), sink.y());
  const auto with_sink = [](std::span<const Tensor> v) {
    return gqa(v.first(3), 11, v[3]).attr("softcap", 2.0);
  };
  CHECK(gradient_error(with_sink, {x[0], x[1], x[2], random_reals({4}, 4)}) < 1e-7);
  const auto with_bias = [](std::span<const Tensor> v) { return gqa(v.first(3), 10, v[3]); };
  CHECK(gradient_error(with_bias, {x[0], x[1], x[2], random_reals({1, 1, 3, 3}, 4)}) < 1e-7);
}

TEST_CASE("GroupQueryAttention: norms and rotary embedding before the scores") {
  const std::vector<Tensor> x = {random_reals({1, 3, 16}, 1), random_reals({1, 3, 8}, 2),
                                 random_reals({1, 3, 8}, 3)};
  const auto normed = [](std::span<const Tensor> v) {
    OneNode n = gqa(v.first(3), 14, v[3]);
    return n.input(v[4]);
  };
  CHECK(gradient_error(normed, {x[0], x[1], x[2], random_reals({4}, 4), random_reals({4}, 5)}) <
        1e-7);
  const auto rotary = [](std::span<const Tensor> v) {
    OneNode n = gqa(v.first(3), 7, v[3]).attr("do_rotary", 1);
    return n.input(v[4]).input(ints({1, 2, 3}, {1, 3}));
  };
  CHECK(gradient_error(
            rotary, {x[0], x[1], x[2], random_reals({5, 2}, 4), random_reals({5, 2}, 5)}) < 1e-7);
  CHECK(gqa(x, 3, zeros({1, 2, 1, 4})).refusal() == "no_lowering");
}

TEST_CASE("GemmaRotaryEmbedding") {
  const Tensor angle = reals({M_PI / 2}, {1, 1, 1}), one = reals({3}, {1, 1, 1, 1}),
               two = reals({5}, {1, 1, 1, 1});
  const auto y = node("GemmaRotaryEmbedding")
                     .input(angle)
                     .input(one)
                     .input(two)
                     .input(two)
                     .input(one)
                     .outputs(2)
                     .run();
  CHECK_SAME(y[0], two);
  CHECK_SAME(y[1], one);
}

TEST_CASE("LinearAttention and CausalConvWithState are ONNX's, in their plain form") {
  const Tensor x = random_reals({1, 3, 2}, 1);
  const auto linear = [&](std::string domain, int64_t opset) {
    OneNode n("LinearAttention", opset, std::move(domain));
    n.attr("q_num_heads", 1).attr("kv_num_heads", 1).attr("update_rule", "linear").outputs(2);
    return n.input(x).input(x).input(x);
  };
  CHECK_SAME(linear("com.microsoft", 1).y(), linear("", 27).y());
  CHECK(linear("com.microsoft", 1).attr("state_window", 2).refusal() == "no_lowering");
  OneNode conv = node("CausalConvWithState").input(x).input(reals({1, 1, 1}, {3, 1, 1})).outputs(2);
  CHECK_SAME(conv.y(), x);
  CHECK(conv.attr("dilation", 2).refusal() == "no_lowering");
}

}  // namespace
}  // namespace trainrt
