#include "graph/text.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <set>

#include "graph/verify.h"
#include "tests/graph/every_op.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

void check_equal(const Graph& a, const Graph& b) {
  REQUIRE(a.node_count() == b.node_count());
  for (int32_t i = 0; i < a.node_count(); ++i) {
    const Node &x = a.node(NodeId{i}), &y = b.node(NodeId{i});
    INFO(describe(a, NodeId{i}));
    CHECK(x.op == y.op);
    CHECK(equal(x.attrs, y.attrs));
    CHECK(hash(x.attrs) == hash(y.attrs));
    CHECK(x.inputs == y.inputs);
    CHECK(x.outputs == y.outputs);
    CHECK(x.section == y.section);
    for (ValueId v : x.outputs) CHECK(a.type(v) == b.type(v));
  }
  REQUIRE(a.outputs().size() == b.outputs().size());
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    CHECK(a.outputs()[i].name == b.outputs()[i].name);
    CHECK(a.outputs()[i].value == b.outputs()[i].value);
    CHECK(a.outputs()[i].role == b.outputs()[i].role);
  }
}

void check_fails(std::string_view text, const char* message) {
  try {
    parse_graph(text);
    FAIL("parsed: " << text);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUsage);
    CHECK_THAT(e.what(), ContainsSubstring(message));
  }
}

TEST_CASE("text: the sample graph holds every op and every attribute struct") {
  const Graph graph = parse_graph(kEveryOp);
  std::set<Op> ops;
  std::set<size_t> structs;
  for (const Node& node : graph.nodes()) {
    ops.insert(node.op);
    structs.insert(node.attrs.index());
  }
  for (int i = 0; i < kOpCount; ++i) {
    INFO(op_info(static_cast<Op>(i)).name);
    CHECK(ops.contains(static_cast<Op>(i)));
  }
  CHECK(structs.size() == std::variant_size_v<Attrs>);
  verify(graph);
}

TEST_CASE("text: every op round-trips") {
  const Graph graph = parse_graph(kEveryOp);
  const std::string text = print(graph);
  const Graph again = parse_graph(text);
  check_equal(graph, again);
  CHECK(print(again) == text);
}

TEST_CASE("text: an empty graph round-trips") {
  CHECK(print(Graph()).empty());
  CHECK(parse_graph("").node_count() == 0);
  CHECK(parse_graph("\n  // nothing\n\r\n").node_count() == 0);
}

TEST_CASE("text: half precision constants keep their values") {
  Graph graph;
  const Tensor half = Tensor::from<float>({1.5f, -0.25f, 65504.0f}, {3}).to(DType::kFloat16);
  graph.add_node(Op::kConstant, {}, ConstantAttrs{half}, {{DType::kFloat16, {3}}});
  check_equal(graph, parse_graph(print(graph)));
}

TEST_CASE("text: a line has types, operands, attributes and origin") {
  Graph graph = parse_graph("%0 = Input() name=\"x\" shape=[2,2]\n");
  const int32_t source = graph.add_source({"fc", "Gemm", "", 13});
  graph.add_node(Op::kMatMul, {ValueId{0}, ValueId{0}}, MatMulAttrs{false, true},
                 {{DType::kFloat32, {2, 2}}}, Section::kForward, source);
  const std::string text = print(graph);
  CHECK_THAT(text,
             ContainsSubstring("%1:float32[2,2] = MatMul(%0, %0) trans_b=true  // fc (Gemm)\n"));
  CHECK(parse_graph(text).node_count() == 2);
}

TEST_CASE("text: hostile names do not break the form") {
  Graph graph;
  const int32_t source = graph.add_source({"a\nb // \"", "O p", "", 1});
  graph.add_node(Op::kInput, {},
                 InputAttrs{"x\" role=rng // \\ \n", InputRole::kData, DType::kFloat32, {1}},
                 {{DType::kFloat32, {1}}}, Section::kForward, source);
  graph.add_output("out=%7 \"\n", ValueId{0});
  graph.add_output("", ValueId{0});
  check_equal(graph, parse_graph(print(graph)));
}

TEST_CASE("text: several outputs share a return line, and one may be called role") {
  const Graph graph =
      parse_graph("%x = Input() name=\"x\"\nreturn a=%x role=loss role=%x b=%x role=state");
  REQUIRE(graph.outputs().size() == 3);
  CHECK(graph.outputs()[0].role == OutputRole::kLoss);
  CHECK(graph.outputs()[1].name == "role");
  CHECK(graph.outputs()[2].role == OutputRole::kState);
}

