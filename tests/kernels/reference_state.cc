#include "graph/builder.h"
#include "kernels/kernel.h"
#include "kernels/philox.h"
#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

const Tensor kKey = vec<int64_t>({42, 7});

TEST_CASE("Philox4x32-10 gives the published words") {
  const auto zero = Philox{}(0);
  CHECK(zero == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const Philox ones{~uint64_t{0}, ~uint64_t{0}, 0};
  CHECK(ones(~uint64_t{0}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("Dropout keeps what its words say and scales it") {
  const Tensor x = noise({5, 9}, 1, 1, 2);
  const Tensor y = eval(Op::kDropout, {x, kKey}, DropoutAttrs{0.25, 3});
  std::vector<double> want;
  for (size_t i = 0; i < 45; ++i) {
    const bool kept = to_uniform(philox_word(Philox{42, 7, 3}, i)) >= 0.25;
    want.push_back(kept ? x.data<double>()[i] / 0.75 : 0);
  }
  check_close(y, want);
}

TEST_CASE("Dropout depends on seed, step and stream only") {
  const Tensor x = noise({1000}, 1, 1, 2);
  const auto mask = [&](const Tensor& key, int64_t stream) {
    return values<double>(eval(Op::kDropout, {x, key}, DropoutAttrs{0.5, stream}));
  };
  CHECK(mask(kKey, 0) == mask(kKey, 0));
  CHECK(mask(kKey, 0) != mask(kKey, 1));
  CHECK(mask(kKey, 0) != mask(vec<int64_t>({42, 8}), 0));
  CHECK(mask(kKey, 0) != mask(vec<int64_t>({43, 7}), 0));
}

TEST_CASE("Dropout of ratio 0 is the identity, of ratio 1 zero, and drops NaN") {
  const Tensor x = vec<double>({1, 2, kNaN});
  check_close(eval(Op::kDropout, {x, kKey}, DropoutAttrs{0, 0}), x);
  const std::vector<TensorType> type = {{DType::kFloat64, {3}}};
  check_close(
      evaluate_node(Op::kDropout, DropoutAttrs{1, 0}, std::vector<Tensor>{x, kKey}, type)[0],
      {0, 0, 0});
}

TEST_CASE("Random uniform stays in its range and has its mean") {
  for (DType type : {DType::kFloat32, DType::kFloat64}) {
    const Tensor y =
        eval(Op::kRandom, {kKey}, RandomAttrs{RandomKind::kUniform, type, {100001}, 1, 2, 0})
            .to(DType::kFloat64);
    double sum = 0;
    bool inside = true;
    for (double v : y.data<double>()) {
      sum += v;
      inside = inside && v >= 1 && v < 2;
    }
    CHECK(inside);
    CHECK(std::abs(sum / 100001 - 1.5) < 0.005);
  }
}

TEST_CASE("Random normal has its mean and deviation") {
  const Tensor y = eval(Op::kRandom, {kKey},
                        RandomAttrs{RandomKind::kNormal, DType::kFloat64, {100001}, 3, 2, 5});
  double sum = 0, squares = 0;
  for (double v : y.data<double>()) {
    sum += v - 3;
    squares += (v - 3) * (v - 3);
  }
  CHECK(std::abs(sum / 100001) < 0.03);
  CHECK(std::abs(squares / 100001 - 4) < 0.06);
  const Philox p{42, 7, 5};
  const double u = 1 - to_uniform(philox_word(p, 6)), v = to_uniform(philox_word(p, 7));
  CHECK(std::abs(y.data<double>()[3] -
                 (3 + 2 * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v))) < 1e-12);
}

/// Runs an update for several steps on the scalar w with gradient g(w) = w; returns w after each.
std::vector<double> train(const OptimizerAttrs& attrs, int steps) {
  const size_t slots = optimizer_slots(attrs.kind).size();
  Tensor w = vec<double>({1.0});
  std::vector<Tensor> state(slots, Tensor(DType::kFloat64, {1}));
  std::vector<double> path;
  for (int t = 1; t <= steps; ++t) {
    std::vector<Tensor> in = {w, w.clone(), vec<double>({0.1, double(t)}), Tensor::scalar(0.5)};
    in.insert(in.end(), state.begin(), state.end());
    const auto out = eval_all(Op::kOptimizerUpdate, in, attrs);
    w = out[0];
    state.assign(out.begin() + 1, out.end());
    path.push_back(w.item());
  }
  return path;
}

TEST_CASE("sgd with weight decay and gradient scale") {
  // g = 0.5 w + 0.2 w; w -= 0.1 g
  check_close(train({OptimizerKind::kSgd, 0.2, 0, 0, 0, 0, 0}, 2), {0.93, 0.93 * 0.93});
}

TEST_CASE("momentum starts its buffer with the gradient, dampening counts from the second step") {
  // buffer1 = 0.5, w1 = 0.95; buffer2 = 0.9 * 0.5 + 0.6 * 0.475 = 0.735, w2 = 0.8765
  check_close(train({OptimizerKind::kMomentum, 0, 0.9, 0.4, 0, 0, 0}, 2), {0.95, 0.8765});
}

TEST_CASE("nesterov looks ahead") {
  // w1 = 1 - 0.1 (0.5 + 0.9 * 0.5) = 0.905; buffer2 = 0.45 + 0.4525, w2 = w1 - 0.1 (0.4525 + 0.9
  // buffer2)
  check_close(train({OptimizerKind::kNesterov, 0, 0.9, 0, 0, 0, 0}, 2),
              {0.905, 0.905 - 0.1 * (0.4525 + 0.9 * 0.9025)});
}

TEST_CASE("adam with bias correction") {
  const OptimizerAttrs a{OptimizerKind::kAdam, 0, 0, 0, 0.9, 0.99, 1e-8};
  // Step 1 moves by lr * g / (|g| + eps).
  const double w1 = 1 - 0.1 * 0.5 / (0.5 + 1e-8), g2 = 0.5 * w1;
  const double m = 0.9 * 0.05 + 0.1 * g2, v = 0.99 * 0.0025 + 0.01 * g2 * g2;
  const double w2 =
      w1 - 0.1 * (m / (1 - 0.81)) / (std::sqrt(v) / std::sqrt(1 - 0.99 * 0.99) + 1e-8);
  check_close(train(a, 2), {w1, w2});
}

TEST_CASE("adam adds weight decay to the gradient, adamw shrinks the parameter first") {
  OptimizerAttrs a{OptimizerKind::kAdam, 0.3, 0, 0, 0.9, 0.99, 0};
  check_close(train(a, 1), {0.9});
  a.kind = OptimizerKind::kAdamW;
  check_close(train(a, 1), {1 - 0.1 * 0.3 - 0.1});
}

TEST_CASE("OptimizerUpdate in place gives what it gives out of place") {
  const Attrs attrs = OptimizerAttrs{OptimizerKind::kAdamW, 0.1, 0, 0, 0.9, 0.99, 1e-8};
  std::vector<Tensor> in = {noise({50}, 1),      noise({50}, 2), vec<double>({0.1, 3}),
                            Tensor::scalar(1.0), noise({50}, 3), noise({50}, 4, 0, 1)};
  const auto want = eval_all(Op::kOptimizerUpdate, in, attrs);
  std::vector<TensorType> types;
  std::vector<const void*> pointers;
  for (const Tensor& t : in) {
    types.push_back({t.dtype(), t.shape()});
    pointers.push_back(t.raw());
  }
  const std::vector<TensorType> outputs(3, types[0]);
  void* out[] = {in[0].raw(), in[4].raw(), in[5].raw()};
  for (const KernelRow& row : reference_kernels()) {
    if (row.op != Op::kOptimizerUpdate) continue;
    Scratch scratch;
    row.plan({row.op, attrs, types, outputs}, scratch)->run({pointers.data(), out, nullptr});
  }
  check_close(in[0], want[0]);
  check_close(in[4], want[1]);
  check_close(in[5], want[2]);
}

TEST_CASE("Assign and AssignAdd") {
  const Tensor state = vec<double>({1, 2}), value = vec<double>({10, 20});
  check_close(eval(Op::kAssign, {state, value}), {10, 20});
  check_close(eval(Op::kAssignAdd, {state, value}), {11, 22});
  CHECK(values<int64_t>(eval(Op::kAssignAdd, {vec<int64_t>({1}), vec<int64_t>({4})})) ==
        std::vector<int64_t>{5});
}

TEST_CASE("evaluate_graph runs nodes in order and changes states in place") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {2}});
  const Var w = b.input({"w", InputRole::kParameter, DType::kFloat64, {2}});
  const Var m = b.input({"m", InputRole::kOptimizerState, DType::kFloat64, {2}});
  const Var hyper = b.input({"hyper", InputRole::kHyper, DType::kFloat64, {2}});
  const Var y = x * w + 1.0;
  graph.add_output("y", y.id());
  graph.add_output("w", x.id(), OutputRole::kGradient);
  b.set_section(Section::kUpdate);
  const Var one = b.fill(DType::kFloat64, 1);
  const Var fresh = b.add(Op::kOptimizerUpdate, {w, x, hyper, one, m},
                          OptimizerAttrs{OptimizerKind::kMomentum, 0, 0.9, 0, 0, 0, 0});
  graph.add_output("w", fresh.id(), OutputRole::kState);
  Tensor parameter = vec<double>({3, 4}), slot = vec<double>({1, 1});
  const auto out = evaluate_graph(graph, {{"x", vec<double>({1, 2})},
                                          {"w", parameter},
                                          {"m", slot},
                                          {"hyper", vec<double>({0.5, 2})}});
  CHECK(out.size() == 2);
  check_close(out.at("y"), {4, 9});
  check_close(out.at("grad/w"), {1, 2});
  check_close(slot, {1.9, 2.9});
  check_close(parameter, {3 - 0.95, 4 - 1.45});
}

TEST_CASE("evaluate_graph names missing and misshapen inputs, and failing nodes") {
  Graph graph;
  Builder b(graph);
  const Var x = b.input({"x", InputRole::kData, DType::kFloat64, {2}});
  const Var i = b.input({"i", InputRole::kData, DType::kInt64, {1}});
  graph.add_output("y", gather(x, i, 0).id());
  const Tensor good = vec<double>({1, 2});
  CHECK(message_of([&] { evaluate_graph(graph, {{"x", good}}); }).find("'i'") != std::string::npos);
  CHECK(message_of([&] {
          evaluate_graph(graph, {{"x", good}, {"i", vec<int64_t>({0, 1})}});
        }).find("expected int64[1], given int64[2]") != std::string::npos);
  const std::string text = message_of([&] {
    evaluate_graph(graph, {{"x", good}, {"i", vec<int64_t>({2})}});
  });
  CHECK(text.find("Gather: index 2 is outside [-2, 1]") != std::string::npos);
  CHECK(text.find("= Gather") != std::string::npos);
}

}  // namespace
}  // namespace trainrt::testing
