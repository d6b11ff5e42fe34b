#include "runtime/placement.h"

#include <catch2/catch_test_macros.hpp>

#include "graph/builder.h"
#include "graph/verify.h"
#include "kernels/kernel.h"
#include "tests/support/failure.h"

namespace trainrt {
namespace {

std::unique_ptr<Kernel> no_kernel(const NodeView&, Scratch&) { return nullptr; }

// The device knows no Exp, the host everything here, and neither Sqrt.
constexpr KernelRow kDevice[] = {{Op::kAdd, "gpu", nullptr, no_kernel},
                                 {Op::kMul, "gpu", nullptr, no_kernel},
                                 {Op::kRelu, "gpu", nullptr, no_kernel}};
constexpr KernelRow kHost[] = {{Op::kAdd, "host", nullptr, no_kernel},
                               {Op::kExp, "host", nullptr, no_kernel}};

struct Placed {
  Graph graph;
  Placement placement;
  Diagnostics problems;
  int transfers = 0;

  explicit Placed(Graph g, bool fallback = true) : graph(std::move(g)) {
    const RowTable device({kDevice}), host({kHost});
    placement = assign_sides(graph, device, fallback ? &host : nullptr, problems);
    verify(graph);
    verify_sides(graph, placement.sides);
    for (const Node& node : graph.nodes()) transfers += node.op == Op::kTransfer;
  }
  Side side(Op op) const {
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      if (graph.node(NodeId{i}).op == op) return placement.sides[static_cast<size_t>(i)];
    }
    FAIL("no such node");
    return Side::kHost;
  }
};

Var input(Builder& b, const char* name = "x", InputRole role = InputRole::kData) {
  return b.input({name, role, DType::kFloat32, {4}});
}

TEST_CASE("what the device takes runs there without a copy") {
  Graph graph;
  Builder b(graph);
  const Var x = input(b);
  graph.add_output("y", relu(x + x).id());
  const Placed placed(std::move(graph));
  CHECK(placed.transfers == 0);
  CHECK(placed.side(Op::kInput) == Side::kDevice);
  CHECK(placed.side(Op::kRelu) == Side::kDevice);
}

TEST_CASE("a node on the host between two on the device costs a copy each way") {
  Graph graph;
  Builder b(graph);
  const Var x = input(b);
  const Var h = exp(relu(x));
  // Both readers of h share its copy; relu(x) has one reader on the host.
  graph.add_output("y", (relu(h) * h).id());
  const Placed placed(std::move(graph));
  CHECK(placed.transfers == 2);
  CHECK(placed.side(Op::kExp) == Side::kHost);
  CHECK(placed.side(Op::kMul) == Side::kDevice);
}

TEST_CASE("neighbours on the host hand values on without copies") {
  Graph graph;
  Builder b(graph);
  const Var h = exp(exp(relu(input(b))));
  graph.add_output("y", h.id());
  const Placed placed(std::move(graph));
  CHECK(placed.transfers == 1);  // the result stays on the host, where it is wanted
}

TEST_CASE("an input that only the host reads never goes to the device") {
  Graph graph;
  Builder b(graph);
  const Var x = input(b), y = input(b, "y");
  graph.add_output("a", exp(reshape(x, {2, 2})).id());
  graph.add_output("b", relu(y).id());
  const Placed placed(std::move(graph));
  CHECK(placed.transfers == 0);
  CHECK(placed.placement.sides[0] == Side::kHost);
}

TEST_CASE("an input that both read is copied once") {
  Graph graph;
  Builder b(graph);
  const Var x = input(b);
  graph.add_output("a", exp(x).id());
  graph.add_output("b", relu(x).id());
  graph.add_output("c", (x + x).id());
  const Placed placed(std::move(graph));
  CHECK(placed.transfers == 1);
}

TEST_CASE("state stays on the device") {
  Graph graph;
  Builder b(graph);
  const Var w = input(b, "w", InputRole::kParameter);
  graph.add_output("a", exp(w).id());
  const Placed placed(std::move(graph));
  CHECK(placed.side(Op::kInput) == Side::kDevice);
  CHECK(placed.transfers == 1);
}

TEST_CASE("constants lie on both sides") {
  Graph graph;
  Builder b(graph);
  const Var c = b.constant(Tensor::from<float>({1, 2, 3, 4}, {4})), x = input(b);
  graph.add_output("a", relu(x * c).id());
  graph.add_output("b", (exp(relu(x)) + exp(c)).id());
  const Placed placed(std::move(graph));
  int constants = 0;
  for (const Node& node : placed.graph.nodes()) constants += node.op == Op::kConstant;
  CHECK(constants <= 2);
  for (const Node& node : placed.graph.nodes()) {
    if (node.op == Op::kTransfer) {
      CHECK(placed.graph.producer(node.inputs[0]).op != Op::kConstant);
    }
  }
}

TEST_CASE("without the fallback what the device lacks is a problem, and with it what both lack") {
  Graph graph;
  Builder b(graph);
  graph.add_output("y", sqrt(exp(input(b))).id());
  const Placed strict(graph, false);
  REQUIRE(strict.problems.problems().size() == 2);
  CHECK(strict.problems.problems()[0].kind == "no_kernel");
  CHECK(testing::contains(strict.problems.problems()[0].reason, "no CUDA kernel runs Exp"));
  const Placed loose(std::move(graph));
  REQUIRE(loose.problems.problems().size() == 1);
  CHECK(loose.problems.problems()[0].op == "Sqrt");
}

TEST_CASE("a node that reads the other side's value is found") {
  Graph graph;
  Builder b(graph);
  graph.add_output("y", relu(input(b)).id());
  const std::string text = testing::failure(
      [&] {
        verify_sides(graph, {Side::kHost, Side::kDevice});
      },
      ErrorCode::kInternal);
  CHECK(testing::contains(text, "of the other side"));
}

}  // namespace
}  // namespace trainrt
