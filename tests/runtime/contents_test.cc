// Branches, trip counts and shapes that follow from what tensors hold.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "runtime/session.h"
#include "tests/frontend/model_util.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::exact;
using testing::numbers;

StepSpec gradients_of_sum() {
  StepSpec spec;
  spec.losses = {parse_loss("sum")};
  spec.seeds = Seeds::kLoss;
  spec.input_grads = true;
  return spec;
}

struct Step {
  std::shared_ptr<CompiledStep> step;
  double loss = 0;
  Tensor grad(const std::string& name) const {
    return step->plan->output(name, OutputRole::kGradient).clone();
  }
};

Step run(Session& session, const TensorMap& inputs) {
  Batch batch = session.make_batch(inputs);
  Step result;
  result.step = session.prepare(gradients_of_sum(), batch);
  session.load(*result.step, batch);
  session.run(*result.step);
  result.loss = result.step->plan->output("loss", OutputRole::kLoss).item();
  return result;
}

void check_differences(Session& session, const Tensor& x) {
  constexpr double kStep = 1e-6;
  const Tensor gradient = run(session, {{"x", x}}).grad("x");
  for (int64_t i = 0; i < x.size(); ++i) {
    auto moved = [&](double by) {
      Tensor other = x.clone();
      other.data<double>()[static_cast<size_t>(i)] += by;
      return run(session, {{"x", other}}).loss;
    };
    const double numeric = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    INFO("element " << i);
    CHECK(std::abs(gradient.data<double>()[static_cast<size_t>(i)] - numeric) <
          1e-7 * std::max(1.0, std::abs(numeric)));
  }
}

std::shared_ptr<Session> session_of(const std::string& graph) {
  return testing::load(model_bytes(graph_text(graph)), exact()).session();
}

const char* const kBranch =
    "g (float[n] x) => (float[n] y) <float zero = {0}, float[2] a = {3, -2}, float[2] b = {5, 7}>"
    "{ s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero)"
    " y = If (c) <then_branch = t () => (float[n] p) { p = Mul(x, a) },"
    " else_branch = e () => (float[n] q) { q0 = Mul(x, x) q = Mul(q0, b) }> }";

TEST_CASE("the branch that the contents choose runs, forward and backward") {
  const auto session = session_of(kBranch);
  const Step then = run(*session, {{"x", doubles({2, 1}, {2})}});
  CHECK(then.loss == 4);
  CHECK(then.step->trainable == std::vector<std::string>{"a"});
  const Step otherwise = run(*session, {{"x", doubles({-2, 1}, {2})}});
  CHECK(otherwise.loss == 27);
  CHECK(otherwise.step->trainable == std::vector<std::string>{"b"});
  CHECK(otherwise.grad("x").data<double>()[0] == -20);
}

TEST_CASE("a plan is used again while the contents decide alike") {
  const auto session = session_of(kBranch);
  const auto first = run(*session, {{"x", doubles({2, 1}, {2})}}).step;
  const auto second = run(*session, {{"x", doubles({-2, 1}, {2})}}).step;
  CHECK(first != second);
  CHECK(run(*session, {{"x", doubles({3, 4}, {2})}}).step == first);
  CHECK(run(*session, {{"x", doubles({-3, -4}, {2})}}).step == second);
}

TEST_CASE("a weight decides, with the value it has at the time") {
  const auto session = session_of(
      "g (float[1] x) => (float[1] y) <float one = {1}, float[1] w = {2}>"
      "{ c0 = Greater(w, one) ax = Constant<value_ints: ints = [0]>() c = Squeeze(c0, ax)"
      " y = If (c) <then_branch = t () => (float[1] p) { p = Mul(x, w) },"
      " else_branch = e () => (float[1] q) { q = Neg(x) }> }");
  const Tensor x = doubles({5}, {1});
  CHECK(run(*session, {{"x", x}}).loss == 10);
  Tensor w = session->find_parameter("w")->value();
  w.data<double>()[0] = 0.5;
  CHECK(run(*session, {{"x", x}}).loss == -5);
}

