// How a Fused node's tiles get at their operands.
#ifndef TRAINRT_KERNELS_CPU_FUSED_INPUT_H_
#define TRAINRT_KERNELS_CPU_FUSED_INPUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/types.h"

namespace trainrt {

/// How a tile gets an input's elements.
enum class FusedSource : uint8_t {
  kDirect,    // they lie in a row
  kNumber,    // one for the whole tile
  kRepeated,  // the same for every tile: copied into a buffer once
  kGathered,  // copied into a buffer for each tile
};

struct FusedInput {
  FusedSource source = FusedSource::kDirect;
  size_t bytes = 4;              // of an element
  std::vector<int64_t> strides;  // over the merged dims
  size_t buffer = 0;
  bool dense = false;  // goes through memory as the tiles do

  bool bf16() const { return bytes == sizeof(uint16_t); }
};

/// Part of the iteration space: `width` elements from `column` on of each of the lines [line, line
/// + rows).
struct FusedTile {
  int64_t line, rows, column, width;
};

/// Offsets of the first elements of consecutive lines, which are indices over the outer dims.
class FusedLines {
 public:
  FusedLines(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t line)
      : dims_(dims), strides_(strides) {
    for (size_t d = dims_.size() - 1; d-- > 0 && line != 0;) {
      index_[d] = line % dims_[d];
      line /= dims_[d];
      offset_ += index_[d] * strides_[d];
    }
  }
  int64_t offset() const { return offset_; }
  void next() {
    for (size_t d = dims_.size() - 1; d-- > 0;) {
      offset_ += strides_[d];
      if (++index_[d] < dims_[d]) return;
      offset_ -= strides_[d] * dims_[d];
      index_[d] = 0;
    }
  }

 private:
  const std::vector<int64_t>&dims_, &strides_;
  std::array<int64_t, kMaxRank> index_{};
  int64_t offset_ = 0;
};

/// Copies an input's elements for a tile; what is kept as bfloat16 becomes float.
void copy_input(const std::vector<int64_t>& dims, const FusedInput& input, const void* from,
                const FusedTile& tile, std::byte* to);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_FUSED_INPUT_H_
