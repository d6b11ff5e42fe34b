// Sequences and optionals of tensors: as inputs and outputs, through control flow, mapped.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <utility>

#include "tests/frontend/model_util.h"
#include "tests/support/failure.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<double> values(const Tensor& t) {
  const Tensor d = t.to(DType::kFloat64);
  const auto span = std::as_const(d).data<double>();
  return {span.begin(), span.end()};
}

const Tensor kA = doubles({1, 2}, {2}), kB = doubles({3, 4}, {2});

TEST_CASE("the entries of a sequence are inputs and outputs of their own") {
  const OnnxModel m =
      model_of(graph_text("g (seq(float[2]) s, float[2] x) => (seq(float[2]) t, int64 n)"
                          " { n = SequenceLength(s) t = SequenceInsert(s, x) }"));
  CHECK(m.inputs()[0].kind == PortKind::kSequence);
  CHECK(m.outputs()[0].kind == PortKind::kSequence);
  Tensors out = run(m, {{"s[0]", kA}, {"s[1]", kB}, {"x", kA}});
  CHECK(out.at("n").item() == 2);
  CHECK(values(out.at("t[1]")) == std::vector<double>{3, 4});
  CHECK(values(out.at("t[2]")) == std::vector<double>{1, 2});
  out = run(m, {{"x", kB}});
  CHECK(out.at("n").item() == 0);
  CHECK(out.size() == 2);
  CHECK(values(out.at("t[0]")) == std::vector<double>{3, 4});
}

TEST_CASE("a sequence has no gap, no name of its own and entries of its type") {
  const OnnxModel m =
      model_of(graph_text("g (seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }"));
  auto fault = [&](const Tensors& inputs) {
    return testing::failure([&] { lower(m, inputs); }, ErrorCode::kInput);
  };
  CHECK_THAT(fault({{"s[0]", kA}, {"s[2]", kB}}), ContainsSubstring("given s[2]"));
  CHECK_THAT(fault({{"s", kA}}), ContainsSubstring("called s[0], s[1]"));
  CHECK_THAT(fault({{"s[01]", kA}}), ContainsSubstring("given s[01]"));
  CHECK_THAT(fault({{"s[0]", doubles({1}, {1})}}),
             ContainsSubstring("input s[0]: expected float32[2]"));
}

TEST_CASE("an optional input may be left out") {
  const OnnxModel m = model_of(
      graph_text("g (optional(float[2]) o, float[2] x) => (float[2] y) { h = OptionalHasElement(o)"
                 " y = If (h) <then_branch = t () => (float[2] a) { a = OptionalGetElement(o) },"
                 " else_branch = e () => (float[2] b) { b = Neg(x) }> }",
                 18));
  CHECK(values(run(m, {{"o", kB}, {"x", kA}}).at("y")) == std::vector<double>{3, 4});
  CHECK(values(run(m, {{"x", kA}}).at("y")) == std::vector<double>{-1, -2});
}

TEST_CASE("an optional sequence without entries is empty") {
  const OnnxModel m = model_of(
      graph_text("g (optional(seq(float[2])) o) => (bool h) { h = OptionalHasElement(o) }", 18));
  CHECK(run(m, {}).at("h").item() == 0);
  CHECK(run(m, {{"o[0]", kA}}).at("h").item() == 1);
}

TEST_CASE("an empty optional as output is left out, its element refused") {
  const OnnxModel m = model_of(graph_text(
      "g (float[2] x) => (optional(float[2]) o, float[2] y) { o = Optional() y = Neg(x) }", 18));
  CHECK(run(m, {{"x", kA}}).size() == 1);
  const OnnxModel bad =
      model_of(graph_text("g () => (float[2] y) { o = Optional() y = OptionalGetElement(o) }", 18));
  CHECK_THAT(only_problem(bad, {}).reason, ContainsSubstring("empty"));
  const OnnxModel operand =
      model_of(graph_text("g () => (float[2] y) { o = Optional() y = Neg(o) }", 18));
  CHECK_THAT(only_problem(operand, {}).reason, ContainsSubstring("empty"));
}

TEST_CASE("a loop carries a sequence, a branch gives one") {
  const OnnxModel m = model_of(graph_text(
      "g (float[2] x) => (seq(float[2]) t) <int64 n = {2}, bool yes = {1}> { s = SequenceEmpty()"
      " u = Loop (n, , s) <body = b (int64 i, bool k, seq(float[2]) p) => (bool k2, seq(float[2]) "
      "q)"
      " { k2 = Identity(k) q = SequenceInsert(p, x) }>"
      " t = If (yes) <then_branch = a () => (seq(float[2]) v) { v = SequenceErase(u) },"
      " else_branch = e () => (seq(float[2]) w) { w = Identity(u) }> }"));
  const Tensors out = run(m, {{"x", kA}});
  CHECK(out.size() == 1);
  CHECK(values(out.at("t[0]")) == std::vector<double>{1, 2});
}

