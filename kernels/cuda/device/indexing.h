#ifndef TRAINRT_KERNELS_CUDA_DEVICE_INDEXING_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_INDEXING_H_

#include "kernels/cuda/device/strided.h"

namespace trainrt::cuda {

/// Indices as int32, or `wide` as int64, and where complaints about them go.
struct IndexOperand {
  const void* ids;
  int* status;
  int step;
  bool wide;
};

/// Rows of `row` elements of 1, 2, 4, 8 or 16 bytes: [outer, size, row] to [outer, n, row].
struct GatherArguments {
  const void* in;
  void* out;
  IndexOperand indices;
  long long count, row, n, size;  // count = outer * n * row
  Divisor by_row, by_n;
};

/// Tuple t of indices, `depth` of them, names the element at walk(t) + sum of index * stride.
struct IndexTuples {
  IndexOperand indices;
  int depth;
  long long sizes[kMaxWalkRank], strides[kMaxWalkRank];
  Walk<1> walk;
};

/// Runs of `row` elements from where tuples point to.
struct GatherTuplesArguments {
  const void* in;
  void* out;
  long long count, row;  // of out
  Divisor by_row;
  IndexTuples tuples;
};

/// The destination of each tuple, `none` for indices out of range; and, if asked for, the last
/// tuple (counted from 1) of each destination.
struct KeysArguments {
  unsigned* keys;
  int* last;
  long long count;
  unsigned none;
  IndexTuples tuples;
};

/// Copies the rows of those tuples that are the last of their destination.
struct ScatterLastArguments {
  const void* in;
  void* out;
  const unsigned* keys;
  const int* last;
  long long count, row;  // of in
  Divisor by_row;
  unsigned none;
};

enum class Join : int { kLast, kAdd, kMul, kMax, kMin };

inline constexpr int kRun = 32;

/// Joins rows [outer, n, row] to their destinations in [outer, size, row], in order. Tuples are
/// sorted by destination and cut into runs of kRun; what a run has of a destination that began in
/// an earlier run goes to `heads`, of one that a later run goes on with to `tails`, both [outer,
/// runs, row], and scatter_ends joins those.
struct ScatterRunsArguments {
  const void* in;
  void* out;
  void* heads;
  void* tails;
  const unsigned* keys;  // sorted
  const unsigned* order;
  long long n, outer, row, size, runs;
  unsigned none;
  Join join;
  bool from_zero;  // whatever was in the destination
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_INDEXING_H_
