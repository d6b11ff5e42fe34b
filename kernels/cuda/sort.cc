#include "kernels/cuda/sort.h"

namespace trainrt::cuda {

RowSort::RowSort(int64_t rows, int64_t size, DType key, int bits, Scratch& scratch)
    : rows_(rows), size_(size), chunks_((size + kSortSlots - 1) / kSortSlots) {
  const auto n = static_cast<size_t>(rows * size);
  const bool fits = size <= kSortSlots;
  for (size_t i = 0; i < (fits ? 1 : 2); ++i) {
    keys_[i] = book(scratch, n * dtype_size(key));
    order_[i] = book(scratch, n * sizeof(unsigned));
  }
  if (fits) {
    small_ = function(scratch, "sort_small", key);
    return;
  }
  constexpr int kBits = 4;  // of a digit
  passes_ = (bits + kBits - 1) / kBits;
  result_ = static_cast<size_t>(passes_ % 2);
  counts_ = book(scratch, static_cast<size_t>(rows * kSortDigits * chunks_) * sizeof(unsigned));
  count_ = function(scratch, "sort_count", key);
  scan_ = function(scratch, "sort_scan");
  place_ = function(scratch, "sort_place", key);
}

void RowSort::run(const KernelArgs& k) const {
  if (rows_ * size_ == 0) return;
  SortArguments args{};
  args.rows = rows_;
  args.size = size_;
  args.chunks = chunks_;
  if (size_ <= kSortSlots) {
    args.keys = args.sorted = keys(k);
    args.sorted_order = scratch_at<unsigned>(k, order_[0]);
    k.stream->launch(small_, blocks_of(rows_), kThreads, args);
    return;
  }
  args.counts = scratch_at<unsigned>(k, counts_);
  for (int pass = 0; pass < passes_; ++pass) {
    const auto from = static_cast<size_t>(pass % 2);
    args.keys = scratch_at<void>(k, keys_[from]);
    args.sorted = scratch_at<void>(k, keys_[1 - from]);
    args.order = pass == 0 ? nullptr : scratch_at<unsigned>(k, order_[from]);
    args.sorted_order = scratch_at<unsigned>(k, order_[1 - from]);
    args.shift = 4 * pass;
    k.stream->launch(count_, blocks_of(rows_ * chunks_), kThreads, args);
    k.stream->launch(scan_, blocks_of(rows_), kThreads, args);
    k.stream->launch(place_, blocks_of(rows_ * chunks_), kThreads, args);
  }
}

}  // namespace trainrt::cuda
