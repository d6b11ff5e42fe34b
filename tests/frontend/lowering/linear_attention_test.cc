#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/gradient_check.h"

namespace trainrt {
namespace {

struct Form {
  std::string rule;
  int64_t batch, tokens, query_heads, heads, key, value;
  bool wide = false;      // a decay for each dim of the keys
  bool one_beta = false;  // shared by the heads
  bool state = true;
  int64_t chunk = 64;

  bool gated() const { return rule == "gated" || rule == "gated_delta"; }
  bool delta() const { return rule == "delta" || rule == "gated_delta"; }
};

std::vector<Tensor> inputs_of(const Form& f) {
  std::vector<Tensor> x = {random_reals({f.batch, f.tokens, f.query_heads * f.key}, 1),
                           random_reals({f.batch, f.tokens, f.heads * f.key}, 2),
                           random_reals({f.batch, f.tokens, f.heads * f.value}, 3)};
  if (f.state) x.push_back(random_reals({f.batch, f.heads, f.key, f.value}, 4));
  if (f.gated()) {
    x.push_back(random_reals({f.batch, f.tokens, f.heads * (f.wide ? f.key : 1)}, 5, -1, 0));
  }
  if (f.delta()) x.push_back(random_reals({f.batch, f.tokens, f.one_beta ? 1 : f.heads}, 6, 0, 1));
  return x;
}

OneNode make(const Form& f, std::span<const Tensor> x) {
  OneNode n("LinearAttention", 27);
  n.attr("q_num_heads", AttrValue(f.query_heads)).attr("kv_num_heads", AttrValue(f.heads));
  n.attr("chunk_size", AttrValue(f.chunk));
  n.attr("update_rule", f.rule).attr("scale", 0.5).outputs(2);
  size_t next = 0;
  for (int i = 0; i < 3; ++i) n.input(x[next++]);
  f.state ? n.input(x[next++]) : n.absent();
  f.gated() ? n.input(x[next++]) : n.absent();
  if (f.delta()) n.input(x[next]);
  return n;
}

// The recurrence, token by token.
std::vector<Tensor> by_token(const Form& f, std::span<const Tensor> x) {
  const int64_t group = f.query_heads / f.heads;
  Tensor y(DType::kFloat64, {f.batch, f.tokens, f.query_heads * f.value});
  Tensor state =
      f.state ? x[3].clone() : Tensor(DType::kFloat64, {f.batch, f.heads, f.key, f.value});
  const auto at = [](const Tensor& t, int64_t b, int64_t row, int64_t column) {
    return t.data<double>()[static_cast<size_t>((b * t.shape()[1] + row) * t.shape()[2] + column)];
  };
  const size_t gate = f.state ? 4 : 3, rate = gate + (f.gated() ? 1 : 0);
  for (int64_t b = 0; b < f.batch; ++b) {
    for (int64_t h = 0; h < f.heads; ++h) {
      double* s = &state.data<double>()[static_cast<size_t>((b * f.heads + h) * f.key * f.value)];
      for (int64_t t = 0; t < f.tokens; ++t) {
        for (int64_t i = 0; f.gated() && i < f.key; ++i) {
          const double g = at(x[gate], b, t, f.wide ? h * f.key + i : h);
          for (int64_t j = 0; j < f.value; ++j) s[i * f.value + j] *= std::exp(g);
        }
        for (int64_t j = 0; j < f.value; ++j) {
          double u = at(x[2], b, t, h * f.value + j);
          if (f.delta()) {
            for (int64_t i = 0; i < f.key; ++i)
              u -= s[i * f.value + j] * at(x[1], b, t, h * f.key + i);
            u *= at(x[rate], b, t, f.one_beta ? 0 : h);
          }
          for (int64_t i = 0; i < f.key; ++i)
            s[i * f.value + j] += at(x[1], b, t, h * f.key + i) * u;
          for (int64_t q = h * group; q < (h + 1) * group; ++q) {
            double sum = 0;
            for (int64_t i = 0; i < f.key; ++i)
              sum += s[i * f.value + j] * at(x[0], b, t, q * f.key + i);
            y.data<double>()[static_cast<size_t>((b * f.tokens + t) * y.shape()[2] + q * f.value +
                                                 j)] = 0.5 * sum;
          }
        }
      }
    }
  }
  return {y, state};
}

void check(const Form& f) {
  INFO(f.rule << ", " << f.tokens << " tokens, chunks of " << f.chunk << ", wide " << f.wide);
  const std::vector<Tensor> x = inputs_of(f), want = by_token(f, x), got = make(f, x).run();
  CHECK_SAME(got[0], want[0]);
  CHECK_SAME(got[1], want[1]);
  CHECK(gradient_error([&](std::span<const Tensor> v) { return make(f, v); }, x) < 1e-7);
}

TEST_CASE("LinearAttention is the recurrence, whatever the chunks") {
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    check({.rule = rule,
           .batch = 2,
           .tokens = 7,
           .query_heads = 4,
           .heads = 2,
           .key = 3,
           .value = 2,
           .chunk = 3});
    check({.rule = rule,
           .batch = 1,
           .tokens = 6,
           .query_heads = 2,
           .heads = 2,
           .key = 2,
           .value = 3,
           .one_beta = true,
           .state = false});
    check({.rule = rule,
           .batch = 1,
           .tokens = 1,
           .query_heads = 3,
           .heads = 1,
           .key = 2,
           .value = 2});
  }
}

TEST_CASE("LinearAttention with a decay for each dim of the keys") {
  for (const char* rule : {"gated", "gated_delta"}) {
    check({.rule = rule,
           .batch = 2,
           .tokens = 5,
           .query_heads = 4,
           .heads = 2,
           .key = 3,
           .value = 2,
           .wide = true,
           .chunk = 2});
  }
}

TEST_CASE("LinearAttention forgets everything at a decay of minus infinity") {
  Form f{.rule = "gated_delta",
         .batch = 1,
         .tokens = 4,
         .query_heads = 1,
         .heads = 1,
         .key = 2,
         .value = 2};
  std::vector<Tensor> x = inputs_of(f);
  x[4].data<double>()[2] = -std::numeric_limits<double>::infinity();
  CHECK_SAME(make(f, x).run()[0], by_token(f, x)[0]);
  const auto dx = make(f, x).gradients({{0, random_reals({1, 4, 2}, 9)}});
  for (const auto& [i, t] : dx) {
    for (double v : t.data<double>()) CHECK(std::isfinite(v));
  }
}

TEST_CASE("LinearAttention of no tokens hands the state on") {
  Form f{.rule = "linear",
         .batch = 1,
         .tokens = 0,
         .query_heads = 2,
         .heads = 1,
         .key = 2,
         .value = 3};
  const std::vector<Tensor> x = inputs_of(f), y = make(f, x).run();
  CHECK(y[0].shape() == Shape{1, 0, 6});
  CHECK_SAME(y[1], x[3]);
}

TEST_CASE("LinearAttention takes one value for query, key and value") {
  const Tensor x = random_reals({1, 5, 4}, 1);
  OneNode n("LinearAttention", 27);
  n.attr("q_num_heads", 2).attr("kv_num_heads", 2).attr("update_rule", "linear").outputs(2);
  for (int i = 0; i < 3; ++i) n.input(x);
  CHECK(n.run()[0].shape() == x.shape());
}

TEST_CASE("LinearAttention refuses what does not fit its rule") {
  Form f{.rule = "gated_delta",
         .batch = 1,
         .tokens = 2,
         .query_heads = 2,
         .heads = 2,
         .key = 2,
         .value = 2};
  const std::vector<Tensor> x = inputs_of(f);
  CHECK(make(f, x).refusal() == "");
  CHECK(make(f, x).attr("update_rule", "linear").refusal() == "invalid");
  CHECK(make(f, x).attr("update_rule", "other").refusal() == "invalid");
  CHECK(make(f, x).attr("kv_num_heads", 0).refusal() == "invalid");
  CHECK(make(f, x).attr("q_num_heads", 3).refusal() == "invalid");
  CHECK(make(f, x).attr("chunk_size", -5).refusal() == "");
  f.rule = "linear";
  CHECK(make(f, x).attr("update_rule", "gated").refusal() == "invalid");
}

OneNode conv(std::span<const Tensor> x, const char* activation) {
  OneNode n("CausalConvWithState", 27);
  n.attr("activation", activation).outputs(2);
  for (const Tensor& t : x) n.input(t);
  return n;
}

TEST_CASE("CausalConvWithState looks back into its state") {
  const Tensor w = reals({1, 10, 100}, {1, 1, 3}), x = reals({3, 4}, {1, 1, 2});
  OneNode n("CausalConvWithState", 27);
  n.input(x).input(w).absent().input(reals({1, 2}, {1, 1, 2})).outputs(2);
  const auto y = n.run();
  CHECK_SAME(y[0], reals({321, 432}, {1, 1, 2}));
  CHECK_SAME(y[1], reals({3, 4}, {1, 1, 2}));
  const auto fresh =
      OneNode("CausalConvWithState", 27).input(reals({3}, {1, 1, 1})).input(w).outputs(2).run();
  CHECK_SAME(fresh[0], reals({300}, {1, 1, 1}));
  CHECK_SAME(fresh[1], reals({0, 3}, {1, 1, 2}));
}

TEST_CASE("CausalConvWithState: activations and gradients") {
  const std::vector<Tensor> x = {random_reals({2, 3, 5}, 1), random_reals({3, 1, 4}, 2),
                                 random_reals({3}, 3), random_reals({2, 3, 3}, 4)};
  for (const char* activation : {"none", "silu", "swish"}) {
    CHECK(gradient_error([&](std::span<const Tensor> v) { return conv(v, activation); }, x) < 1e-7);
  }
  const double z = conv(x, "none").y().data<double>()[4];
  CHECK(std::abs(conv(x, "silu").y().data<double>()[4] - z / (1 + std::exp(-z))) < 1e-12);
}

TEST_CASE("CausalConvWithState: kernels of one, empty inputs, bad shapes") {
  const auto y = OneNode("CausalConvWithState", 27)
                     .input(reals({1, 2}, {1, 1, 2}))
                     .input(reals({3}, {1, 1, 1}))
                     .outputs(2)
                     .run();
  CHECK_SAME(y[0], reals({3, 6}, {1, 1, 2}));
  CHECK(y[1].shape() == Shape{1, 1, 0});
  const std::vector<Tensor> none = {Tensor(DType::kFloat64, {2, 3, 0}), random_reals({3, 1, 3}, 1),
                                    random_reals({3}, 1), random_reals({2, 3, 2}, 2)};
  CHECK(conv(none, "silu").run()[0].shape() == Shape{2, 3, 0});
  CHECK_SAME(conv(none, "silu").run()[1], none[3]);
  CHECK(conv(none, "relu").refusal() == "invalid");
  CHECK(conv(std::vector<Tensor>{none[0], random_reals({2, 1, 3}, 1)}, "none").refusal() ==
        "invalid");
}

}  // namespace
}  // namespace trainrt
