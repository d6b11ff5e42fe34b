#include "runtime/session.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::numbers;

std::shared_ptr<Session> session_of(const std::string& bytes, ModuleOptions options = exact()) {
  return testing::load(bytes, options).session();
}

StepSpec eval_spec() {
  StepSpec spec;
  spec.training = false;
  return spec;
}

TEST_CASE("one plan per signature, used again") {
  const auto session = session_of(testing::mlp_model());
  auto prepare = [&](int64_t n) {
    Batch batch = session->make_batch({{"x", numbers({n, 4})}});
    return session->prepare(eval_spec(), batch);
  };
  const auto four = prepare(4), two = prepare(2);
  CHECK(four != two);
  CHECK(prepare(4) == four);
  CHECK(prepare(2) == two);
}

TEST_CASE("the least recently used plan goes first") {
  ModuleOptions options = exact();
  options.plan_cache = 2;
  const auto session = session_of(testing::mlp_model(), options);
  auto prepare = [&](int64_t n) {
    Batch batch = session->make_batch({{"x", numbers({n, 4})}});
    return session->prepare(eval_spec(), batch);
  };
  const auto one = prepare(1), two = prepare(2);
  prepare(1);
  prepare(3);  // drops 2
  CHECK(prepare(1) == one);
  CHECK(prepare(2) != two);
}

TEST_CASE("changing batch sizes in turn give each batch's own results") {
  const auto session = session_of(testing::mlp_model());
  auto run = [&](const Tensor& x) {
    Batch batch = session->make_batch({{"x", x}});
    const auto step = session->prepare(eval_spec(), batch);
    session->load(*step, batch);
    session->run(*step);
    return session->outputs(*step)[0].second;
  };
  const Tensor all = numbers({32, 4}, 5);
  const Tensor whole = run(all);
  for (const int64_t n : {1, 7, 32, 7, 1, 20}) {
    INFO(n);
    CHECK(testing::largest_difference(run(all.rows(0, n).clone()), whole.rows(0, n)) < 1e-14);
  }
}

TEST_CASE("an input that decides a shape becomes part of the plan by its contents") {
  const auto session = session_of(testing::reshape_model());
  auto run = [&](std::vector<int64_t> shape) {
    Batch batch = session->make_batch({{"x", numbers({2, 6})}, {"shape", testing::ids(shape)}});
    const auto step = session->prepare(eval_spec(), batch);
    session->load(*step, batch);
    session->run(*step);
    return session->outputs(*step)[0].second.shape();
  };
  CHECK(run({3, 4}) == Shape{3, 4});
  CHECK(run({4, 3}) == Shape{4, 3});
  CHECK(run({3, 4}) == Shape{3, 4});
  CHECK(run({12, -1}) == Shape{12, 1});
}

TEST_CASE("missing and unknown inputs are named") {
  const auto session = session_of(testing::mlp_model());
  CHECK(
      contains(failure([&] { session->make_batch({}); }, ErrorCode::kInput), "input x is missing"));
  CHECK(contains(failure(
                     [&] {
                       session->make_batch({{"x", numbers({1, 4})}, {"z", numbers({1})}});
                     },
                     ErrorCode::kInput),
                 "'z' is no input"));
  CHECK(contains(failure(
                     [&] {
                       session->make_batch({{"x", numbers({1, 4})}}, {{"sr", numbers({1})}});
                     },
                     ErrorCode::kInput),
                 "static input 'sr'"));
}

TEST_CASE("an input of the wrong shape is refused before anything runs") {
  const auto session = session_of(testing::mlp_model());
  CHECK(contains(failure(
                     [&] {
                       session->make_batch({{"x", numbers({3, 5})}});
                     },
                     ErrorCode::kInput),
                 "input x: expected float32[n,4], given float64[3,5]"));
}

TEST_CASE("freezing everything leaves nothing to train") {
  ModuleOptions options = exact();
  options.freeze = {"*"};
  const auto session = session_of(testing::mlp_model(), options);
  Batch batch = session->make_batch({{"x", numbers({3, 4})}});
  StepSpec spec;
  spec.losses = {parse_loss("mean")};
  spec.seeds = Seeds::kLoss;
  spec.update = UpdateSpec{};
  CHECK(contains(failure([&] { session->prepare(spec, batch); }, ErrorCode::kUnsupported),
                 "nothing to train"));
  spec.update.reset();
  CHECK(session->prepare(spec, batch)->trainable.empty());  // for gradients it is no error
}

TEST_CASE("a pattern that matches nothing is an error") {
  ModuleOptions options = exact();
  options.freeze = {"fc9*"};
  CHECK(contains(failure([&] { session_of(testing::mlp_model(), options); }, ErrorCode::kUsage),
                 "fc9*"));
}

TEST_CASE("the arena tells whose values it holds") {
  const auto session = session_of(testing::mlp_model());
  Batch batch = session->make_batch({{"x", numbers({3, 4})}});
  const auto step = session->prepare(eval_spec(), batch);
  CHECK_FALSE(session->holds(*step));
  session->load(*step, batch);
  CHECK(session->holds(*step));
  Batch other = session->make_batch({{"x", numbers({30, 4})}});
  const auto second = session->prepare(eval_spec(), other);
  session->load(*second, other);
  CHECK_FALSE(session->holds(*step));
}

TEST_CASE("stages can be printed") {
  const auto session = session_of(testing::mlp_model());
  Batch batch = session->make_batch({{"x", numbers({3, 4})}});
  StepSpec spec;
  spec.losses = {parse_loss("mean")};
  spec.seeds = Seeds::kLoss;
  CHECK(contains(session->dump(spec, batch, "specialized", false), "MatMul"));
  CHECK(contains(session->dump(spec, batch, "joint", false), "loss"));
  CHECK(contains(session->dump(spec, batch, "joint", true), "digraph"));
  CHECK(contains(session->dump(spec, batch, "planned", false), "@state"));
  CHECK_THROWS_AS(session->dump(spec, batch, "planned", true), Error);
}

TEST_CASE("working types other than float32 and float64 are refused") {
  ModuleOptions options;
  options.dtype = DType::kFloat16;
  CHECK_THROWS_AS(session_of(testing::mlp_model(), options), Error);
}

}  // namespace
}  // namespace trainrt
