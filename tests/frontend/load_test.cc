// What a model must be to be loaded, and what is said of it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string error_of(const std::string& graph) {
  return load_error(model_bytes(graph_text(graph)));
}

TEST_CASE("ports keep names, symbols and element types") {
  const OnnxModel m = model_of(
      graph_text("g (float16[n,3] x, int64[?] ids, bool flag) => (float[n,3] y) { y = Relu(x) }"));
  REQUIRE(m.inputs().size() == 3);
  CHECK(m.inputs()[0].name == "x");
  CHECK(m.inputs()[0].dtype == DType::kFloat16);
  CHECK(to_string(m.inputs()[0]) == "[n,3]");
  CHECK(m.inputs()[1].dtype == DType::kInt64);
  CHECK(to_string(m.inputs()[1]) == "[?]");
  CHECK(m.inputs()[2].dtype == DType::kBool);
  REQUIRE(m.outputs().size() == 1);
  CHECK(m.outputs()[0].name == "y");
  CHECK(m.opset() == 17);
  CHECK(m.opset("ai.onnx") == 17);
  CHECK(m.opset("other") == 0);
}

TEST_CASE("an input without any node between it and the output is fine") {
  const OnnxModel m = model_of(graph_text("g (float[2] x) => (float[2] x) {}"));
  const Tensor x = doubles({1, 2}, {2});
  CHECK(max_difference(run(m, {{"x", x}}).at("x"), x) == 0);
}

TEST_CASE("an input that is nowhere defined names node and input") {
  const std::string text = error_of("g (float[2] x) => (float[2] y) { [add] y = Add(x, missing) }");
  CHECK_THAT(text, ContainsSubstring("node 'add' (Add, opset 17)"));
  CHECK_THAT(text, ContainsSubstring("\"missing\""));
}

TEST_CASE("every fault of a model is reported at once") {
  const std::string text = error_of(
      "g (float[2] x) => (float[2] y, float[2] nothing) "
      "{ a = Add(x, m1)  a = Add(x, m2)  y = Relu(a) }");
  CHECK_THAT(text, ContainsSubstring("\"m1\""));
  CHECK_THAT(text, ContainsSubstring("\"m2\""));
  CHECK_THAT(text, ContainsSubstring("\"a\" is defined twice"));
  CHECK_THAT(text, ContainsSubstring("output \"nothing\""));
}

TEST_CASE("nodes out of order are reported with the node that comes too late") {
  const std::string text =
      error_of("g (float[2] x) => (float[2] y) { [first] y = Relu(a) [second] a = Neg(x) }");
  CHECK_THAT(text, ContainsSubstring("node 'first'"));
  CHECK_THAT(text, ContainsSubstring("later, by node 'second'"));
}

TEST_CASE("a cycle is reported") {
  CHECK_THAT(error_of("g (float[2] x) => (float[2] y) { y = Add(x, z) z = Neg(y) }"),
             ContainsSubstring("\"z\" is produced only later"));
}

TEST_CASE("a subgraph sees outer names, the outer graph sees none of it") {
  const std::string inner =
      "g (bool c, float[2] x) => (float[2] y) {"
      " y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) },"
      " else_branch = e () => (float[2] b) { b = Relu(x) }>";
  CHECK(error_of(inner + "}") == "");
  CHECK_THAT(error_of(inner + " q = Neg(a) }"), ContainsSubstring("input \"a\" is not defined"));
}

TEST_CASE("a subgraph may not read what comes after its node") {
  CHECK_THAT(error_of("g (bool c, float[2] x) => (float[2] y) {"
                      " y = If (c) <then_branch = t () => (float[2] a) { a = Neg(z) },"
                      " else_branch = e () => (float[2] b) { b = Relu(x) }>"
                      " z = Neg(x) }"),
             ContainsSubstring("input \"z\""));
}

TEST_CASE("an operator set is needed") {
  CHECK_THAT(load_error(model_bytes("<ir_version: 8, opset_import: [\"my\" : 1]>"
                                    "g (float[2] x) => (float[2] y) { y = Relu(x) }")),
             ContainsSubstring("imports no opset"));
}

TEST_CASE("a newer opset than the newest known is a warning") {
  const OnnxModel m = model_of(graph_text("g (float[2] x) => (float[2] y) { y = Relu(x) }", 99));
  REQUIRE(m.warnings().size() == 1);
  CHECK_THAT(m.warnings()[0], ContainsSubstring("opset 99"));
  CHECK(run(m, {{"x", doubles({-1, 2}, {2})}}).at("y").data<double>()[1] == 2);
}

TEST_CASE("a domain without an imported version is taken as version 1, with a warning") {
  const OnnxModel m =
      model_of(graph_text("g (float[2] x) => (float[2] y) { y = Relu(x) z = vendor.Odd(x) }"));
  REQUIRE(m.warnings().size() == 1);
  CHECK_THAT(m.warnings()[0], ContainsSubstring("vendor"));
}

TEST_CASE("op counts include subgraphs and domains") {
  const OnnxModel m = model_of(graph_text(
      "g (bool c, float[2] x) => (float[2] y) { k = Constant<value = float {1}>() z = v.Odd(x)"
      " y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) },"
      " else_branch = e () => (float[2] b) { d = Neg(x) b = Add(d, k) }> }"));
  const std::map<std::string, int64_t> expected = {
      {"Add", 1}, {"Constant", 1}, {"If", 1}, {"Neg", 2}, {"v::Odd", 1}};
  CHECK(m.op_counts() == expected);
}

TEST_CASE("the listing shows ports, weights and nodes") {
  const std::string text =
      model_of(graph_text("g (float[n,2] x) => (float[n,3] y) <float[2,3] w = {1,2,3,4,5,6}>"
                          "{ [mm] y = MatMul(x, w) }"))
          .text();
  CHECK_THAT(text, ContainsSubstring("opset ai.onnx 17"));
  CHECK_THAT(text, ContainsSubstring("input x:float32[n,2]"));
  CHECK_THAT(text, ContainsSubstring("parameter w:float32[2,3]"));
  CHECK_THAT(text, ContainsSubstring("y = MatMul(x, w)  // mm"));
  CHECK_THAT(text, ContainsSubstring("output y:float32[n,3]"));
}

TEST_CASE("a missing file says so") {
  REQUIRE_THROWS_AS(OnnxModel::load("/nowhere/model.onnx"), Error);
  try {
    OnnxModel::load("/nowhere/model.onnx");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kFile);
    CHECK_THAT(e.what(), ContainsSubstring("/nowhere/model.onnx"));
  }
}

TEST_CASE("a folder is no model") { CHECK_THROWS_AS(OnnxModel::load("/tmp"), Error); }

}  // namespace
}  // namespace trainrt
