// The engine: fan-out, pruning, broadcasting, refusals, sections, size.
#include <catch2/catch_test_macros.hpp>

#include "autodiff/autodiff.h"
#include "graph/verify.h"
#include "kernels/reference/evaluate.h"
#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

Var data(Builder& b, const std::string& name, Shape shape, DType dtype = DType::kFloat64) {
  return b.input({name, InputRole::kData, dtype, std::move(shape)});
}

Var ones(Var v) { return v.builder().fill(v.dtype(), 1, v.shape()); }

std::vector<Var> gradients(Builder& b, Var y, std::vector<Var> wrt) {
  Diagnostics problems;
  const Seed seed{y, ones(y)};
  std::vector<Var> result = differentiate(b, std::span(&seed, 1), wrt, problems);
  REQUIRE(problems.empty());
  verify(b.graph());
  return result;
}

double value(Graph& graph, Var v, std::map<std::string, Tensor> inputs) {
  graph.add_output("probe", v.id());
  const double result = evaluate_graph(graph, std::move(inputs)).at("probe").item();
  graph.outputs().pop_back();
  return result;
}

TEST_CASE("a value with several readers gets the sum of their gradients") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {});
  const Var y = x * x + exp(x) + x;
  const Var dx = gradients(b, y, {x})[0];
  CHECK(std::abs(value(graph, dx, {{"x", Tensor::scalar(0.5)}}) - (1.0 + std::exp(0.5) + 1)) <
        1e-12);
}

TEST_CASE("an unrolled chain of many readers of one weight") {
  Graph graph;
  Builder b(graph);
  const Var w = data(b, "w", {}), x = data(b, "x", {});
  Var h = x;
  for (int i = 0; i < 500; ++i) h = h * w;
  const Var dw = gradients(b, h, {w})[0];
  const double expected = 500 * std::pow(1.01, 499);
  const double found = value(graph, dw, {{"w", Tensor::scalar(1.01)}, {"x", Tensor::scalar(1.0)}});
  CHECK(std::abs(found - expected) < 1e-9 * expected);
}

TEST_CASE("a chain of a hundred thousand nodes") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {});
  Var h = x;
  for (int i = 0; i < 100000; ++i) h = -h;
  const Var dx = gradients(b, h, {x})[0];
  CHECK(static_cast<bool>(dx));
  CHECK(graph.node_count() < 300000);
}

TEST_CASE("a seed on the value itself passes through") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {2});
  const Var g = ones(x);
  const Seed seeds[] = {{x, g}};
  Diagnostics problems;
  CHECK(differentiate(b, seeds, std::span(&x, 1), problems)[0].id() == g.id());
}

TEST_CASE("seeds of one value and of several outputs add up") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {});
  const Var y = 3.0 * x, z = 5.0 * x;
  const Seed seeds[] = {{y, ones(y)}, {y, ones(y)}, {z, ones(z)}};
  Diagnostics problems;
  const Var dx = differentiate(b, seeds, std::span(&x, 1), problems)[0];
  CHECK(value(graph, dx, {{"x", Tensor::scalar(1.0)}}) == 11);
}

TEST_CASE("gradients with respect to an inner value and to what it comes from") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {});
  const Var h = 2.0 * x, y = h * h;
  const auto g = gradients(b, y, {x, h});
  CHECK(value(graph, g[0], {{"x", Tensor::scalar(3.0)}}) == 24);
  CHECK(value(graph, g[1], {{"x", Tensor::scalar(3.0)}}) == 12);
}

TEST_CASE("a value asked for twice gets its gradient twice") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {});
  const auto g = gradients(b, x * x, {x, x});
  CHECK(g[0].id() == g[1].id());
}

TEST_CASE("no path to the seed: the gradient is absent") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {}), unused = data(b, "unused", {});
  const Var dead_end = exp(unused);
  CHECK_FALSE(gradients(b, exp(x), {unused})[0]);
  CHECK_FALSE(gradients(b, exp(x), {dead_end})[0]);
}

