#include "runtime/executor.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "graph/builder.h"
#include "kernels/reference/evaluate.h"
#include "tests/runtime/count_allocations.h"
#include "tests/runtime/joint_graphs.h"

namespace trainrt {
namespace {

using testing::input_values;
using testing::joint_graph;

PlanOptions reference_options() {
  PlanOptions options;
  options.kernels = kernel_lists(true);
  return options;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

bool is_state(InputRole role) {
  return role == InputRole::kParameter || role == InputRole::kBuffer ||
         role == InputRole::kOptimizerState;
}

// Runs `steps` steps on both and compares every output and state bit by bit.
void compare_with_reference(const Graph& graph, const PlanOptions& options, int steps = 2) {
  auto expected = input_values(graph);
  std::map<std::string, Tensor> state;
  for (const auto& [name, value] : expected) state[name] = value.clone();
  const Plan plan(
      graph, [&](const InputAttrs& a) { return state.at(a.name); }, options);
  Arena arena;
  arena.reserve(plan.arena_bytes());
  // Memory that nobody has written must not matter.
  std::memset(arena.data(), 0xff, arena.bytes());
  Executor executor(plan, arena);
  for (int i = 0; i < steps; ++i) {
    for (NodeId id : graph.inputs()) {
      const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
      if (!is_state(attrs.role)) {
        plan.input(attrs.name, attrs.role).copy_from(expected.at(attrs.name));
      }
    }
    executor.run();
    const auto outputs = evaluate_graph(graph, expected);
    for (const Output& o : graph.outputs()) {
      if (o.role == OutputRole::kState) continue;
      const std::string name = o.role == OutputRole::kGradient ? "grad/" + o.name : o.name;
      INFO("output " << name << " in step " << i);
      REQUIRE(same_bytes(plan.output(o.name, o.role), outputs.at(name)));
    }
    for (NodeId id : graph.inputs()) {
      const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
      if (!is_state(attrs.role)) continue;
      INFO("state " << attrs.name << " in step " << i);
      REQUIRE(same_bytes(state.at(attrs.name), expected.at(attrs.name)));
    }
  }
}

TEST_CASE("the executor agrees with the reference evaluation, whatever is shared") {
  for (int bits = 0; bits < 8; ++bits) {
    INFO("options " << bits);
    PlanOptions options = reference_options();
    options.schedule = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    compare_with_reference(joint_graph({}), options);
  }
}

TEST_CASE("the executor agrees with the reference evaluation under clipping") {
  compare_with_reference(joint_graph({.optimizer = "sgd", .clip_norm = 0.1}), reference_options());
  compare_with_reference(joint_graph({.optimizer = "adamw", .clip_norm = 0.1, .views = false}),
                         reference_options());
}

TEST_CASE("sections run one by one give what a fused run gives") {
  const Graph graph = joint_graph({});
  PlanOptions options = reference_options();
  std::map<std::string, Tensor> states[2];
  Tensor losses[2];
  for (int split = 0; split < 2; ++split) {
    const auto values = input_values(graph);
    for (const auto& [name, value] : values) states[split][name] = value.clone();
    options.schedule.interleave_updates = split == 0;
    const Plan plan(
        graph, [&](const InputAttrs& a) { return states[split].at(a.name); }, options);
    Arena arena;
    arena.reserve(plan.arena_bytes());
    Executor executor(plan, arena);
    for (const char* name : {"x", "t", "hyper"}) {
      for (InputRole role : {InputRole::kData, InputRole::kTarget, InputRole::kHyper}) {
        Tensor to = plan.input(name, role);
        if (to.defined()) to.copy_from(values.at(name));
      }
    }
    if (split == 0) {
      executor.run();
    } else {
      const size_t backward = plan.section_begin(Section::kBackward);
      const size_t update = plan.section_begin(Section::kUpdate);
      REQUIRE(backward > 0);
      REQUIRE(update > backward);
      executor.run(0, backward);
      executor.run(backward, update);
      executor.run(update, plan.steps().size());
    }
    losses[split] = plan.output("loss", OutputRole::kLoss).clone();
  }
  CHECK(same_bytes(losses[0], losses[1]));
  for (const auto& [name, value] : states[0]) {
    INFO(name);
    CHECK(same_bytes(value, states[1].at(name)));
  }
}

TEST_CASE("updates as soon as their gradient is there need less memory") {
  const Graph graph = joint_graph({.layers = 8});
  auto bytes = [&](ScheduleOptions schedule) {
    auto values = input_values(graph);
    PlanOptions options = reference_options();
    options.schedule = schedule;
    return Plan(
               graph, [&](const InputAttrs& a) { return values.at(a.name); }, options)
        .arena_bytes();
  };
  const size_t best = bytes({true, true, true});
  CHECK(best < bytes({false, true, true}));
  CHECK(best <= bytes({true, false, false}));
}

TEST_CASE("views and results in place need no memory of their own") {
  Graph graph;
  Builder b(graph);
  Var h = exp(b.input({"x", InputRole::kData, DType::kFloat64, {1024}}));
  for (int i = 0; i < 4; ++i) h = unary(Op::kNeg, reshape(unary(Op::kTanh, h), {32, 32}));
  graph.add_output("y", reduce_sum(h, {0}).id());
  auto bytes = [&](ScheduleOptions schedule) {
    PlanOptions options = reference_options();
    options.schedule = schedule;
    return Plan(graph, {}, options).arena_bytes();
  };
  CHECK(bytes({true, true, true}) < bytes({true, false, true}));
  CHECK(bytes({true, true, true}) < bytes({true, false, false}));
}

TEST_CASE("a step allocates nothing") {
  const Graph graph = joint_graph({.clip_norm = 1.0});
  auto values = input_values(graph);
  const Plan plan(
      graph, [&](const InputAttrs& a) { return values.at(a.name); }, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  Executor executor(plan, arena);
  executor.run();
  const long before = testing::allocation_count();
  executor.run();
  CHECK(testing::allocation_count() - before == 0);
}

TEST_CASE("a plan follows an arena that moves") {
  const Graph graph = joint_graph({});
  auto values = input_values(graph);
  std::map<std::string, Tensor> state;
  for (const auto& [name, value] : values) state[name] = value.clone();
  const Plan plan(
      graph, [&](const InputAttrs& a) { return state.at(a.name); }, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  Executor executor(plan, arena);
  plan.input("x", InputRole::kData).copy_from(values.at("x"));
  plan.input("t", InputRole::kTarget).copy_from(values.at("t"));
  executor.run();
  const double before = plan.output("loss", OutputRole::kLoss).item();
  arena.reserve(arena.bytes() * 8);
  for (const auto& [name, value] : values) state[name].copy_from(value);
  executor.run();
  CHECK(plan.output("loss", OutputRole::kLoss).item() == before);
}

TEST_CASE("a state that is an output of its own survives its update") {
  Graph graph;
  Builder b(graph);
  const Var w = b.input({"w", InputRole::kParameter, DType::kFloat64, {3}});
  const Var old = unary(Op::kIdentity, w);
  graph.add_output("old", old.id());
  b.set_section(Section::kUpdate);
  const Var next = b.add(Op::kAssign, {w, exp(w)});
  graph.add_output("w", next.id(), OutputRole::kState);
  Tensor state = Tensor::from<double>({0, 1, 2}, {3});
  const Plan plan(
      graph, [&](const InputAttrs&) { return state; }, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  Executor(plan, arena).run();
  CHECK(plan.output("old", OutputRole::kOutput).data<double>()[2] == 2);
  CHECK(state.data<double>()[0] == 1);
}

TEST_CASE("an input, a constant and a parameter may be outputs") {
  Graph graph;
  Builder b(graph);
  graph.add_output("x", b.input({"x", InputRole::kData, DType::kFloat64, {2}}).id());
  graph.add_output("c", b.constant(Tensor::from<double>({7, 8}, {2})).id());
  graph.add_output("w", b.input({"w", InputRole::kParameter, DType::kFloat64, {2}}).id());
  Tensor w = Tensor::from<double>({5, 6}, {2});
  const Plan plan(
      graph, [&](const InputAttrs&) { return w; }, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  plan.input("x", InputRole::kData).copy_from(Tensor::from<double>({1, 2}, {2}));
  Executor(plan, arena).run();
  CHECK(plan.output("x", OutputRole::kOutput).data<double>()[1] == 2);
  CHECK(plan.output("c", OutputRole::kOutput).data<double>()[1] == 8);
  CHECK(plan.output("w", OutputRole::kOutput).data<double>()[1] == 6);
}

TEST_CASE("empty tensors run") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {0, 3}});
  graph.add_output("y", exp(x + 1.0).id());
  graph.add_output("s", reduce_sum(x, {0}).id());
  const Plan plan(graph, {}, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  Executor(plan, arena).run();
  CHECK(plan.output("y", OutputRole::kOutput).shape() == Shape{0, 3});
  CHECK(plan.output("s", OutputRole::kOutput).data<double>()[2] == 0);
}

TEST_CASE("a failing step names its node") {
  Graph graph;
  Builder b(graph);
  b.set_source(graph.add_source({"lookup", "Gather", "", 17}));
  const Var table = b.input({"table", InputRole::kData, DType::kFloat64, {3, 2}});
  const Var ids = b.input({"ids", InputRole::kData, DType::kInt64, {1}});
  graph.add_output("y", gather(table, ids, 0).id());
  const Plan plan(graph, {}, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  plan.input("ids", InputRole::kData).data<int64_t>()[0] = 7;
  Executor executor(plan, arena);
  try {
    executor.run();
    FAIL("an index out of range went through");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kRuntime);
    CHECK(std::string(e.what()).find("lookup") != std::string::npos);
    CHECK(std::string(e.what()).find("7") != std::string::npos);
  }
}

TEST_CASE("the NaN check stops at the node that makes the first one") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {2}});
  b.set_source(graph.add_source({"bad_log", "Log", "", 17}));
  const Var y = log(x);
  b.set_source(graph.add_source({"later", "Add", "", 17}));
  graph.add_output("y", (y + 1.0).id());
  const Plan plan(graph, {}, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  Executor executor(plan, arena);
  plan.input("x", InputRole::kData).fill(-1);
  executor.run();  // NaN is no failure by itself
  executor.set_nan_check(true);
  try {
    executor.run();
    FAIL("NaN went through");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("bad_log") != std::string::npos);
  }
}

TEST_CASE("the observer sees every step in order") {
  const Graph graph = joint_graph({});
  auto values = input_values(graph);
  const Plan plan(
      graph, [&](const InputAttrs& a) { return values.at(a.name); }, reference_options());
  Arena arena;
  arena.reserve(plan.arena_bytes());
  Executor executor(plan, arena);
  std::vector<size_t> seen;
  executor.set_observer([&](size_t i, double start, double ms) {
    CHECK(start >= 0);
    CHECK(ms >= 0);
    seen.push_back(i);
  });
  executor.run();
  REQUIRE(seen.size() == plan.steps().size());
  CHECK(seen.back() + 1 == seen.size());
}

TEST_CASE("a plan above the memory limit is refused with the numbers") {
  const Graph graph = joint_graph({});
  bool asked = false;
  PlanOptions options = reference_options();
  options.memory_limit = 1000;
  auto state = [&](const InputAttrs& a) {
    asked = true;
    return Tensor(a.dtype, a.shape);
  };
  try {
    Plan plan(graph, state, options);
    FAIL("the plan was made");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kMemory);
    CHECK(std::string(e.what()).find("smaller batches") != std::string::npos);
  }
  CHECK_FALSE(asked);
}

TEST_CASE("the text of a plan names rows and places") {
  const Graph graph = joint_graph({});
  auto values = input_values(graph);
  const Plan plan(
      graph, [&](const InputAttrs& a) { return values.at(a.name); }, reference_options());
  const std::string text = plan.text();
  CHECK(text.find("MatMul") != std::string::npos);
  CHECK(text.find("@state") != std::string::npos);
  CHECK(text.find("arena ") != std::string::npos);
  CHECK(plan.flops() > 0);
}

}  // namespace
}  // namespace trainrt
