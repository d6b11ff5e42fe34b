#include "kernels/cuda/device/sort-inl.h"

namespace trainrt::cuda {
namespace {

constexpr int kItems = kSortSlots / 256;  // of a thread

template <typename Key>
__device__ u32 digit_of(Key key, int shift) {
  return static_cast<u32>(key >> shift) % kSortDigits;
}

template <typename Key>
__device__ void small(const SortArguments& args) {
  __shared__ Key keys[kSortSlots];
  __shared__ u32 order[kSortSlots];
  u32 width = 2;
  while (width < args.size) width *= 2;
  for (i64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const i64 at = row * args.size;
    const Key* in = static_cast<const Key*>(args.keys) + at;
    Key* out = static_cast<Key*>(args.sorted) + at;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
      const bool there = i < args.size;
      keys[i] = there ? in[i] : ~Key(0);
      order[i] = there ? i : ~0u;
    }
    sort_slots(keys, order, width, width);
    for (u32 i = threadIdx.x; i < args.size; i += blockDim.x) {
      out[i] = keys[i];
      args.sorted_order[at + i] = order[i];
    }
    __syncthreads();
  }
}

template <typename Key>
__device__ void count(const SortArguments& args) {
  __shared__ u32 counts[8][kSortDigits];  // by warp
  for (i64 task = blockIdx.x; task < args.rows * args.chunks; task += gridDim.x) {
    const i64 row = task / args.chunks, chunk = task % args.chunks;
    const Key* keys = static_cast<const Key*>(args.keys) + row * args.size;
    const i64 begin = chunk * kSortSlots;
    for (u32 i = threadIdx.x; i < 8 * kSortDigits; i += blockDim.x) {
      counts[i / kSortDigits][i % kSortDigits] = 0;
    }
    __syncthreads();
    for (i64 i = begin + threadIdx.x; i < begin + kSortSlots && i < args.size; i += blockDim.x) {
      atomicAdd(&counts[threadIdx.x / 32][digit_of(keys[i], args.shift)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < kSortDigits) {
      u32 sum = 0;
      for (u32 w = 0; w < 8; ++w) sum += counts[w][threadIdx.x];
      args.counts[(row * kSortDigits + threadIdx.x) * args.chunks + chunk] = sum;
    }
    __syncthreads();
  }
}

/// Where in its sorted row each chunk's keys of each digit begin.
__device__ void scan(const SortArguments& args) {
  const i64 n = kSortDigits * args.chunks;
  for (i64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
    u32* counts = args.counts + row * n;
    u32 before = 0;
    for (i64 begin = 0; begin < n; begin += blockDim.x) {
      const i64 i = begin + threadIdx.x;
      const u32 own = i < n ? counts[i] : 0;
      u32 all = 0;
      const u32 sum = block_scan<SumOf>(own, all);
      if (i < n) counts[i] = before + sum - own;
      before += all;
    }
  }
}

template <typename Key>
__device__ void place(const SortArguments& args) {
  // How many keys of a digit the threads before have. Keys of a thread are neighbours, so that
  // equal ones stay in order.
  __shared__ unsigned short ranks[kSortDigits][256];
  const u32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  for (i64 task = blockIdx.x; task < args.rows * args.chunks; task += gridDim.x) {
    const i64 row = task / args.chunks, chunk = task % args.chunks;
    const i64 at = row * args.size, begin = chunk * kSortSlots + thread * kItems;
    const Key* in = static_cast<const Key*>(args.keys) + at;
    Key* out = static_cast<Key*>(args.sorted) + at;
    for (int d = 0; d < kSortDigits; ++d) ranks[d][thread] = 0;
    Key keys[kItems];
    const i64 left = args.size - begin;
    const int items = left <= 0 ? 0 : left < kItems ? static_cast<int>(left) : kItems;
    for (int i = 0; i < kItems; ++i) {
      if (i < items) {
        keys[i] = in[begin + i];
        ++ranks[digit_of(keys[i], args.shift)][thread];
      }
    }
    __syncthreads();
    for (u32 d = warp; d < kSortDigits; d += 8) {
      u32 before = 0;
      for (u32 i = lane; i < 256; i += 32) {
        const u32 own = ranks[d][i], sum = warp_scan<SumOf>(own);
        ranks[d][i] = static_cast<unsigned short>(before + sum - own);
        before += __shfl_sync(0xffffffffu, sum, 31);
      }
    }
    __syncthreads();
    const u32* starts = args.counts + row * kSortDigits * args.chunks + chunk;
    for (int i = 0; i < kItems; ++i) {
      if (i < items) {
        const u32 d = digit_of(keys[i], args.shift);
        const i64 to = static_cast<i64>(starts[d * args.chunks]) + ranks[d][thread]++;
        out[to] = keys[i];
        args.sorted_order[at + to] =
            args.order == nullptr ? static_cast<u32>(begin + i) : args.order[at + begin + i];
      }
    }
    __syncthreads();
  }
}

}  // namespace

TRAINRT_KERNEL(sort_small_u32, SortArguments) { small<u32>(args); }
TRAINRT_KERNEL(sort_small_u64, SortArguments) { small<u64>(args); }
TRAINRT_KERNEL(sort_count_u32, SortArguments) { count<u32>(args); }
TRAINRT_KERNEL(sort_count_u64, SortArguments) { count<u64>(args); }
TRAINRT_KERNEL(sort_scan, SortArguments) { scan(args); }
TRAINRT_KERNEL(sort_place_u32, SortArguments) { place<u32>(args); }
TRAINRT_KERNEL(sort_place_u64, SortArguments) { place<u64>(args); }

}  // namespace trainrt::cuda
