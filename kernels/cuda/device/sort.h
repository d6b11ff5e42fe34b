#ifndef TRAINRT_KERNELS_CUDA_DEVICE_SORT_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_SORT_H_

namespace trainrt::cuda {

inline constexpr int kSortSlots = 2048;  // of a block
inline constexpr int kSortDigits = 16;   // a pass goes by 4 bits

/// Stable sorts of rows of unsigned keys: of rows that fit a block at once, of others by passes of
/// counting (sort_count), adding (sort_scan) and placing (sort_place), each by one digit.
struct SortArguments {
  const void* keys;
  void* sorted;
  const unsigned* order;  // position of each key; null: they are in order
  unsigned* sorted_order;
  unsigned* counts;              // [rows, kSortDigits, chunks]
  long long rows, size, chunks;  // chunks of kSortSlots in a row
  int shift;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_SORT_H_
