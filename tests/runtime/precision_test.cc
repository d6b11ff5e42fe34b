#include "runtime/precision.h"

#include <catch2/catch_test_macros.hpp>

#include "graph/builder.h"
#include "graph/verify.h"
#include "tests/runtime/count_nodes.h"

namespace trainrt {
namespace {

/// Builds products of float32 matrices, and looks at what became of them.
struct Net {
  Graph graph;
  Builder b{graph};

  Var data(const std::string& name, Shape shape) {
    return b.input({name, InputRole::kData, DType::kFloat32, std::move(shape)});
  }
  Var parameter(const std::string& name, Shape shape) {
    return b.input({name, InputRole::kParameter, DType::kFloat32, std::move(shape)});
  }
  Var gelu(Var x) { return b.add(Op::kGelu, {x}, GeluAttrs{}); }
  /// Whether anything changed.
  bool finish(bool reference = false) {
    const int32_t before = graph.node_count();
    assign_bfloat16(graph, RowTable(kernel_lists(reference)));
    verify(graph);
    return graph.node_count() != before;
  }
  int64_t reorders() const { return testing::count_nodes(graph, Op::kReorder); }
  /// Types that the n-th node of an op reads and makes.
  std::string types(Op op, int64_t n = 0) const {
    for (const Node& node : graph.nodes()) {
      if (node.op != op || n-- > 0) continue;
      std::string text;
      for (const auto* list : {&node.inputs, &node.outputs}) {
        for (ValueId v : *list) text += graph.type(v).dtype == DType::kBFloat16 ? 'h' : 'f';
        text += list == &node.inputs ? ">" : "";
      }
      return text;
    }
    return "absent";
  }
};

TEST_CASE("precision: products read bfloat16, and what lies between them is kept so") {
  if (!cpu_runs_bf16()) SKIP("this processor has no bfloat16 products");
  Net net;
  const Var x = net.data("x", {32, 64});
  const Var u = net.gelu(matmul(x, net.parameter("w", {64, 128})));
  net.graph.add_output("y", matmul(u, net.parameter("v", {128, 16})).id());
  REQUIRE(net.finish());
  CHECK(net.types(Op::kMatMul) == "hh>h");
  CHECK(net.types(Op::kGelu) == "h>h");
  CHECK(net.types(Op::kMatMul, 1) == "hh>f");  // an output of the graph
  CHECK(net.reorders() == 3);                  // x and the weights
}

TEST_CASE("precision: a value with a float32 reader stays, and is copied once for all products") {
  if (!cpu_runs_bf16()) SKIP("this processor has no bfloat16 products");
  Net net;
  const Var x = net.data("x", {32, 64});
  const Var s = softmax(matmul(x, net.parameter("w", {64, 64})), 1);
  const Var a = matmul(s, net.parameter("v", {64, 8})), c = matmul(s, net.parameter("u", {64, 8}));
  net.graph.add_output("y", (a + c).id());
  REQUIRE(net.finish());
  CHECK(net.types(Op::kMatMul) == "hh>f");
  CHECK(net.types(Op::kSoftmax) == "f>f");
  CHECK(net.types(Op::kMatMul, 1) == "hh>f");
  CHECK(net.reorders() == 5);
}

TEST_CASE("precision: views go with what they show") {
  if (!cpu_runs_bf16()) SKIP("this processor has no bfloat16 products");
  Net net;
  const Var x = net.data("x", {4, 8, 64});
  const Var u = reshape(net.gelu(reshape(x, {32, 64})), {2, 16, 64});
  net.graph.add_output("y", matmul(u, net.parameter("v", {64, 8})).id());
  net.graph.add_output("z", matmul(reshape(x, {8, 256}), net.parameter("u", {256, 8})).id());
  REQUIRE(net.finish());
  CHECK(net.types(Op::kGelu) == "f>h");
  CHECK(net.types(Op::kMatMul) == "hh>f");
  CHECK(net.types(Op::kMatMul, 1) == "hh>f");
}

TEST_CASE("precision: gradients on their way to an update stay float32") {
  if (!cpu_runs_bf16()) SKIP("this processor has no bfloat16 products");
  Net net;
  const Var x = net.data("x", {32, 64}), dy = net.data("dy", {32, 16});
  net.b.set_section(Section::kBackward);
  const Var dw = matmul(transpose(x, {1, 0}), dy);
  net.graph.add_output("w", transpose(dw, {1, 0}).id(), OutputRole::kGradient);
  REQUIRE(net.finish());
  CHECK(net.types(Op::kMatMul) == "hh>f");
  CHECK(net.types(Op::kTranspose, 1) == "f>f");
}

TEST_CASE("precision: recurrent layers read their weights as bfloat16 and the rest as float32") {
  if (!cpu_runs_bf16()) SKIP("this processor has no bfloat16 products");
  Net net;
  const Var x = matmul(net.data("x", {6, 64}), net.parameter("w", {64, 4 * 32}));
  const Var state = net.data("h", {2, 32});
  const std::vector<Var> layer = net.b.add_all(
      Op::kLstm,
      std::vector<Var>{reshape(x, {3, 2, 4 * 32}), net.parameter("r", {4 * 32, 32}), state, state},
      RecurrentAttrs{});
  net.graph.add_output("y", layer[0].id());
  REQUIRE(net.finish());
  CHECK(net.types(Op::kMatMul) == "hh>f");
  CHECK(net.types(Op::kLstm) == "fhff>fff");
}

TEST_CASE("precision: reference kernels know no bfloat16") {
  Net net;
  net.graph.add_output("y", matmul(net.data("x", {4, 8}), net.parameter("w", {8, 2})).id());
  CHECK_FALSE(net.finish(true));
}

}  // namespace
}  // namespace trainrt
