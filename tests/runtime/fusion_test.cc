// Random graphs give the same bits before and after the passes that fuse nodes and make values
// again.
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>

#include "graph/builder.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "kernels/kernel.h"
#include "kernels/reference/evaluate.h"

namespace trainrt {
namespace {

bool runs_fused(const std::string& program, std::span<const TensorType> in,
                std::span<const TensorType> out) {
  const Attrs attrs = FusedAttrs{program};
  for (const KernelRow& row : cpu_kernels()) {
    if (row.op == Op::kFused && row.supports({Op::kFused, attrs, in, out}).ok) return true;
  }
  return false;
}

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed), b_(graph_) {}

  Graph make() {
    for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
             {"x", {4, 6}}, {"y", {4, 6}}, {"row", {6}}, {"column", {4, 1}}, {"flat", {24}}}) {
      values_.push_back(b_.input({name, InputRole::kData, DType::kFloat32, shape}));
    }
    const Var state = b_.input({"state", InputRole::kBuffer, DType::kFloat32, {4, 6}});
    values_.push_back(state);
    for (int64_t i = draw(20); i >= 0; --i) step();
    const Var next = last_of({4, 6});
    const Var updated = b_.add(Op::kAssign, {state, next});
    graph_.add_output("state", updated.id(), OutputRole::kState);
    // Nobody reads the old state from here on.
    std::erase_if(values_, [&](Var v) { return v.id() == state.id() || is_view_of(v, state); });
    b_.set_section(Section::kBackward);
    for (int64_t i = draw(20); i >= 0; --i) step();
    graph_.add_output("last", values_.back().id());
    for (int64_t i = draw(4); i >= 0; --i) {
      graph_.add_output("o" + std::to_string(i), pick().id());
    }
    Graph copy = graph_;
    make_dead_code_pass()->run(copy);
    return copy;
  }

 private:
  int64_t draw(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  Var pick() {
    // Recent values more often: chains.
    const auto n = static_cast<int64_t>(values_.size());
    return values_[static_cast<size_t>(draw(2) == 0 ? std::max(n - 1 - draw(4), int64_t{0})
                                                    : draw(n))];
  }
  bool is_view_of(Var v, Var of) const {
    const Node& node = graph_.producer(v.id());
    return node.op == Op::kReshape && node.inputs[0] == of.id();
  }
  Var last_of(const Shape& shape) const {
    for (size_t i = values_.size(); i-- > 0;) {
      if (values_[i].shape() == shape && graph_.producer(values_[i].id()).op != Op::kInput) {
        return values_[i];
      }
    }
    return values_[0];
  }

  void step() {
    constexpr Op kUnary[] = {Op::kNeg, Op::kAbs, Op::kRelu, Op::kSigmoid, Op::kTanh};
    constexpr Op kBinary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kMax};
    const Shape views[] = {{4, 6}, {24}, {2, 2, 6}, {4, 2, 3}, {8, 3}, {1, 24, 1}};
    const Var a = pick(), c = pick();
    try {
      switch (draw(9)) {
        case 0:
        case 1:
          return values_.push_back(unary(kUnary[draw(5)], a));
        case 2:
        case 3:
        case 4:
          return values_.push_back(binary(kBinary[draw(4)], a, c));
        case 5:
          return values_.push_back(where(less(a, c), a * 0.5, c));
        case 6:
          if (a.type().size() == 24) values_.push_back(reshape(a, views[draw(6)]));
          return;
        case 7:
          return values_.push_back(
              reduce_sum(a, {draw(std::max<int64_t>(a.rank(), 1))}, draw(2) == 0));
        default:
          return values_.push_back(softmax(a, -1));
      }
    } catch (const Error&) {
      // Shapes that do not fit: no node was added.
    }
  }

  std::mt19937 random_;
  Graph graph_;
  Builder b_;
  std::vector<Var> values_;
};

std::map<std::string, Tensor> evaluate(const Graph& graph) {
  std::map<std::string, Tensor> inputs;
  std::mt19937 random(7);
  for (NodeId id : graph.inputs()) {
    const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
    Tensor t(attrs.dtype, attrs.shape);
    for (float& v : t.data<float>()) v = std::uniform_real_distribution<float>(-2, 2)(random);
    inputs[attrs.name] = t;
  }
  std::map<std::string, Tensor> results = evaluate_graph(graph, inputs);
  results["state"] = inputs["state"];
  return results;
}

void check_same(const Graph& before, const Graph& after) {
  const auto want = evaluate(before), got = evaluate(after);
  REQUIRE(got.size() == want.size());
  for (const auto& [name, value] : want) {
    INFO(name);
    CHECK(std::memcmp(got.at(name).raw(), value.raw(), value.bytes()) == 0);
  }
}

/// Everything may run again, at several prices, and in parts of the graph.
RecomputeOptions recompute_options(uint32_t seed) {
  RecomputeOptions options;
  options.cost = [](const Graph&, const Node&) { return 16; };
  options.weight = seed % 3;
  options.segment_bytes = seed % 5 * 100;
  return options;
}

TEST_CASE("fusion: random graphs keep their results") {
  int fused = 0, recomputed = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Graph before = RandomGraph(seed).make();
    INFO("seed " << seed << "\n" << print(before));
    Graph after = before;
    RecomputeReport report;
    make_recompute_pass(recompute_options(seed), &report)->run(after);
    verify(after);
    check_same(before, after);
    recomputed += report.values;
    fused += make_fuse_pass(runs_fused)->run(after) ? 1 : 0;
    INFO(print(after));
    verify(after);
    make_dead_code_pass()->run(after);
    check_same(before, after);
  }
  CHECK(fused > 300);
  CHECK(recomputed > 50);
}

}  // namespace
}  // namespace trainrt
