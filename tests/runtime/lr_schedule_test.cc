#include "runtime/train/lr_schedule.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numbers>

#include "trainrt/error.h"

namespace trainrt {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(b)); }

TEST_CASE("schedule: constant") {
  const LrSchedule s = parse_schedule("constant", 0);
  CHECK(s.factor(0) == 1);
  CHECK(s.factor(1000000) == 1);
}

TEST_CASE("schedule: linear goes from 1 to end") {
  const LrSchedule s = parse_schedule("linear:end=0.2", 10);
  CHECK(s.factor(0) == 1);
  CHECK(near(s.factor(5), 0.6));
  CHECK(near(s.factor(10), 0.2));
  CHECK(near(s.factor(50), 0.2));
}

TEST_CASE("schedule: cosine") {
  const LrSchedule s = parse_schedule("cosine", 8);
  CHECK(s.factor(0) == 1);
  CHECK(near(s.factor(2), (1 + std::cos(std::numbers::pi / 4)) / 2));
  CHECK(near(s.factor(4), 0.5));
  CHECK(std::abs(s.factor(8)) < 1e-15);
}

TEST_CASE("schedule: step") {
  const LrSchedule s = parse_schedule("step:size=3,gamma=0.5", 0);
  CHECK(s.factor(2) == 1);
  CHECK(s.factor(3) == 0.5);
  CHECK(s.factor(8) == 0.25);
  CHECK(parse_schedule("step", 30).factor(10) == 0.1);  // a third of the run
}

TEST_CASE("schedule: exponential") {
  const LrSchedule s = parse_schedule("exponential:gamma=0.9", 0);
  CHECK(near(s.factor(3), 0.729));
  CHECK(near(parse_schedule("exponential:gamma=0.25,size=2", 0).factor(1), 0.5));
}

TEST_CASE("schedule: warm-up rises to 1, then the schedule begins") {
  const LrSchedule s = parse_schedule("linear:warmup=4", 14);
  CHECK(near(s.factor(0), 0.25));
  CHECK(near(s.factor(3), 1));
  CHECK(near(s.factor(4), 1));
  CHECK(near(s.factor(9), 0.5));
  CHECK(parse_schedule("cosine:warmup=0.1", 50).warmup == 5);
}

TEST_CASE("schedule: onecycle as torch.optim.lr_scheduler.OneCycleLR") {
  // max_lr 1, total_steps 10, pct_start 0.3: the peak is at step 0.3 * 10 - 1 = 2.
  const LrSchedule s = parse_schedule("onecycle", 10);
  CHECK(near(s.factor(0), 0.04));
  CHECK(near(s.factor(1), 0.52));
  CHECK(near(s.factor(2), 1));
  CHECK(near(s.factor(9), 0.04 / 1e4));
  const double low = 0.04 / 1e4;
  CHECK(near(s.factor(5), low + (1 - low) * (1 + std::cos(std::numbers::pi * 3 / 7)) / 2));
}

TEST_CASE("schedule: texts that make no sense are refused") {
  for (const char* text :
       {"", "cos", "linear", "cosine", "onecycle", "step", "linear:total", "constant:x=1",
        "step:size=0", "step:size=1.5", "linear:total=-3", "exponential:gamma=a",
        "constant:warmup=0.5", "cosine:warmup=1.5,total=3", "onecycle:total=5,div=0"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_schedule(text, 0), Error);
  }
}

TEST_CASE("schedule: the total of the text wins") {
  CHECK(near(parse_schedule("linear:total=10", 1000).factor(5), 0.5));
}

}  // namespace
}  // namespace trainrt