TEST_CASE("a loop runs until its condition fails") {
  const auto session = session_of(
      "g (float[3] x) => (float[3] y) <bool yes = {1}, float top = {10}, float[3] w = {2, 3, 1.5}>"
      "{ y = Loop (``, yes, x) <body = b (int64 i, bool k, float[3] p) => (bool k2, float[3] p2)"
      " { p2 = Mul(p, w) n = ReduceL1<keepdims = 0>(p2) k2 = Less(n, top) }> }");
  CHECK(run(*session, {{"x", doubles({1, 1, 1}, {3})}}).loss == 4 + 9 + 2.25);
  CHECK(run(*session, {{"x", doubles({0.5, 0.5, 0.5}, {3})}}).loss == 4 + 13.5 + 1.6875);
  CHECK(run(*session, {{"x", doubles({10, 1, 1}, {3})}}).loss == 20 + 3 + 1.5);
  check_differences(*session, doubles({0.3, -0.2, 0.7}, {3}));
}

TEST_CASE("what a mask keeps has a size of its own") {
  const auto session = session_of(
      "g (float[n,2] x) => (float[m] y) <float zero = {0}, float[2] w = {2, -3}>"
      "{ z = Mul(x, w) p = Greater(z, zero) at = NonZero(p) where = Transpose(at)"
      " k = GatherND(z, where) y = Mul(k, k) }");
  const Step step = run(*session, {{"x", doubles({1, 2, 3, -4, -5, -6}, {3, 2})}});
  CHECK(step.loss == 4 + 36 + 144 + 324);
  CHECK(step.step->plan->output("y", OutputRole::kOutput).shape() == Shape{4});
  check_differences(*session, doubles({1, 2, 3, -4, -5, -6}, {3, 2}));
}

const char* const kWhere =
    " at = NonZero(x) where = Transpose(at) y = GatherND(w, where) z = Mul(x, zero) }";

TEST_CASE("contents that change in place decide anew") {
  const auto session =
      session_of(std::string("g (float[3] x) => (float[m] y, float[3] z) <float zero = {0},"
                             " float[3] w = {1, 10, 100}> {") +
                 kWhere);
  Tensor x = doubles({0, 5, 5}, {3});
  CHECK(run(*session, {{"x", x}}).loss == 110);
  x.data<double>()[0] = 5;
  x.data<double>()[1] = 0;
  CHECK(run(*session, {{"x", x}}).loss == 101);
}

TEST_CASE("a weight that decides by itself decides anew after it has changed") {
  const auto session = session_of(
      "g (float[2] x) => (float[m] y) <float[2] w = {1, 0}>"
      "{ at = NonZero(w) where = Transpose(at) k = Mul(x, w) y = GatherND(k, where) }");
  const Tensor x = doubles({3, 4}, {2});
  CHECK(run(*session, {{"x", x}}).loss == 3);
  REQUIRE(session->parameters().size() == 1);
  session->parameters()[0]->value().copy_from(doubles({0, 1}, {2}));
  CHECK(run(*session, {{"x", x}}).loss == 4);
}

TEST_CASE("what was computed on the way to one decision is a decision of its own when asked for") {
  const auto session = session_of(
      std::string("g (float[3] x) => (float[m] y, float[3] z, float[3] q) <float zero = {0},"
                  " float[3] w = {1, 10, 100}>"
                  "{ s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero)"
                  " q = If (c) <then_branch = t () => (float[3] a) { a = Mul(x, zero) },"
                  " else_branch = e () => (float[3] b) { b = Neg(x) }>") +
      kWhere);
  CHECK(run(*session, {{"x", doubles({0, 5, 5}, {3})}}).loss == 110);
  CHECK(run(*session, {{"x", doubles({5, 0, 5}, {3})}}).loss == 101);
}

