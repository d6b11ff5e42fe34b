// Bindings, constants, problems and the roles of inputs and outputs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string binding_error(const OnnxModel& model, const Tensors& inputs) {
  try {
    lower(model, inputs);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInput);
    return e.what();
  }
  return "";
}

OnnxModel two_inputs() {
  return model_of(graph_text("g (float[n,4] x, float[n,4] z) => (float[n,4] y) { y = Add(x, z) }"));
}

TEST_CASE("a wrong rank names the input and both shapes") {
  CHECK_THAT(binding_error(two_inputs(), {{"x", Tensor(DType::kFloat32, {5, 1, 4})},
                                          {"z", Tensor(DType::kFloat32, {5, 4})}}),
             ContainsSubstring("input x: expected float32[n,4], given float32[5,1,4]"));
}

TEST_CASE("a wrong dim names the input and both shapes") {
  CHECK_THAT(binding_error(two_inputs(), {{"x", Tensor(DType::kFloat32, {5, 6})},
                                          {"z", Tensor(DType::kFloat32, {5, 4})}}),
             ContainsSubstring("input x: expected float32[n,4], given float32[5,6]"));
}

TEST_CASE("a symbol has one size in all inputs") {
  CHECK_THAT(binding_error(two_inputs(), {{"x", Tensor(DType::kFloat32, {5, 4})},
                                          {"z", Tensor(DType::kFloat32, {1, 4})}}),
             ContainsSubstring("input z: n is 1, but input x has n = 5"));
}

TEST_CASE("a wrong element type names both") {
  CHECK_THAT(binding_error(two_inputs(), {{"x", Tensor(DType::kInt64, {5, 4})},
                                          {"z", Tensor(DType::kFloat32, {5, 4})}}),
             ContainsSubstring("input x: expected float32[n,4], given int64[5,4]"));
}

TEST_CASE("a missing input and an unknown one are both named") {
  const std::string text = binding_error(two_inputs(), {{"x", Tensor(DType::kFloat32, {5, 4})},
                                                        {"q", Tensor(DType::kFloat32, {5, 4})}});
  CHECK_THAT(text, ContainsSubstring("input z: no value given"));
  CHECK_THAT(text, ContainsSubstring("no input q"));
}

TEST_CASE("floats of any width are taken, and computed in the working type") {
  const OnnxModel m = model_of(graph_text(
      "g (float16[2] x) => (float16[2] y) <double[2] w = {1,2}> { c = Cast<to: int = 10>(w)"
      " y = Mul(x, c) }"));
  SpecializeOptions options;
  options.working = DType::kFloat32;
  const Lowered lowered = lower(m, {{"x", Tensor(DType::kFloat64, {2})}}, {}, options);
  REQUIRE(lowered.problems.empty());
  const Graph& g = lowered.result.graph;
  CHECK(g.type(g.find_input("x", InputRole::kData)).dtype == DType::kFloat32);
  CHECK(g.type(g.find_input("w", InputRole::kParameter)).dtype == DType::kFloat32);
  CHECK(g.type(g.find_output("y", OutputRole::kOutput)).dtype == DType::kFloat32);
}

TEST_CASE("shape chains fold away") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2,3] x) => (float[n,k] y) <int64[1] rest = {-1}, int64 zero = {0}>"
                 "{ s = Shape(x) z = Constant<value_ints: ints = [0]>() n0 = Gather(s, zero)"
                 " n1 = Unsqueeze(n0, z) t = Concat<axis: int = 0>(n1, rest) y = Reshape(x, t) }"));
  const Lowered lowered = lower(m, {{"x", Tensor(DType::kFloat64, {5, 2, 3})}});
  const Graph& g = lowered.result.graph;
  CHECK(g.type(g.find_output("y", OutputRole::kOutput)).shape == Shape{5, 6});
  const auto reshapes = std::count_if(g.nodes().begin(), g.nodes().end(),
                                      [](const Node& n) { return n.op == Op::kReshape; });
  CHECK(reshapes == 1);
}

TEST_CASE("only what the outputs need is lowered") {
  const OnnxModel m =
      model_of(graph_text("g (float[2] x) => (float[2] y) { y = Neg(x) dead = Reshape(x, x) }"));
  CHECK(lower(m, {{"x", doubles({1, 2}, {2})}}).problems.empty());
}

TEST_CASE("unknown operators are listed together, wherever they stand") {
  const OnnxModel m = model_of(
      "<ir_version: 8, opset_import: [\"\" : 17, \"vendor\" : 3]>"
      "g (float[2] x) => (float[2] y) { [f] a = vendor.Fancy(x) [p] y = vendor.Plain(a)"
      " [n] q = NoSuchOp(x) }");
  const Lowered lowered = lower(m, {{"x", doubles({1, 2}, {2})}});
  REQUIRE(lowered.problems.size() == 2);  // nobody reads q
  CHECK(lowered.problems[0].node == "f");
  CHECK(lowered.problems[0].op == "Fancy");
  CHECK(lowered.problems[0].domain == "vendor");
  CHECK(lowered.problems[0].opset == 3);
  CHECK(lowered.problems[0].kind == "no_lowering");
  CHECK(lowered.problems[1].node == "p");
}

TEST_CASE("a product that does not fit names node and shapes; what reads it is skipped") {
  const OnnxModel m = model_of(graph_text(
      "g (float[5,4] x) => (float[5,3] y, float[7] z) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
      "{ s = Constant<value_ints: ints = [7]>() a = MatMul(x, w) [mm_bad] b = MatMul(a, w)"
      " y = Neg(b) [re_bad] z = Reshape(x, s) }"));
  const Lowered lowered = lower(m, {{"x", Tensor(DType::kFloat64, {5, 4})}});
  REQUIRE(lowered.problems.size() == 2);
  const std::string text = to_string(lowered.problems[0]);
  CHECK(lowered.problems[0].kind == "invalid");
  CHECK_THAT(text, ContainsSubstring("node 'mm_bad' (MatMul"));
  CHECK_THAT(text, ContainsSubstring("[5,3]"));
  CHECK_THAT(text, ContainsSubstring("[4,3]"));
  CHECK(lowered.problems[1].node == "re_bad");
}

