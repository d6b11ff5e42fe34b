// Local functions and their attributes.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string with_functions(const std::string& graph, const std::string& functions) {
  return "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n" + graph + functions;
}

std::string function(const std::string& body) {
  return "\n<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]>\n" + body;
}

TEST_CASE("a function is inlined, its attributes filled in") {
  const OnnxModel m = model_of(
      with_functions("g (float[2] x) => (float[2] y) { a = local.F<k: float = 0.5>(x)"
                     " y = local.F<k: float = 0.25>(a) }",
                     function("F <k> (v) => (w) { w = LeakyRelu<alpha: float = @k>(v) }")));
  const Tensor y = run(m, {{"x", doubles({-8, 3}, {2})}}).at("y");
  CHECK(y.data<double>()[0] == -1.0);
  CHECK(y.data<double>()[1] == 3.0);
  CHECK(m.op_counts().at("LeakyRelu") == 2);
}

TEST_CASE("an attribute that the caller leaves out takes the operator's default") {
  const OnnxModel m = model_of(
      with_functions("g (float[1] x) => (float[1] y) { y = local.F(x) }",
                     function("F <k> (v) => (w) { w = LeakyRelu<alpha: float = @k>(v) }")));
  const double y = run(m, {{"x", doubles({-1}, {1})}}).at("y").item();
  CHECK(std::abs(y + 0.01) < 1e-8);
}

TEST_CASE("functions call functions, and inner names do not clash with outer ones") {
  const OnnxModel m =
      model_of(with_functions("g (float[2] x) => (float[2] y) { t = Neg(x) y = local.Outer(t) }",
                              function("Outer (x) => (y) { t = local.Inner(x) y = Neg(t) }") +
                                  function("Inner (a) => (b) { t = Abs(a) b = Add(t, a) }")));
  const Tensor y = run(m, {{"x", doubles({-3, 2}, {2})}}).at("y");
  CHECK(y.data<double>()[0] == -6.0);
  CHECK(y.data<double>()[1] == 0.0);
}

TEST_CASE("an attribute reaches the innermost function") {
  const OnnxModel m = model_of(with_functions(
      "g (float[1] x) => (float[1] y) { y = local.Outer<k: float = 0.5>(x) }",
      function("Outer <k> (x) => (y) { y = local.Inner<alpha: float = @k>(x) }") +
          function("Inner <alpha> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }")));
  CHECK(run(m, {{"x", doubles({-4}, {1})}}).at("y").item() == -2.0);
}

TEST_CASE("an optional input of a function may be left out") {
  const OnnxModel m = model_of(with_functions("g (float[1] x) => (float[1] y) { y = local.F(x) }",
                                              function("F (a, low) => (b) { b = Clip(a, low) }")));
  CHECK(run(m, {{"x", doubles({-4}, {1})}}).at("y").item() == -4.0);
}

TEST_CASE("a function may hand an input through") {
  const OnnxModel m =
      model_of(with_functions("g (float[1] x) => (float[1] y) { a, b = local.F(x) y = Add(a, b) }",
                              function("F (v) => (v, w) { w = Neg(v) }")));
  CHECK(run(m, {{"x", doubles({7}, {1})}}).at("y").item() == 0.0);
}

TEST_CASE("a subgraph inside a function sees the function's names") {
  const OnnxModel m = model_of(
      with_functions("g (float[1] x) => (float[1] y) { y = local.F(x) }",
                     function("F (v) => (w) { c = Constant<value = bool {1}>() n = Neg(v)"
                              " w = If (c) <then_branch = t () => (float[1] a) { a = Neg(n) },"
                              " else_branch = e () => (float[1] b) { b = Abs(n) }> }")));
  CHECK(run(m, {{"x", doubles({5}, {1})}}).at("y").item() == 5.0);
}

TEST_CASE("a constant in a function is one weight, however often the function is called") {
  const OnnxModel m = model_of(with_functions(
      "g (float[2] x) => (float[2] y) { a = local.F(x) y = local.F(a) }",
      function("F (v) => (w) { k = Constant<value = float[2] {2, 3}>() w = Mul(v, k) }")));
  REQUIRE(m.parameters().size() == 1);
  CHECK(m.parameters()[0].name == "k");
  const Tensor y = run(m, {{"x", doubles({1, 1}, {2})}}).at("y");
  CHECK(y.data<double>()[1] == 9.0);
}

TEST_CASE("a problem inside a function names the call and the node") {
  const OnnxModel m =
      model_of(with_functions("g (float[2] x) => (float[2] y) { [call] y = local.F(x) }",
                              function("F (v) => (w) { [odd] w = vendor.Odd(v) }")));
  CHECK(only_problem(m, {{"x", doubles({1, 1}, {2})}}).node == "call/odd");
}

TEST_CASE("a function that calls itself is refused") {
  CHECK_THAT(
      load_error(model_bytes(with_functions("g (float[2] x) => (float[2] y) { y = local.F(x) }",
                                            function("F (v) => (w) { t = local.G(v) w = Neg(t) }") +
                                                function("G (v) => (w) { w = local.F(v) }")))),
      ContainsSubstring("calls itself"));
}

TEST_CASE("functions that double at each level are refused before they fill memory") {
  std::string functions;
  for (int i = 0; i < 40; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    functions += function("F" + std::to_string(i) + " (v) => (w) { t = local." + next +
                          "(v) w = local." + next + "(t) }");
  }
  functions += function("F40 (v) => (w) { w = Neg(v) }");
  CHECK_THAT(load_error(model_bytes(
                 with_functions("g (float[2] x) => (float[2] y) { y = local.F0(x) }", functions))),
             ContainsSubstring("nodes after inlining"));
}

TEST_CASE("functions nested too deeply are refused") {
  std::string functions;
  for (int i = 0; i < 100; ++i) {
    functions += function("F" + std::to_string(i) + " (v) => (w) { w = local.F" +
                          std::to_string(i + 1) + "(v) }");
  }
  functions += function("F100 (v) => (w) { w = Neg(v) }");
  CHECK_THAT(load_error(model_bytes(
                 with_functions("g (float[2] x) => (float[2] y) { y = local.F0(x) }", functions))),
             ContainsSubstring("64 levels deep"));
}

TEST_CASE("too many inputs for a function are refused") {
  CHECK_THAT(load_error(model_bytes(
                 with_functions("g (float[2] x) => (float[2] y) { [c] y = local.F(x, x) }",
                                function("F (v) => (w) { w = Neg(v) }")))),
             ContainsSubstring("has 1 inputs"));
}

TEST_CASE("an output that the body never computes is refused") {
  CHECK_THAT(
      load_error(model_bytes(with_functions("g (float[2] x) => (float[2] y) { [c] y = local.F(x) }",
                                            function("F (v) => (w) { t = Neg(v) }")))),
      ContainsSubstring("output \"w\" of the function F"));
}

}  // namespace
}  // namespace trainrt
