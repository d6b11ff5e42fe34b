// Nested loops over strided operands.
#ifndef TRAINRT_KERNELS_CPU_LOOP_H_
#define TRAINRT_KERNELS_CPU_LOOP_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// Largest rank that StridedLoop takes; kernels refuse more.
inline constexpr int64_t kMaxLoopRank = 8;

/// Row-major strides of a dense tensor, in elements.
inline std::vector<int64_t> dense_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

/// Strides of an operand of `shape` that is broadcast to `out`: 0 along stretched dims.
inline std::vector<int64_t> broadcast_strides(std::span<const int64_t> shape,
                                              std::span<const int64_t> out) {
  const std::vector<int64_t> dense = dense_strides(shape);
  std::vector<int64_t> strides(out.size(), 0);
  const size_t lead = out.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) strides[lead + d] = dense[d];
  }
  return strides;
}

/// Iterates over an index space of rank <= kMaxLoopRank for N operands. Dims of size 1 vanish and
/// neighbours merge where every operand allows it; the last dim that remains is the inner one,
/// which the caller walks itself.
template <size_t N>
class StridedLoop {
 public:
  StridedLoop() = default;
  StridedLoop(std::span<const int64_t> shape, const std::array<std::vector<int64_t>, N>& strides) {
    for (size_t d = 0; d < shape.size(); ++d) {
      total_ *= shape[d];
      if (shape[d] == 1) continue;
      bool merge = rank_ > 0;
      for (size_t k = 0; k < N && merge; ++k) {
        merge = strides_[k][rank_ - 1] == strides[k][d] * shape[d];
      }
      if (!merge) {
        ++rank_;
        dims_[rank_ - 1] = 1;
      }
      dims_[rank_ - 1] *= shape[d];
      for (size_t k = 0; k < N; ++k) strides_[k][rank_ - 1] = strides[k][d];
    }
    if (rank_ == 0) {
      rank_ = 1;
      dims_[0] = 1;
      for (size_t k = 0; k < N; ++k) strides_[k][0] = 1;
    }
  }

  size_t rank() const { return rank_; }
  int64_t total() const { return total_; }
  int64_t dim(size_t d) const { return dims_[d]; }
  int64_t stride(size_t k, size_t d) const { return strides_[k][d]; }
  int64_t inner() const { return dims_[rank_ - 1]; }
  int64_t inner_stride(size_t k) const { return strides_[k][rank_ - 1]; }
  int64_t outer() const { return total_ == 0 ? 0 : total_ / inner(); }

  /// Position among the outer() iterations, with the element offset of every operand.
  class Cursor {
   public:
    Cursor(const StridedLoop& loop, int64_t position) : loop_(loop) {
      for (size_t d = loop.rank_ - 1; d-- > 0;) {
        index_[d] = position % loop.dims_[d];
        position /= loop.dims_[d];
        for (size_t k = 0; k < N; ++k) offset_[k] += index_[d] * loop.strides_[k][d];
      }
    }
    int64_t offset(size_t k) const { return offset_[k]; }
    void next() {
      for (size_t d = loop_.rank_ - 1; d-- > 0;) {
        for (size_t k = 0; k < N; ++k) offset_[k] += loop_.strides_[k][d];
        if (++index_[d] < loop_.dims_[d]) return;
        for (size_t k = 0; k < N; ++k) offset_[k] -= loop_.strides_[k][d] * loop_.dims_[d];
        index_[d] = 0;
      }
    }

   private:
    const StridedLoop& loop_;
    std::array<int64_t, kMaxLoopRank> index_{};
    std::array<int64_t, N> offset_{};
  };
  Cursor at(int64_t position) const { return Cursor(*this, position); }

 private:
  size_t rank_ = 0;
  int64_t total_ = 1;
  std::array<int64_t, kMaxLoopRank> dims_{};
  std::array<std::array<int64_t, kMaxLoopRank>, N> strides_{};
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_LOOP_H_
