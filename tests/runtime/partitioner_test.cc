#include "runtime/partitioner.h"

#include <catch2/catch_test_macros.hpp>

#include "graph/builder.h"

namespace trainrt {
namespace {

Support only_small(const NodeView& node) {
  return node.outputs[0].size() <= 4 ? Support::yes() : Support::no("more than 4 elements");
}
std::unique_ptr<Kernel> no_kernel(const NodeView&, Scratch&) { return nullptr; }

constexpr KernelRow kFast[] = {{Op::kExp, "fast.exp", only_small, no_kernel, true},
                               {Op::kExp, "wide.exp", only_small, no_kernel, false}};
constexpr KernelRow kPlain[] = {{Op::kExp, "plain", nullptr, no_kernel, false},
                                {Op::kAdd, "plain", nullptr, no_kernel, false}};

Graph exp_graph(int64_t n) {
  Graph graph;
  Builder b(graph);
  const Var y = exp(b.input({"x", InputRole::kData, DType::kFloat32, {n}}));
  graph.add_output("y", y.id());
  return graph;
}

TEST_CASE("the first row that supports a node wins") {
  Diagnostics problems;
  const auto rows = partition(exp_graph(3), {kFast, kPlain}, problems);
  CHECK(problems.empty());
  CHECK(rows[0].row == nullptr);  // the input
  REQUIRE(rows[1].row != nullptr);
  CHECK(rows[1].row->name == "fast.exp");
  CHECK(rows[1].refusals.empty());
}

TEST_CASE("refusals of earlier rows are kept") {
  Diagnostics problems;
  const auto rows = partition(exp_graph(5), {kFast, kPlain}, problems);
  REQUIRE(rows[1].row != nullptr);
  CHECK(rows[1].row->name == "plain");
  REQUIRE(rows[1].refusals.size() == 2);
  CHECK(rows[1].refusals[0].row == "fast.exp");
  CHECK(rows[1].refusals[0].reason == "more than 4 elements");
}

TEST_CASE("a node that nothing supports is a problem that says why") {
  Diagnostics problems;
  const auto rows = partition(exp_graph(5), {kFast}, problems);
  CHECK(rows[1].row == nullptr);
  REQUIRE(problems.problems().size() == 1);
  CHECK(problems.problems()[0].kind == "no_kernel");
  CHECK(problems.problems()[0].op == "Exp");
  CHECK(problems.problems()[0].reason.find("float32[5]") != std::string::npos);
  CHECK(problems.problems()[0].reason.find("more than 4 elements") != std::string::npos);
}

TEST_CASE("views need no kernel") {
  Graph graph;
  Builder b(graph);
  const Var y = reshape(b.input({"x", InputRole::kData, DType::kFloat32, {4}}), {2, 2});
  graph.add_output("y", y.id());
  Diagnostics problems;
  partition(graph, {kFast}, problems);
  CHECK(problems.empty());
}

TEST_CASE("reference lists hold reference rows only") {
  CHECK(kernel_lists(true).size() == 1);
  CHECK(kernel_lists(false).size() == 2);
}

}  // namespace
}  // namespace trainrt
