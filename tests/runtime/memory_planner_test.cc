#include "runtime/memory_planner.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <random>

#include "trainrt/error.h"

namespace trainrt {
namespace {

void check_layout(const std::vector<Lifetime>& blocks) {
  const MemoryLayout layout = plan_memory(blocks);
  REQUIRE(layout.offsets.size() == blocks.size());
  REQUIRE(layout.peak >= layout.lower_bound);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t begin = layout.offsets[i], end = begin + blocks[i].bytes;
    REQUIRE(begin % kBlockAlignment == 0);
    if (blocks[i].bytes >= kPageBlock) REQUIRE(begin % 4096 == 0);
    REQUIRE(end <= layout.peak);
    for (size_t j = 0; j < i; ++j) {
      const bool meet = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool overlap = begin < layout.offsets[j] + std::max<size_t>(blocks[j].bytes, 1) &&
                           layout.offsets[j] < begin + std::max<size_t>(blocks[i].bytes, 1);
      REQUIRE_FALSE((meet && overlap));
    }
  }
}

TEST_CASE("no blocks need no memory") {
  const MemoryLayout layout = plan_memory({});
  CHECK(layout.peak == 0);
  CHECK(layout.lower_bound == 0);
}

TEST_CASE("blocks that live one after the other share memory") {
  const std::vector<Lifetime> blocks = {{0, 1, 640}, {2, 3, 640}, {4, 5, 640}};
  CHECK(plan_memory(blocks).peak == 640);
}

TEST_CASE("a block that ends where another begins does not share with it") {
  const std::vector<Lifetime> blocks = {{0, 2, 64}, {2, 3, 64}};
  CHECK(plan_memory(blocks).peak == 128);
}

TEST_CASE("the lower bound is the most bytes alive at one step") {
  const std::vector<Lifetime> blocks = {{0, 3, 100}, {1, 2, 200}, {3, 5, 50}, {4, 4, 300}};
  CHECK(plan_memory(blocks).lower_bound == 350);
}

TEST_CASE("the smallest gap that fits is taken") {
  // Two gaps of 256 and 128 bytes lie below what lives throughout.
  const std::vector<Lifetime> blocks = {
      {0, 9, 1024}, {0, 1, 256}, {0, 9, 512}, {0, 1, 128}, {2, 3, 128}};
  const MemoryLayout layout = plan_memory(blocks);
  check_layout(blocks);
  CHECK(layout.peak == 1024 + 512 + 256 + 128);
}

TEST_CASE("empty blocks still get an address of their own") {
  check_layout({{0, 1, 0}, {0, 1, 0}, {0, 1, 8}});
}

TEST_CASE("large blocks start on a page") {
  check_layout({{0, 1, 100}, {0, 1, kPageBlock + 10}, {0, 2, kPageBlock}, {1, 2, 64}});
}

TEST_CASE("random lifetimes never overlap") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::vector<Lifetime> blocks(1 + random() % 120);
    for (Lifetime& b : blocks) {
      b.first = static_cast<int32_t>(random() % 50);
      b.last = b.first + static_cast<int32_t>(random() % (seed % 2 == 0 ? 5 : 50));
      b.bytes = random() % 8 == 0 ? (size_t{1} << 20) + random() % 100000 : random() % 5000;
    }
    check_layout(blocks);
  }
}

TEST_CASE("the layout is close to the lower bound on nested lifetimes") {
  // Activations of a chain: made going forward, dropped going backward.
  std::vector<Lifetime> blocks;
  for (int32_t i = 0; i < 50; ++i) blocks.push_back({i, 100 - i, size_t{4096} + 64 * (i % 7)});
  const MemoryLayout layout = plan_memory(blocks);
  CHECK(layout.peak == layout.lower_bound);
}

TEST_CASE("sizes that cannot be added are refused") {
  const size_t huge = std::numeric_limits<size_t>::max() / 3;
  const std::vector<Lifetime> blocks = {{0, 1, huge}, {0, 1, huge}};
  CHECK_THROWS_AS(plan_memory(blocks), Error);
}

}  // namespace
}  // namespace trainrt