TEST_CASE("a loop cannot stack sequences") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x) => (float[2] t) <int64 n = {2}> {"
                 " t = Loop (n, ) <body = b (int64 i, bool k) => (bool k2, seq(float[2]) q)"
                 " { k2 = Identity(k) q = SequenceConstruct(x) }> }"));
  CHECK_THAT(only_problem(m, {{"x", kA}}).reason, ContainsSubstring("no tensor"));
}

const char* const kMap =
    "g (seq(float[2]) s, float[2] x) => (seq(float[2]) t) <float[2] w = {2, 3}>"
    "{ t = SequenceMap (s, x) <body = b (float[2] p, float[2] q) => (float[2] r)"
    " { a = Mul(p, w) r = Add(a, q) }> }";

TEST_CASE("SequenceMap calls its body for each entry; its weights are parameters") {
  const OnnxModel m = model_of(graph_text(kMap));
  REQUIRE(m.parameters().size() == 1);
  CHECK(m.parameters()[0].name == "w");
  const Tensors out = run(m, {{"s[0]", kA}, {"s[1]", kB}, {"x", kA}});
  CHECK(values(out.at("t[0]")) == std::vector<double>{3, 8});
  CHECK(values(out.at("t[1]")) == std::vector<double>{7, 14});
  CHECK(run(m, {{"x", kA}}).empty());
}

TEST_CASE("SequenceMap over sequences of different lengths is refused") {
  const OnnxModel m = model_of(
      graph_text("g (seq(float[2]) s, seq(float[2]) u) => (seq(float[2]) t)"
                 "{ t = SequenceMap (s, u) <body = b (float[2] p, float[2] q) => (float[2] r)"
                 " { r = Add(p, q) }> }"));
  CHECK_THAT(only_problem(m, {{"s[0]", kA}, {"s[1]", kA}, {"u[0]", kB}}).reason,
             ContainsSubstring("2 and 1 entries"));
}

const char* const kFlex =
    "<ir_version: 10, opset_import: [\"\" : 23, \"ai.onnx.preview\" : 1]>"
    "g (float[1,2,1,1] q, float[1,1,2,1] k, float[1,1,2,1] v) => (float[1,2,1,1] y)"
    " <float[1,1,1,2] bias = {0, 0.5}, float[1] half = {0.5}> {"
    " y = ai.onnx.preview.FlexAttention <scale: float = 2.0, score_mod = s (float[1,2,1,2] a) =>"
    " (float[1,2,1,2] b) { b = Add(a, bias) }, prob_mod = p (float[1,2,1,2] c) =>"
    " (float[1,2,1,2] d) { d = Mul(c, half) }> (q, k, v) }";

TEST_CASE("FlexAttention runs its subgraphs on scores and probabilities") {
  const OnnxModel m = model_of(kFlex);
  CHECK(m.parameters().size() == 2);
  // Head h: scores 2 q_h k_j + bias_j, that is (2, 2.5) and (0, 0.5).
  const Tensors out = run(m, {{"q", doubles({1, 0}, {1, 2, 1, 1})},
                              {"k", doubles({1, 1}, {1, 1, 2, 1})},
                              {"v", doubles({10, 20}, {1, 1, 2, 1})}});
  const double p = 1 / (1 + std::exp(0.5)), y = 0.5 * (10 * p + 20 * (1 - p));
  CHECK(max_difference(out.at("y"), doubles({y, y}, {1, 2, 1, 1})) < 1e-12);
}

TEST_CASE("FlexAttention: a query without an open key gives 0") {
  std::string text = kFlex;
  const std::string add = "b = Add(a, bias)";
  text.replace(text.find(add), add.size(), "z = Sub(bias, bias) l = Log(z) b = Add(a, l)");
  const Tensors out = run(model_of(text), {{"q", doubles({1, 0}, {1, 2, 1, 1})},
                                           {"k", doubles({1, 1}, {1, 1, 2, 1})},
                                           {"v", doubles({10, 20}, {1, 1, 2, 1})}});
  CHECK(values(out.at("y")) == std::vector<double>{0, 0});
}

}  // namespace
}  // namespace trainrt