TEST_CASE("text: given types win over inferred ones") {
  const Graph graph = parse_graph("%x:float64[7] = Input() name=\"x\"\n");
  CHECK(to_string(graph.type(ValueId{0})) == "float64[7]");
}

TEST_CASE("text: mistakes are told with line and expectation") {
  check_fails("%x = Bogus()", "line 1");
  check_fails("%x = Bogus()", "known op");
  check_fails("\n%x = Neg(%y)", "line 2");
  check_fails("%x = Input() name=\"x\" shape=[2", "']'");
  check_fails("%x = Input() name=\"x", "'\"'");
  check_fails("%x = Input() nome=\"x\"", "an attribute of Input");
  check_fails("%x = Input() name=\"x\" name=\"y\"", "once");
  check_fails("%x = Input() name=\"x\" role=boss", "one of data, target");
  check_fails("%x = Input() name=\"x\" dtype=int3", "element type");
  check_fails("%x = Input() name=\"x\"\n%x = Neg(%x)", "taken");
  check_fails("%x = Input() name=\"x\"\n%y, %z = Neg(%x)", "result");
  check_fails("%x = Input() name=\"x\"\n%y = Add(%x)", "well-formed Add");
  check_fails("%x = Constant() value=float32[3]{1,2}", "3 values");
  check_fails("%x = Constant() value=int8[1]{300}", "a number");
  check_fails("%x = Constant() value=float32[1000000,1000000,1000000]{1}", "sensible size");
  check_fails("return y=%3", "defined above");
  check_fails("sideways:", "section");
  check_fails("%x = Input() name=\"x\"\nreturn y=%x role=king", "output, loss");
  check_fails("%", "the end of the line");
}

TEST_CASE("text: digests stand for large constants in short form") {
  const Attrs large = ConstantAttrs{Tensor(DType::kFloat32, {17})};
  const Attrs small = ConstantAttrs{Tensor(DType::kFloat32, {2})};
  CHECK_THAT(to_string(large, false), ContainsSubstring("float32[17]#"));
  CHECK(to_string(small, false) == "value=float32[2]{0,0}");
  CHECK_THAT(to_string(large, true), ContainsSubstring("{0,0,"));
}

TEST_CASE("attrs: defaults are not printed") {
  CHECK(to_string(Attrs(NoAttrs{})).empty());
  CHECK(to_string(Attrs(AxisAttrs{})).empty());
  CHECK(to_string(Attrs(ReduceAttrs{{1}, true})) == "axes=[1] keepdims=true");
}

TEST_CASE("attrs: equality tells zeros apart but not NaNs") {
  const auto of = [](float v) { return Attrs(ConstantAttrs{Tensor::scalar(v)}); };
  CHECK(equal(of(NAN), of(-NAN)));
  CHECK(hash(of(NAN)) == hash(of(-NAN)));
  CHECK_FALSE(equal(of(0.0f), of(-0.0f)));
  CHECK(equal(Attrs(ClipAttrs{NAN, 1}), Attrs(ClipAttrs{NAN, 1})));
  CHECK_FALSE(equal(Attrs(ClipAttrs{0, 1}), Attrs(ClipAttrs{0, 2})));
  CHECK_FALSE(equal(Attrs(ShapeAttrs{}), Attrs(PermAttrs{})));
  CHECK_FALSE(equal(Attrs(ConstantAttrs{Tensor(DType::kFloat32, {2})}),
                    Attrs(ConstantAttrs{Tensor(DType::kInt32, {2})})));
}

TEST_CASE("attrs: each optimizer names its slots") {
  CHECK(optimizer_slots(OptimizerKind::kSgd).empty());
  CHECK(optimizer_slots(OptimizerKind::kMomentum).size() == 1);
  CHECK(optimizer_slots(OptimizerKind::kNesterov).size() == 1);
  CHECK(optimizer_slots(OptimizerKind::kAdam).size() == 2);
  CHECK(optimizer_slots(OptimizerKind::kAdamW).size() == 2);
}

TEST_CASE("text: dot escapes what it prints") {
  Graph graph = parse_graph("%x = Input() name=\"a\\\"b\"\n%y = Neg(%x)\nreturn \"q\\\"\"=%y");
  const std::string dot = print_dot(graph);
  CHECK_THAT(dot, ContainsSubstring("n0 -> n1"));
  CHECK_THAT(dot, ContainsSubstring("q\\\""));
  CHECK_THAT(dot, ContainsSubstring("digraph"));
}

}  // namespace
}  // namespace trainrt
