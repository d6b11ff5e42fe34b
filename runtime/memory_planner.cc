#include "runtime/memory_planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr size_t kPage = 4096;

size_t align_up(size_t n, size_t alignment) { return (n + alignment - 1) / alignment * alignment; }

size_t alignment_of(size_t bytes) { return bytes >= kPageBlock ? kPage : kBlockAlignment; }

// Blocks of the same size class are kept at multiples of the class's alignment, so that gaps they
// leave are reusable by their equals.
size_t padded(size_t bytes) { return align_up(std::max<size_t>(bytes, 1), alignment_of(bytes)); }

size_t most_alive(std::span<const Lifetime> blocks) {
  std::map<int64_t, std::pair<size_t, size_t>> changes;  // step -> (born, died before it)
  for (const Lifetime& b : blocks) {
    changes[b.first].first += b.bytes;
    changes[int64_t{b.last} + 1].second += b.bytes;
  }
  size_t alive = 0, most = 0;
  for (const auto& [step, change] : changes) {
    alive += change.first;
    alive -= change.second;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

MemoryLayout plan_memory(std::span<const Lifetime> blocks) {
  MemoryLayout layout;
  layout.offsets.assign(blocks.size(), 0);
  size_t total = 0;
  for (const Lifetime& b : blocks) {
    TRAINRT_CHECK(b.first <= b.last, "a block that ends before it begins");
    if (b.bytes > std::numeric_limits<size_t>::max() / 4 - total) {
      throw Error(ErrorCode::kMemory,
                  "the intermediate values need more bytes than can be counted");
    }
    total += padded(b.bytes);
  }
  layout.lower_bound = most_alive(blocks);

  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
    if (blocks[a].first != blocks[b].first) return blocks[a].first < blocks[b].first;
    return a < b;
  });

  // Placed blocks, ordered by offset, so that one walk finds every gap.
  struct Placed {
    size_t begin, end;
    int32_t first, last;
  };
  std::vector<Placed> placed;
  placed.reserve(blocks.size());
  for (size_t i : by_size) {
    const Lifetime& b = blocks[i];
    const size_t size = padded(b.bytes), alignment = alignment_of(b.bytes);
    size_t best = 0, best_gap = std::numeric_limits<size_t>::max();
    size_t reached = 0;  // end of everything seen that is alive at the same time
    for (const Placed& p : placed) {
      if (p.last < b.first || p.first > b.last) continue;
      const size_t start = align_up(reached, alignment);
      if (p.begin >= start + size && p.begin - start < best_gap) {
        best = start;
        best_gap = p.begin - start;
      }
      reached = std::max(reached, p.end);
    }
    const size_t offset =
        best_gap != std::numeric_limits<size_t>::max() ? best : align_up(reached, alignment);
    layout.offsets[i] = offset;
    layout.peak = std::max(layout.peak, offset + size);
    const Placed entry{offset, offset + size, b.first, b.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), entry,
                         [](const Placed& x, const Placed& y) { return x.begin < y.begin; }),
        entry);
  }
  return layout;
}

}  // namespace trainrt
