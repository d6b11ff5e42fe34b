// Training through quantization, and what stands in its way.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "onnx/defs/parser.h"
#include "tests/runtime/models.h"

namespace trainrt {
namespace {

Module load(const std::string& graph, bool straight_through, std::vector<std::string> freeze = {}) {
  onnx::ModelProto model;
  const std::string text = "<ir_version: 10, opset_import: [\"\" : 21]>" + graph;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  ModuleOptions options = testing::exact();
  options.straight_through = straight_through;
  options.freeze = std::move(freeze);
  return testing::load(model.SerializeAsString(), options);
}

// Weights are rounded to steps of 0.5 and cut at 0.5, what comes in is cut at 0.
const char* const kTrained =
    "g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {0.3, -0.8, 2.0, 0.7},"
    " float[2] b = {0.1, 0.2}, float s = {0.5}, int8 z = {126}>"
    "{ xb = Add(x, b) xq = QuantizeLinear(xb, s) xd = DequantizeLinear(xq, s)"
    "  wq = QuantizeLinear(w, s, z) wm = Transpose<perm = [1, 0]>(wq)"
    "  wd = DequantizeLinear(wm, s, z) y = MatMul(xd, wd) }";

Tensor of(std::initializer_list<double> values, Shape shape) {
  return Tensor::from<double>(values, std::move(shape));
}

TEST_CASE("straight through, gradients pass where nothing is clamped") {
  Module module = load(kTrained, true);
  const auto y = module.forward({{"x", of({1.15, -3.2}, {1, 2})}});
  module.backward({{"y", of({1, 10}, {1, 2})}});
  const Tensor db = module.get_parameter("b").grad(), dw = module.get_parameter("w").grad();
  REQUIRE(db.defined());
  REQUIRE(dw.defined());
  // y_j = sum over k of xd_k wd_jk, wd = {0.5, -1; 0.5 (cut), 0.5}, xd_1 is cut to 0
  const double xd0 = y[0].data<double>()[0] / 0.5;
  const double expected_db[] = {1 * 0.5 + 10 * 0.5, 0};
  for (size_t i = 0; i < 2; ++i) {
    INFO("b " << i << ": " << db.data<double>()[i]);
    CHECK(std::abs(db.data<double>()[i] - expected_db[i]) < 1e-12);
  }
  const double expected_dw[] = {xd0, 0, 0, 0};
  for (size_t i = 0; i < 4; ++i) {
    INFO("w " << i << ": " << dw.data<double>()[i]);
    CHECK(std::abs(dw.data<double>()[i] - expected_dw[i]) < 1e-12);
  }
}

TEST_CASE("straight through, outputs are those without it") {
  const TensorMap inputs = {{"x", testing::numbers({5, 2})}};
  Module plain = load(kTrained, false), passing = load(kTrained, true);
  plain.train(false);
  const auto expected = plain.forward(inputs), given = passing.forward(inputs);
  CHECK(testing::largest_difference(given[0], expected[0]) == 0);
}

std::vector<std::string> nodes_of(const std::vector<Problem>& problems, const std::string& kind) {
  std::vector<std::string> names;
  for (const Problem& p : problems) {
    if (p.kind == kind) names.push_back(p.op + " " + p.node);
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("without it, the nodes that would cut training off are listed") {
  const auto problems = load(kTrained, false).check();
  CHECK(nodes_of(problems, "no_gradient") == Names{"QuantizeLinear wq", "QuantizeLinear xq"});
  CHECK(problems.size() == 2);
  CHECK(problems.at(0).reason.find("--straight-through") != std::string::npos);
  CHECK(load(kTrained, true).check().empty());
}

TEST_CASE("frozen parameters need no way through") {
  const auto problems = load(kTrained, false, {"w"}).check();
  CHECK(nodes_of(problems, "no_gradient") == Names{"QuantizeLinear xq"});
  CHECK(nodes_of(load(kTrained, false, {"w", "b"}).check(), "no_gradient").empty());
}

TEST_CASE("a float head behind quantized layers can be trained") {
  const char* const graph =
      "g (float[n,2] x) => (float[n,2] y) <int8[2,2] w = {1, 2, 3, 4}, float[2,2] head = {1, 2, 3,"
      " 4}, float s = {0.5}>"
      "{ xq = QuantizeLinear(x, s) xd = DequantizeLinear(xq, s) wd = DequantizeLinear(w, s)"
      "  h = MatMul(xd, wd) y = MatMul(h, head) }";
  CHECK(load(graph, false).check().empty());
}

TEST_CASE("quantized arithmetic stays an obstacle") {
  const char* const graph =
      "g (float[n,2] x) => (float[n,2] y) <uint8[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 2}>"
      "{ h = Mul(x, b) q, s, z = DynamicQuantizeLinear(h) p = MatMulInteger(q, w, z)"
      "  r = Cast<to = 1>(p) y = Mul(r, s) }";
  for (bool pass : {false, true}) {
    CHECK(nodes_of(load(graph, pass).check(), "no_gradient") ==
          Names{"DynamicQuantizeLinear q", "MatMulInteger p"});
  }
  const char* const lost =
      "g (float[n,2] x) => (float[n,2] y) <float s = {0.5}, float[2] b = {1, 2}>"
      "{ h = Mul(x, b) q = QuantizeLinear(h, s) y = Cast<to = 1>(q) }";
  const auto problems = load(lost, true).check();
  CHECK(nodes_of(problems, "no_gradient") == Names{"QuantizeLinear q"});
}

TEST_CASE("a training step of a quantized model is refused, evaluation is not") {
  Module module = load(kTrained, false);
  const TensorMap inputs = {{"x", testing::numbers({5, 2})}};
  CHECK_THROWS_AS(module.forward(inputs), Error);
  module.train(false);
  CHECK(module.forward(inputs)[0].shape() == Shape{5, 2});
}

TEST_CASE("what is quantized to float8 passes gradients straight through as well") {
  const char* const graph =
      "g (float[2] x) => (float[2] y) <float[2] w = {1.1, 600}, float s = {1.0}>"
      "{ q = QuantizeLinear<output_dtype = 17>(w, s) d = DequantizeLinear(q, s) y = Mul(x, d) }";
  CHECK(nodes_of(load(graph, false).check(), "no_gradient") == Names{"QuantizeLinear q"});
  Module module = load(graph, true);
  module.forward({{"x", of({3, 5}, {2})}});
  module.backward({{"y", of({1, 1}, {2})}});
  const Tensor dw = module.get_parameter("w").grad();
  CHECK(dw.data<double>()[0] == 3);
  CHECK(dw.data<double>()[1] == 0);
}

TEST_CASE("a file of integer weights is refused with the list of its quantized nodes") {
  Module module = load(
      "g (float[n,2] x) => (float[n,2] y) <int8[2,2] w = {1, 2, 3, 4}, float s = {0.5}>"
      "{ xq = QuantizeLinear(x, s) xd = DequantizeLinear(xq, s)"
      "  wd = DequantizeLinear(w, s) y = MatMul(xd, wd) }",
      true);
  std::vector<std::string> nodes;
  for (const Problem& p : module.check()) {
    CHECK(p.kind == "no_gradient");
    nodes.push_back(p.node);
  }
  CHECK(nodes == std::vector<std::string>{"xq", "xd", "wd"});
}

}  // namespace
}  // namespace trainrt