TEST_CASE("several decisions may hang on one computed value") {
  const auto session = session_of(
      "g (float[n] x) => (float[n] y) <float zero = {0}, float five = {5}, float[1] w = {1}>"
      "{ s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero) d = Greater(s, five)"
      " p = If (c) <then_branch = t () => (float[n] a) { a = Mul(x, w) },"
      " else_branch = e () => (float[n] b) { b = Neg(x) }>"
      " y = If (d) <then_branch = t2 () => (float[n] a2) { a2 = Mul(p, p) },"
      " else_branch = e2 () => (float[n] b2) { b2 = Identity(p) }> }");
  CHECK(run(*session, {{"x", doubles({1, 2}, {2})}}).loss == 3);
  CHECK(run(*session, {{"x", doubles({4, 3}, {2})}}).loss == 25);
  CHECK(run(*session, {{"x", doubles({-4, 3}, {2})}}).loss == 1);
}

TEST_CASE("an operator that only an impossible branch holds is no obstacle") {
  const std::string branches =
      " y = If (c) <then_branch = t () => (float[n] p) { p = Neg(x) },"
      " else_branch = e () => (float[n] q) { q = Cosmic(x) }> }";
  const auto known =
      session_of("g (float[n] x) => (float[n] y) { c = Constant<value = bool {1}>()" + branches);
  CHECK(run(*known, {{"x", doubles({2}, {1})}}).loss == -2);
  const auto decided = session_of(
      "g (float[n] x) => (float[n] y) <float zero = {0}>"
      "{ s = ReduceSum<keepdims = 0>(x) c = Greater(s, zero)" +
      branches);
  CHECK(testing::contains(testing::failure(
                              [&] {
                                run(*decided, {{"x", doubles({2}, {1})}});
                              },
                              ErrorCode::kUnsupported),
                          "Cosmic"));
}

TEST_CASE("integer contents of any size decide without becoming part of the plan") {
  const auto session = session_of(
      "g (int64[n] ids, float[n] x) => (float[n] y) <int64 zero = {0}, float[1] w = {2}>"
      "{ m = ReduceMax<keepdims = 0>(ids) c = Greater(m, zero)"
      " y = If (c) <then_branch = t () => (float[n] p) { p = Mul(x, w) },"
      " else_branch = e () => (float[n] q) { q = Neg(x) }> }");
  const Tensor x = numbers({100});
  auto with = [&](int64_t last) {
    std::vector<int64_t> values(100, 0);
    values.back() = last;
    return run(*session, {{"x", x}, {"ids", testing::ids(values)}});
  };
  const Step some = with(3);
  CHECK(with(4).step == some.step);
  CHECK(with(0).loss == -some.loss / 2);
}

TEST_CASE("what decided is remembered even when the caller writes to the same tensor again") {
  const auto session = session_of(
      "g (bool[n] keep, float[n] x) => (float[m] y) <float[1] w = {2}>"
      "{ k = Compress<axis = 0>(x, keep) y = Mul(k, w) }");
  Tensor ones(DType::kFloat64, {100}), keep(DType::kBool, {100});
  ones.fill(1);
  keep.data<bool>()[5] = true;
  CHECK(run(*session, {{"x", ones}, {"keep", keep}}).loss == 2);
  keep.data<bool>()[7] = true;
  CHECK(run(*session, {{"x", ones}, {"keep", keep}}).loss == 4);
}

TEST_CASE("training follows the branch of each batch, and leaves the other's weights alone") {
  Module module = testing::load(model_bytes(graph_text(kBranch)), exact());
  TrainerOptions options;
  options.losses = {"sum"};
  options.optimizer = "sgd";
  options.lr = 0.5;
  Trainer trainer(module, options);
  trainer.step({{"x", doubles({2, 1}, {2})}});   // a -= 0.5 x
  trainer.step({{"x", doubles({-2, 1}, {2})}});  // b -= 0.5 x^2
  trainer.step({{"x", doubles({4, 1}, {2})}});   // a again
  CHECK(max_difference(module.get_parameter("a").value(), doubles({0, -3}, {2})) < 1e-12);
  CHECK(max_difference(module.get_parameter("b").value(), doubles({3, 6.5}, {2})) < 1e-12);
}

}  // namespace
}  // namespace trainrt