TEST_CASE("StopGradient, piecewise constant ops and integers cut the path") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {3});
  CHECK_FALSE(gradients(b, exp(stop_gradient(x)), {x})[0]);
  CHECK_FALSE(gradients(b, exp(unary(Op::kFloor, x)), {x})[0]);
  CHECK_FALSE(gradients(b, exp(cast(cast(x, DType::kInt64), DType::kFloat64)), {x})[0]);
  CHECK_FALSE(gradients(b, where(greater(x, 0.0), 1.0, full_like(x, 2)), {x})[0]);
}

TEST_CASE("an index path has no gradient, the gathered value has") {
  const Tensor x = Tensor::from<double>({1, 3, 2}, {3});
  const auto g = gradients_of({x}, [](Builder& b, std::span<const Var> in) {
    const Var best = b.add(Op::kArgMax, {in[0]}, ArgAttrs{0, false, false});
    return std::vector<Var>{gather(in[0], best, 0)};
  });
  CHECK(doubles(g[0]) == std::vector<double>{0, 1, 0});
}

TEST_CASE("integer and bool values never get a gradient") {
  Graph graph;
  Builder b(graph);
  const Var i = data(b, "i", {2}, DType::kInt64), x = data(b, "x", {4});
  const auto g = gradients(b, gather(x, i, 0), {i, x});
  CHECK_FALSE(g[0]);
  CHECK(static_cast<bool>(g[1]));
}

TEST_CASE("nothing asked for, nothing added") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {3}), w = data(b, "w", {3});
  const Var y = tanh(x * w) / (w + 2.0);
  const Var seed = ones(y);
  const int32_t before = graph.node_count();
  Diagnostics problems;
  const Seed seeds[] = {{y, seed}};
  CHECK(differentiate(b, seeds, {}, problems).empty());
  CHECK(graph.node_count() == before);
}

TEST_CASE("gradients that nobody asks for add no nodes") {
  const auto added = [](const std::function<Var(Var, Var)>& f, bool both) {
    Graph graph;
    Builder b(graph);
    const Var x = data(b, "x", {3, 3}), w = data(b, "w", {3, 3});
    const Var y = f(x, w);
    const Var seed = ones(y);
    const int32_t before = graph.node_count();
    const Seed seeds[] = {{y, seed}};
    Diagnostics problems;
    std::vector<Var> wrt = {x};
    if (both) wrt.push_back(w);
    differentiate(b, seeds, wrt, problems);
    return graph.node_count() - before;
  };
  const auto mul = [](Var x, Var w) { return x * w; };
  const auto product = [](Var x, Var w) { return matmul(x, w); };
  const auto sub = [](Var x, Var w) { return x - w; };
  CHECK(added(mul, false) == 1);
  CHECK(added(mul, true) == 2);
  CHECK(added(product, false) == 1);
  CHECK(added(product, true) == 2);
  CHECK(added(sub, false) == 0);
  CHECK(added(sub, true) == 1);
}

TEST_CASE("the part before the values asked for is not differentiated") {
  Graph graph;
  Builder b(graph);
  Var x = data(b, "x", {2, 2});
  const Var w = data(b, "w", {2, 2});
  for (int i = 0; i < 10; ++i) x = tanh(x);
  const Var y = matmul(x, w);
  const Var seed = ones(y);
  const int32_t before = graph.node_count();
  const Seed seeds[] = {{y, seed}};
  Diagnostics problems;
  differentiate(b, seeds, std::span(&w, 1), problems);
  CHECK(graph.node_count() == before + 1);
}

TEST_CASE("a matrix shared by a batch gets its gradient from one matrix product") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {5, 4, 3}), w = data(b, "w", {3, 2});
  const Var y = matmul(x, w);
  const Var dw = gradients(b, y, {w})[0];
  CHECK(graph.producer(dw.id()).op == Op::kMatMul);
  CHECK(graph.type(graph.producer(dw.id()).inputs[0]).shape == Shape{20, 3});
}

