#ifndef TRAINRT_KERNELS_CUDA_DEVICE_SCAN_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_SCAN_H_

namespace trainrt::cuda {

/// Running sums or products along the middle of [outer, size, inner]. Each of the rows = outer *
/// inner is cut into chunks of `chunk` elements, in the order of the scan; with more than one,
/// cum_totals puts what each has in total into `totals` [chunks, rows] first. A chunk is for one
/// thread, or (`blocks`) one block.
struct CumArguments {
  const void* in;
  void* out;
  void* totals;
  long long rows, size, inner, chunks, chunk;
  bool exclusive, reverse, blocks;
};

/// Entries of rows of [outer, size, inner] along the middle: keys in whose ascending order the
/// results are, and positions. From the tensor, or from what a call before this one left.
struct TopKArguments {
  const void* in;
  const void* keys;  // [rows, entries] or null
  const unsigned* order;
  void* next_keys;  // [rows, chunks, keep], or null: the results are final
  unsigned* next_order;
  void* values;  // [outer, k, inner]
  long long* indices;
  long long rows, size, inner, k;
  long long entries, chunks, keep;  // of a row, of which each chunk of `width` keeps some
  unsigned width, slots;            // powers of two; slots of a block
  bool largest;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_SCAN_H_
