#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/gradient_check.h"

namespace trainrt {
namespace {

// Zero queries attend evenly to all open keys, so that results are means of values.
OneNode attention(int64_t queries, Tensor values, int64_t opset = 24) {
  OneNode n("Attention", opset);
  const int64_t keys = values.shape()[2];
  n.input(Tensor(DType::kFloat64, {1, 1, queries, 2}))
      .input(Tensor(DType::kFloat64, {1, 1, keys, 2}));
  n.input(values);
  return n;
}

const Tensor kValues = reals({1, 2, 3, 6}, {1, 1, 4, 1});

TEST_CASE("without masks all keys are open") {
  CHECK_SAME(attention(1, kValues).y(), reals({3}, {1, 1, 1, 1}));
}

TEST_CASE("causal attention is aligned at the first key without a past") {
  CHECK_SAME(attention(3, kValues).attr("is_causal", 1).y(), reals({1, 1.5, 2}, {1, 1, 3, 1}));
}

TEST_CASE("the past shifts the causal diagonal, and presents are joined") {
  OneNode n = attention(2, reals({3, 6}, {1, 1, 2, 1})).attr("is_causal", 1).absent();
  n.input(Tensor(DType::kFloat64, {1, 1, 2, 2})).input(reals({1, 2}, {1, 1, 2, 1})).outputs(3);
  const auto y = n.run();
  CHECK_SAME(y[0], reals({2, 3}, {1, 1, 2, 1}));
  CHECK(y[1].shape() == Shape{1, 1, 4, 2});
  CHECK_SAME(y[2], kValues);
}

TEST_CASE("a past key without its value is refused") {
  OneNode n = attention(1, kValues).absent();
  n.input(Tensor(DType::kFloat64, {1, 1, 2, 2}));
  CHECK(n.refusal() == "invalid");
}

TEST_CASE("boolean and float masks, short ones closed at the end") {
  CHECK_SAME(attention(1, kValues).input(bools({true, false, true, false}, {1, 4})).y(),
             reals({2}, {1, 1, 1, 1}));
  CHECK_SAME(attention(1, kValues).input(bools({false, true}, {1, 2})).y(),
             reals({2}, {1, 1, 1, 1}));
  CHECK_SAME(attention(1, kValues).input(reals({0, std::log(3.0)}, {1, 2})).y(),
             reals({1.75}, {1, 1, 1, 1}));
}

TEST_CASE("a query without open keys gives 0 and no NaN gradient") {
  OneNode n = attention(2, kValues);
  n.input(bools({false, false, false, false, true, false, false, false}, {2, 4})).outputs(1);
  CHECK_SAME(n.y(), reals({0, 1}, {1, 1, 2, 1}));
  CHECK_SAME(n.gradient(2, reals({5, 7}, {1, 1, 2, 1})), reals({7, 0, 0, 0}, {1, 1, 4, 1}));
  CHECK_SAME(n.gradient(0, reals({5, 7}, {1, 1, 2, 1})), reals({0, 0, 0, 0}, {1, 1, 2, 2}));
}

TEST_CASE("lengths close the padding and align the causal diagonal at the end") {
  OneNode n = attention(2, kValues).absent().absent().absent();
  CHECK_SAME(n.input(ints({3})).y(), reals({2, 2}, {1, 1, 2, 1}));
  CHECK_SAME(n.attr("is_causal", 1).y(), reals({1.5, 2}, {1, 1, 2, 1}));
}

TEST_CASE("windows of opset 25") {
  CHECK_SAME(attention(4, kValues, 25).attr("left_window_size", 1).attr("right_window_size", 0).y(),
             reals({1, 1.5, 2.5, 4.5}, {1, 1, 4, 1}));
}

TEST_CASE("grouped heads share keys and values") {
  OneNode n("Attention", 23);
  n.attr("q_num_heads", 4).attr("kv_num_heads", 2);
  n.input(Tensor(DType::kFloat64, {1, 1, 4})).input(Tensor(DType::kFloat64, {1, 2, 2}));
  n.input(reals({1, 10, 3, 30}, {1, 2, 2}));
  CHECK_SAME(n.y(), reals({2, 2, 20, 20}, {1, 1, 4}));
}

TEST_CASE("scores come out at four stages") {
  const auto stage = [](int mode) {
    OneNode n("Attention", 23);
    n.attr("scale", 1.0).attr("softcap", 2.0).attr("qk_matmul_output_mode", mode).outputs(4);
    n.input(reals({1}, {1, 1, 1, 1})).input(reals({1, 3}, {1, 1, 2, 1}));
    n.input(reals({1, 2}, {1, 1, 2, 1})).input(reals({0, 1}, {1, 2}));
    return n.run()[3];
  };
  const double a = 2 * std::tanh(0.5), b = 2 * std::tanh(1.5), p = 1 / (1 + std::exp(b + 1 - a));
  CHECK_SAME(stage(0), reals({1, 3}, {1, 1, 1, 2}));
  CHECK_SAME(stage(1), reals({a, b}, {1, 1, 1, 2}));
  CHECK_SAME(stage(2), reals({a, b + 1}, {1, 1, 1, 2}));
  CHECK_SAME(stage(3), reals({p, 1 - p}, {1, 1, 1, 2}));
}

TEST_CASE("operands that do not fit together are refused") {
  OneNode n("Attention", 23);
  n.input(Tensor(DType::kFloat64, {1, 3, 2, 4})).input(Tensor(DType::kFloat64, {1, 2, 2, 4}));
  n.input(Tensor(DType::kFloat64, {1, 2, 2, 4}));
  CHECK(n.refusal() == "invalid");
  CHECK(attention(1, kValues).input(reals({0, 0, 0, 0, 0, 0, 0, 0}, {2, 1, 1, 4})).refusal() ==
        "invalid");
}

TEST_CASE("a scale of 0 counts, a softcap below 0 does not") {
  const auto node = [](const char* name, double value) {
    OneNode n("Attention", 24);
    n.input(reals({1}, {1, 1, 1, 1})).input(reals({0, 2}, {1, 1, 2, 1}));
    return n.input(reals({1, 3}, {1, 1, 2, 1})).attr(name, value).y();
  };
  CHECK_SAME(node("scale", 0), reals({2}, {1, 1, 1, 1}));
  CHECK_SAME(node("softcap", -1), node("softcap", 0));
}

TEST_CASE("lengths have one element a batch and exclude a past") {
  CHECK(attention(1, kValues).absent().absent().absent().input(ints({1, 2})).refusal() ==
        "invalid");
  OneNode n = attention(1, kValues).absent();
  n.input(Tensor(DType::kFloat64, {1, 1, 2, 2})).input(reals({1, 2}, {1, 1, 2, 1}));
  CHECK(n.input(ints({3})).refusal() == "invalid");
  CHECK(attention(1, kValues, 25).attr("left_window_size", -2).refusal() == "invalid");
}

TEST_CASE("no keys at all give 0") {
  OneNode n("Attention", 24);
  n.input(random_reals({1, 1, 2, 3}, 1)).input(Tensor(DType::kFloat64, {1, 1, 0, 3}));
  CHECK_SAME(n.input(Tensor(DType::kFloat64, {1, 1, 0, 1})).y(), reals({0, 0}, {1, 1, 2, 1}));
}

TEST_CASE("the gradients of attention") {
  const auto node = [](std::span<const Tensor> x) {
    OneNode n("Attention", 25);
    n.attr("is_causal", 1).attr("softcap", 2.0).attr("left_window_size", 3).outputs(4);
    n.attr("q_num_heads", 4).attr("kv_num_heads", 2).attr("qk_matmul_output_mode", 3);
    for (const Tensor& t : x) n.input(t);
    return n;
  };
  CHECK(gradient_error(node, {random_reals({2, 3, 8}, 1), random_reals({2, 3, 4}, 2),
                              random_reals({2, 3, 6}, 3), random_reals({4, 3, 5}, 4),
                              random_reals({2, 2, 2, 2}, 5), random_reals({2, 2, 2, 3}, 6)}) <
        1e-7);
}

TEST_CASE("one value as query, key and value") {
  const auto node = [](std::span<const Tensor> x) {
    return OneNode("Attention", 24).input(x[0]).input(x[1]).input(x[2]);
  };
  const Tensor x = random_reals({1, 2, 3, 2}, 1);
  CHECK(gradient_error(node, {x, x, x}) < 1e-7);
}

TEST_CASE("RotaryEmbedding turns pairs, leaves the rest") {
  const Tensor x = reals({1, 2, 3, 4, 5}, {1, 1, 1, 5}), zero = reals({0, 0}, {1, 1, 2});
  const Tensor one = reals({1, 1}, {1, 1, 2});
  const auto rotary = [&](int interleaved) {
    return OneNode("RotaryEmbedding", 23)
        .attr("interleaved", interleaved)
        .attr("rotary_embedding_dim", 4)
        .input(x)
        .input(zero)
        .input(one)
        .y();
  };
  CHECK_SAME(rotary(0), reals({-3, -4, 1, 2, 5}, {1, 1, 1, 5}));
  CHECK_SAME(rotary(1), reals({-2, 1, -4, 3, 5}, {1, 1, 1, 5}));
}

TEST_CASE("RotaryEmbedding looks positions up and takes flat heads") {
  OneNode n("RotaryEmbedding", 23);
  n.attr("num_heads", 2).input(reals({1, 2, 3, 4}, {1, 1, 4}));
  n.input(reals({1, 0}, {2, 1})).input(reals({0, 1}, {2, 1})).input(ints({1}, {1, 1}));
  CHECK_SAME(n.y(), reals({-2, 1, -4, 3}, {1, 1, 4}));
}

}  // namespace
}  // namespace trainrt