TEST_CASE("gradient nodes lie in the backward section and keep the origin of the forward node") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {3});
  b.set_source(graph.add_source({"act", "Tanh", "", 17}));
  const Var y = tanh(x);
  b.set_source(-1);
  const Var seed = ones(y);
  const int32_t before = graph.node_count();
  const Seed seeds[] = {{y, seed}};
  Diagnostics problems;
  differentiate(b, seeds, std::span(&x, 1), problems);
  REQUIRE(graph.node_count() > before);
  for (int32_t n = before; n < graph.node_count(); ++n) {
    CHECK(graph.node(NodeId{n}).section == Section::kBackward);
    CHECK(graph.source(graph.node(NodeId{n})).node == "act");
  }
  CHECK(b.section() == Section::kForward);
  CHECK(b.source() == -1);
}

TEST_CASE("all nodes without a rule are listed with their origin, and nothing is built") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {2, 3});
  b.set_source(graph.add_source({"first", "MySoftmaxGrad", "", 17}));
  const Var h = b.add(Op::kSoftmaxGrad, {x, x}, AxisAttrs{1});
  b.set_source(graph.add_source({"second", "MyLogSoftmaxGrad", "some.domain", 3}));
  const Var y = b.add(Op::kLogSoftmaxGrad, {exp(h), h}, AxisAttrs{1});
  const Var seed = ones(y);
  const int32_t before = graph.node_count();
  const Seed seeds[] = {{y, seed}};
  Diagnostics problems;
  const auto g = differentiate(b, seeds, std::span(&x, 1), problems);
  REQUIRE(problems.problems().size() == 2);
  const Problem &first = problems.problems()[0], &second = problems.problems()[1];
  CHECK(first.node == "first");
  CHECK(first.op == "MySoftmaxGrad");
  CHECK(first.kind == "no_gradient");
  CHECK(first.opset == 17);
  CHECK(second.node == "second");
  CHECK(second.domain == "some.domain");
  CHECK(second.reason.find("LogSoftmaxGrad") != std::string::npos);
  CHECK_FALSE(g.at(0));
  CHECK(graph.node_count() == before);
}

TEST_CASE("a node without a rule off the path is no problem") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {2, 3}), w = data(b, "w", {2, 3});
  const Var frozen = b.add(Op::kSoftmaxGrad, {x, x}, AxisAttrs{1});
  const Var beside = b.add(Op::kSoftmaxGrad, {w, w}, AxisAttrs{1});
  graph.add_output("beside", beside.id());
  CHECK(static_cast<bool>(gradients(b, frozen * w, {w})[0]));
}

TEST_CASE("several nodes of one origin are one problem") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {2, 3});
  b.set_source(graph.add_source({"twice", "Odd", "", 17}));
  const Var h = b.add(Op::kSoftmaxGrad, {x, x}, AxisAttrs{1});
  const Var y = b.add(Op::kSoftmaxGrad, {h, x}, AxisAttrs{1});
  const Seed seeds[] = {{y, ones(y)}};
  Diagnostics problems;
  differentiate(b, seeds, std::span(&x, 1), problems);
  CHECK(problems.problems().size() == 1);
}

TEST_CASE("which values a loss depends on differentiably") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {3}), w = data(b, "w", {3}), bound = data(b, "bound", {3});
  const Var index = data(b, "index", {2}, DType::kInt64), apart = data(b, "apart", {3});
  const Var y = gather(where(less(x, bound), w * x, 0.0), index, 0);
  const Var z = unary(Op::kSign, apart);
  const ValueId outputs[] = {y.id(), z.id()};
  const ValueId wrt[] = {x.id(), w.id(), bound.id(), index.id(), apart.id(), y.id()};
  CHECK(depends_differentiably(graph, outputs, wrt) ==
        std::vector<bool>{true, true, false, false, false, true});
}

TEST_CASE("gradients in float32 stay in float32, and casts carry them over") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {3}, DType::kFloat32);
  const Var y = exp(cast(2.0 * x, DType::kFloat64));
  const Var dx = gradients(b, y, {x})[0];
  CHECK(dx.dtype() == DType::kFloat32);
}

TEST_CASE("differentiating twice gives second derivatives") {
  Graph graph;
  Builder b(graph);
  const Var x = data(b, "x", {});
  const Var dx = gradients(b, x * x * x, {x})[0];
  const Var second = gradients(b, dx, {x})[0];
  CHECK(std::abs(value(graph, second, {{"x", Tensor::scalar(2.0)}}) - 12) < 1e-12);
}

}  // namespace
}  // namespace trainrt::test
