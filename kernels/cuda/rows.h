// What the rows for GPUs share.
#ifndef TRAINRT_KERNELS_CUDA_ROWS_H_
#define TRAINRT_KERNELS_CUDA_ROWS_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "kernels/kernel.h"

namespace trainrt::cuda {

// One function for each file of rows, in the order in which kernels.cc asks them.
std::span<const KernelRow> matmul_rows();
std::span<const KernelRow> conv_rows();
std::span<const KernelRow> attention_rows();
std::span<const KernelRow> recurrent_rows();
std::span<const KernelRow> elementwise_rows();
std::span<const KernelRow> fused_rows();
std::span<const KernelRow> reduce_rows();
std::span<const KernelRow> softmax_rows();
std::span<const KernelRow> layer_norm_rows();
std::span<const KernelRow> batch_norm_rows();
std::span<const KernelRow> loss_rows();
std::span<const KernelRow> movement_rows();
std::span<const KernelRow> indexing_rows();
std::span<const KernelRow> pool_rows();
std::span<const KernelRow> interpolate_rows();
std::span<const KernelRow> random_rows();
std::span<const KernelRow> state_rows();
std::span<const KernelRow> source_rows();
std::span<const KernelRow> scan_rows();
std::span<const KernelRow> roi_rows();
std::span<const KernelRow> determinant_rows();

inline constexpr uint32_t kThreads = 256;

/// Blocks of kThreads for a loop over all threads of the grid: enough to fill any GPU, no more than
/// there is work for.
inline gpu::Size3 blocks_for(int64_t items) {
  return {static_cast<uint32_t>(
      std::clamp<int64_t>((items + kThreads - 1) / kThreads, 1, int64_t{1} << 16))};
}
/// A block for each row, in a loop where there are very many.
inline gpu::Size3 blocks_of(int64_t rows) {
  return {static_cast<uint32_t>(std::clamp<int64_t>(rows, 1, int64_t{1} << 20))};
}

/// Neighbouring columns that a block of kThreads takes side by side where `depth` elements, `width`
/// apart, are joined to one: a power of two. The other threads share out the depth.
inline uint32_t lanes_for(int64_t width, int64_t depth) {
  uint32_t lanes = kThreads;
  while (lanes > 1 && (lanes > 32 || lanes / 2 >= width) && 2 * (kThreads / lanes) <= depth / 4) {
    lanes /= 2;
  }
  return lanes;
}

/// Sums of `columns` columns over `depth` elements in two stages: blocks of first parts of the
/// depth (blockIdx.y) for `lanes` columns each, then a warp for the parts of each column.
struct SumStages {
  int64_t columns;
  uint32_t lanes;
  int parts;

  SumStages(int64_t columns_, int64_t depth, uint32_t lanes_) : columns(columns_), lanes(lanes_) {
    // Enough blocks for any GPU, as long as each thread has something to add up.
    const int64_t each = 8 * (kThreads / lanes);
    parts = static_cast<int>(std::clamp<int64_t>(std::min(1024 / tiles(), depth / each), 1, 1024));
  }
  int64_t tiles() const { return std::max<int64_t>(1, (columns + lanes - 1) / lanes); }
  gpu::Size3 grid() const { return {static_cast<uint32_t>(tiles()), static_cast<uint32_t>(parts)}; }
  gpu::Size3 second_grid() const { return blocks_for(32 * columns); }
};

/// Who takes a contiguous row in registers: "warp2", "warp8", "warp32" or "block16" (threads and
/// elements of each), or kNoTeam for rows longer than kMaxTeamRow.
struct RowTeam {
  std::string_view name;
  gpu::Size3 grid;
};
inline constexpr std::string_view kNoTeam = "none";
inline constexpr int64_t kMaxWarpRow = 1024, kMaxTeamRow = 4096;
RowTeam row_team(int64_t rows, int64_t length);

/// "f32", "f64", "bf16", "i32", …: how device functions are named by element type.
std::string_view suffix(DType dtype);

/// The device function `name`_`suffix of dtype`; null when there is no device.
const gpu::Function* function(const Scratch& scratch, std::string_view name, DType dtype);
const gpu::Function* function(const Scratch& scratch, std::string_view name);

/// Every operand plain, and of one of these types.
Support all_of(const NodeView& node, std::initializer_list<DType> types);
/// All operands float32 or all float64.
Support all_float(const NodeView& node);
/// As all_float; those of float32 inputs and outputs whose bits are set may be kept as bfloat16.
Support all_float_or_bf16(const NodeView& node, uint32_t inputs, uint32_t outputs);

/// Reserves `bytes` of a plan's scratch; the offset, a multiple of 256.
size_t book(Scratch& scratch, size_t bytes);
inline void* scratch_at(const KernelArgs& args, size_t offset) {
  return static_cast<char*>(args.scratch) + offset;
}

/// Product of dims [begin, end).
int64_t size_of(const Shape& shape, size_t begin, size_t end);

template <typename T>
T* scratch_at(const KernelArgs& args, size_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(args.scratch) + offset);
}

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_ROWS_H_
