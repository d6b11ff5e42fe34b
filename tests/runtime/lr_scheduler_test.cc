#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "runtime/train/lr_schedule.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/optimizer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;

Optimizer two_groups(const Module& m) {
  std::vector<ParamGroup> groups(2);
  groups[0].params = {m.get_parameter("fc1.weight")};
  groups[0].lr = 0.5;
  groups[1].params = {m.get_parameter("fc2.weight")};
  return Optimizer(m, "sgd:lr=0.25", std::move(groups));
}

TEST_CASE("a schedule multiplies the rate of each group") {
  const std::string text = GENERATE("constant", "linear:end=0.1", "cosine:warmup=2", "step:size=3",
                                    "exponential:gamma=0.5", "onecycle");
  INFO(text);
  const Module m = testing::load(testing::mlp_model(), exact());
  Optimizer optimizer = two_groups(m);
  LRScheduler scheduler(optimizer, text, 8);
  const LrSchedule schedule = parse_schedule(text, 8);
  for (int64_t update = 0; update < 10; ++update) {
    INFO(update);
    const double factor = schedule.factor(update);
    CHECK(optimizer.param_groups()[0].lr == 0.5 * factor);
    CHECK(optimizer.param_groups()[1].lr == 0.25 * factor);
    CHECK(scheduler.get_last_lr() == std::vector<double>{0.5 * factor, 0.25 * factor});
    CHECK(scheduler.steps_done() == update);
    scheduler.step();
  }
}

TEST_CASE("functions as schedules, one for all groups or one for each") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Optimizer optimizer = two_groups(m);
  {
    LRScheduler scheduler(optimizer, [](int64_t update) { return 1.0 / (1.0 + update); });
    scheduler.step();
    CHECK(scheduler.get_last_lr() == std::vector<double>{0.25, 0.125});
  }
  Optimizer other = two_groups(m);
  LRScheduler scheduler(
      other, {[](int64_t) { return 1.0; }, [](int64_t update) { return std::pow(0.5, update); }});
  scheduler.step();
  scheduler.step();
  CHECK(other.param_groups()[0].lr == 0.5);
  CHECK(other.param_groups()[1].lr == 0.0625);
}

TEST_CASE("a scheduler outlives moves of its optimizer and takes up added groups") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Optimizer optimizer = two_groups(m);
  LRScheduler scheduler(optimizer, [](int64_t update) { return std::pow(0.5, update); });
  Optimizer moved = std::move(optimizer);
  ParamGroup group;
  group.params = {m.get_parameter("fc1.bias")};
  group.lr = 8;
  moved.add_param_group(group);
  scheduler.step();
  CHECK(moved.param_groups()[0].lr == 0.25);
  CHECK(moved.param_groups()[2].lr == 4.0);
}

TEST_CASE("a scheduler's state continues") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Optimizer a = two_groups(m), b(m, "sgd:lr=7");
  LRScheduler first(a, "cosine", 8);
  for (int i = 0; i < 3; ++i) first.step();
  Optimizer c = two_groups(m);
  c.param_groups()[0].lr = 99;
  LRScheduler second(c, "cosine", 8);
  second.load_state_dict(first.state_dict());
  CHECK(c.param_groups()[0].lr == a.param_groups()[0].lr);
  first.step();
  second.step();
  CHECK(second.get_last_lr() == first.get_last_lr());
  LRScheduler third(b, "cosine", 8);
  CHECK(contains(failure([&] { third.load_state_dict(first.state_dict()); }, ErrorCode::kInput),
                 "'base_lrs': expected float64[1], given float64[2]"));
  CHECK(third.get_last_lr() == std::vector<double>{7});
}

TEST_CASE("schedulers that make no sense are refused") {
  const Module m = testing::load(testing::mlp_model(), exact());
  Optimizer optimizer = two_groups(m);
  auto refuse = [&](auto schedule) {
    return failure([&] { LRScheduler(optimizer, schedule); }, ErrorCode::kUsage);
  };
  CHECK(contains(refuse(std::string("cosine")), "number of steps"));
  CHECK(contains(refuse(std::string("zigzag")), "no schedule 'zigzag'"));
  CHECK(contains(refuse(std::function<double(int64_t)>()), "empty function"));
  CHECK(
      contains(refuse(std::vector<std::function<double(int64_t)>>(1, [](int64_t) { return 1.0; })),
               "1 factors for 2 param groups"));
  LRScheduler scheduler(optimizer, [](int64_t update) { return update == 0 ? 1.0 : -1.0; });
  CHECK(contains(failure([&] { scheduler.step(); }, ErrorCode::kUsage),
                 "param group 0 at update 1 would be -0.5"));
  CHECK(scheduler.steps_done() == 0);
  CHECK(optimizer.param_groups()[0].lr == 0.5);
}

}  // namespace
}  // namespace trainrt
