#include "runtime/schedule.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "graph/builder.h"
#include "kernels/kernel.h"
#include "tests/runtime/joint_graphs.h"

namespace trainrt {
namespace {

struct Scheduled {
  Graph graph;
  Schedule schedule;
  int32_t block(Var v) const { return schedule.block_of[static_cast<size_t>(v.id().index)]; }
  const Block& block_at(Var v) const { return schedule.blocks[static_cast<size_t>(block(v))]; }
};

Schedule schedule_of(const Graph& graph, const ScheduleOptions& options = {}) {
  Diagnostics problems;
  const auto rows = partition(graph, kernel_lists(true), problems);
  problems.throw_if_any(ErrorCode::kInternal, "test");
  return make_schedule(graph, rows, options);
}

int32_t position(const Schedule& s, const Graph& graph, Op op, bool last = false) {
  int32_t found = -1;
  for (size_t p = 0; p < s.order.size(); ++p) {
    if (graph.node(s.order[p]).op != op) continue;
    found = static_cast<int32_t>(p);
    if (!last) break;
  }
  return found;
}

TEST_CASE("views share the storage of what they show") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {4}});
  const Var h = exp(x);
  const Var view = stop_gradient(reshape(h, {2, 2}));
  const Var y = view + 1.0;
  graph.add_output("y", y.id());
  const Schedule s = schedule_of(graph);
  CHECK(s.block_of[static_cast<size_t>(h.id().index)] ==
        s.block_of[static_cast<size_t>(view.id().index)]);
  CHECK(position(s, graph, Op::kReshape) == -1);
  ScheduleOptions apart;
  apart.share_views = false;
  const Schedule copied = schedule_of(graph, apart);
  CHECK(position(copied, graph, Op::kReshape) >= 0);
}

TEST_CASE("an operand is overwritten only where it dies") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {4}});
  const Var h = exp(x);
  const Var first = unary(Op::kTanh, h);  // h lives on
  const Var second = unary(Op::kNeg, h);  // h dies
  const Var y = first + second;
  graph.add_output("y", y.id());
  const Schedule s = schedule_of(graph);
  auto block = [&](Var v) { return s.block_of[static_cast<size_t>(v.id().index)]; };
  CHECK(block(first) != block(h));
  Diagnostics problems;
  const auto rows = partition(graph, kernel_lists(true), problems);
  const bool in_place =
      rows[static_cast<size_t>(graph.value(second.id()).producer.index)].row->in_place;
  CHECK((block(second) == block(h)) == in_place);
}

TEST_CASE("inputs, constants and outputs are never overwritten") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {4}});
  const Var c = b.constant(Tensor::from<double>({1, 2, 3, 4}, {4}));
  const Var kept = exp(x);
  const Var y = unary(Op::kNeg, kept) + unary(Op::kAbs, x) + unary(Op::kSin, c);
  graph.add_output("kept", kept.id());
  graph.add_output("y", y.id());
  const Schedule s = schedule_of(graph);
  auto block = [&](Var v) { return s.block_of[static_cast<size_t>(v.id().index)]; };
  CHECK(s.blocks[static_cast<size_t>(block(x))].storage == Storage::kInput);
  CHECK(s.blocks[static_cast<size_t>(block(c))].storage == Storage::kConstant);
  CHECK(s.blocks[static_cast<size_t>(block(kept))].storage == Storage::kOutput);
  for (const Node& node : graph.nodes()) {
    if (node.inputs.empty()) continue;
    const int32_t out = s.block_of[static_cast<size_t>(node.outputs[0].index)];
    CHECK(out != block(x));
    CHECK(out != block(c));
    if (node.outputs[0] != kept.id()) CHECK(out != block(kept));
  }
}

TEST_CASE("an update runs as soon as its gradient is there and its parameter is read no more") {
  const Graph graph = testing::joint_graph({.layers = 4});
  const Schedule s = schedule_of(graph);
  // The last layer's update comes before the first layer's gradient.
  const int32_t first_update = position(s, graph, Op::kOptimizerUpdate);
  const int32_t last_matmul = position(s, graph, Op::kMatMul, true);
  CHECK(first_update < last_matmul);
  for (size_t p = 0; p < s.order.size(); ++p) {
    const Node& update = graph.node(s.order[p]);
    if (update.op != Op::kOptimizerUpdate) continue;
    for (size_t q = p + 1; q < s.order.size(); ++q) {
      const Node& later = graph.node(s.order[q]);
      CHECK(std::find(later.inputs.begin(), later.inputs.end(), update.inputs[0]) ==
            later.inputs.end());
    }
  }
}

TEST_CASE("without interleaving the sections follow each other") {
  const Graph graph = testing::joint_graph({});
  ScheduleOptions options;
  options.interleave_updates = false;
  const Schedule s = schedule_of(graph, options);
  for (size_t p = 1; p < s.order.size(); ++p) {
    CHECK(graph.node(s.order[p - 1]).section <= graph.node(s.order[p]).section);
  }
}

TEST_CASE("what an update needs besides the gradient is not made early") {
  Graph graph;
  Builder b(graph);
  const Var w = b.input({"w", InputRole::kParameter, DType::kFloat64, {4}});
  const Var average = b.input({"ema/w", InputRole::kOptimizerState, DType::kFloat64, {4}});
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {4}});
  Var h = x * w;
  for (int i = 0; i < 5; ++i) h = exp(h);
  graph.add_output("y", h.id());
  b.set_section(Section::kUpdate);
  const Var decayed = average * 0.9;
  const Var next = b.add(Op::kAssign, {average, decayed + h});
  graph.add_output("ema/w", next.id(), OutputRole::kState);
  const Schedule s = schedule_of(graph);
  const NodeId producer = graph.value(decayed.id()).producer;
  const auto at = std::find(s.order.begin(), s.order.end(), producer) - s.order.begin();
  CHECK(at > position(s, graph, Op::kExp, true));
}

TEST_CASE("small fills are stored, large ones are made when needed") {
  Node node;
  node.op = Op::kFill;
  node.attrs = FillAttrs{DType::kFloat32, {16}, 1.0};
  CHECK(is_stored_constant(node));
  node.attrs = FillAttrs{DType::kFloat32, {1 << 20}, 1.0};
  CHECK_FALSE(is_stored_constant(node));
}

}  // namespace
}  // namespace trainrt