TEST_CASE("an integer input that decides a shape is asked for by name") {
  const OnnxModel m = model_of(graph_text(
      "g (float[6] x, int64[2] s, bool c) => (float[a,b] y, float[6] z) { t = Neg(s) u = Neg(t)"
      " y = Reshape(x, u) z = If (c) <then_branch = p () => (float[6] a) { a = Neg(x) },"
      " else_branch = q () => (float[6] b) { b = Abs(x) }> }"));
  const Tensor x = pseudo_random({6}, 1);
  const Tensor s = Tensor::from<int64_t>({2, 3}, {2}), c = Tensor::scalar<bool>(true);
  const Lowered lowered = lower(m, {{"x", x}, {"s", s}, {"c", c}});
  CHECK(lowered.problems.empty());
  CHECK(lowered.result.needs_value == std::vector<std::string>{"c", "s"});
  const Tensors out = run(m, {{"x", x}}, {{"s", s}, {"c", c}});
  CHECK(out.at("y").shape() == Shape{2, 3});
  CHECK(out.at("z").data<double>()[0] == -x.data<double>()[0]);
}

TEST_CASE("a shape that depends on float contents is refused as dynamic, naming the input") {
  const OnnxModel m =
      model_of(graph_text("g (float[2] x) => (float[a,b] y) { [cast] s = Cast<to: int = 7>(x)"
                          " [re] y = Reshape(x, s) }"));
  const Problem p = only_problem(m, {{"x", doubles({1, 2}, {2})}});
  CHECK(p.kind == "dynamic");
  CHECK(p.node == "re");
  CHECK_THAT(p.reason, ContainsSubstring("contents of x"));
}

TEST_CASE("a parameter that decides a shape is used with its stored value") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[k] y) <float[1] w = {6}>"
      "{ n = Neg(w) p = Neg(n) i = Cast<to: int = 7>(p) e = Expand(x, i) y = Mul(e, w) }"));
  const Tensor y = run(m, {{"x", doubles({2}, {1})}}).at("y");
  CHECK(y.shape() == Shape{6});
  CHECK(y.data<double>()[5] == 12);
}

TEST_CASE("outputs may be inputs, weights and constants, in the file's order") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[1] c, float[1] x, float[1] w, float[1] y) <float[1] w = {6}>"
      "{ c = Constant<value = float[1] {5}>() y = Mul(x, w) }"));
  const Lowered lowered = lower(m, {{"x", doubles({2}, {1})}});
  std::vector<std::string> names;
  for (const Output& o : lowered.result.graph.outputs()) names.push_back(o.name);
  CHECK(names == std::vector<std::string>{"c", "x", "w", "y"});
  const Tensors out = run(m, {{"x", doubles({2}, {1})}});
  CHECK(out.at("c").item() == 5);
  CHECK(out.at("w").item() == 6);
}

TEST_CASE("running statistics are updated in train mode, and shared ones in turn") {
  const OnnxModel m = model_of(graph_text(
      "g (float[2,1] x) => (float[2,1] y) <float[1] s = {1}, float[1] b = {0}, float[1] mean = {0},"
      " float[1] var = {1}>"
      "{ a = BatchNormalization<momentum: float = 0.5>(x, s, b, mean, var)"
      " k = Constant<value_floats: floats = [2.0, 4.0]>() c = Constant<value = float {6}>()"
      " a0 = Mul(a, c) a1 = Add(a0, c)"
      " y = BatchNormalization<momentum: float = 0.5>(a1, s, b, mean, var) }"));
  Tensors weights;
  run(m, {{"x", doubles({1, 3}, {2, 1})}}, {}, {.working = DType::kFloat64}, &weights);
  // The mean of x is 2, that of a1 is 6: (0 + 2) / 2 = 1, (1 + 6) / 2 = 3.5.
  CHECK(std::abs(weights.at("mean").item() - 3.5) < 1e-9);
  SpecializeOptions eval;
  eval.working = DType::kFloat64;
  eval.training = false;
  const Lowered lowered = lower(m, {{"x", doubles({1, 3}, {2, 1})}}, {}, eval);
  for (const Output& o : lowered.result.graph.outputs()) CHECK(o.role == OutputRole::kOutput);
}

TEST_CASE("a string that a needed node reads is a problem, one that nobody needs is not") {
  const std::string head =
      "g (float[1] x) => (float[1] y) { t = Constant<value_string: string ="
      " \"a\">() ";
  CHECK(lower(model_of(graph_text(head + "y = Neg(x) }")), {{"x", doubles({2}, {1})}})
            .problems.empty());
  const Problem p =
      only_problem(model_of(graph_text(head + "y = Add(x, t) }")), {{"x", doubles({2}, {1})}});
  CHECK_THAT(p.reason, ContainsSubstring("string tensor"));
}

TEST_CASE("a huge constant is refused, not computed") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[k] y) { s = Constant<value_ints: ints = [4000000000, 4000000000,"
      " 4000000000]>() e = Expand(x, s) y = Neg(e) }"));
  const Problem p = only_problem(m, {{"x", doubles({2}, {1})}});
  CHECK((p.kind == "memory" || p.kind == "invalid"));
}

}  // namespace
}  // namespace trainrt
