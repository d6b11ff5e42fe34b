// Offsets of blocks in one arena, from their lifetimes.
#ifndef TRAINRT_RUNTIME_MEMORY_PLANNER_H_
#define TRAINRT_RUNTIME_MEMORY_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainrt {

/// A block lives from step `first` to step `last`, both included. Values that share memory (views,
/// in-place results) are one block with the union of their lifetimes.
struct Lifetime {
  int32_t first = 0;
  int32_t last = 0;
  size_t bytes = 0;
};

struct MemoryLayout {
  std::vector<size_t> offsets;  // per block, multiples of kBlockAlignment
  size_t peak = 0;              // bytes of the arena
  size_t lower_bound = 0;       // most bytes alive at one step: no layout needs less
};

inline constexpr size_t kBlockAlignment = 64;
/// Blocks of at least this size start on a page.
inline constexpr size_t kPageBlock = size_t{1} << 20;

/// Best fit by decreasing size: blocks are placed from the largest to the smallest, each into the
/// smallest gap that its neighbours in time leave. Blocks whose lifetimes meet never overlap.
/// Throws Error(kMemory) when sizes overflow. Deterministic.
MemoryLayout plan_memory(std::span<const Lifetime> blocks);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MEMORY_PLANNER_H_
