#include "kernels/cuda/device/numbers-inl.h"
#include "kernels/cuda/device/scan.h"
#include "kernels/cuda/device/sort-inl.h"

namespace trainrt::cuda {
namespace {

struct ProductOf {
  template <typename T>
  __device__ static T join(T a, T b) {
    return a * b;
  }
};

template <typename Join>
struct Neutral {
  static constexpr int kValue = 0;
};
template <>
struct Neutral<ProductOf> {
  static constexpr int kValue = 1;
};

/// A chunk of a row in the order of the scan: element i of it is at first + i * step.
struct CumChunk {
  i64 row, chunk, first, step, count;

  __device__ CumChunk(const CumArguments& args, i64 task)
      : row(task % args.rows), chunk(task / args.rows) {
    const i64 begin = chunk * args.chunk;
    count = min(args.chunk, args.size - begin);
    step = args.reverse ? -args.inner : args.inner;
    first = row / args.inner * args.size * args.inner + row % args.inner +
            (args.reverse ? args.size - 1 - begin : begin) * args.inner;
  }
};

template <typename T, typename Join>
__device__ void totals(const CumArguments& args) {
  using Acc = Wide<T>;
  const T* in = static_cast<const T*>(args.in);
  Acc* out = static_cast<Acc*>(args.totals);
  // Nothing comes after the last chunks.
  const i64 tasks = args.rows * (args.chunks - 1);
  if (args.blocks) {
    for (i64 task = blockIdx.x; task < tasks; task += gridDim.x) {
      const CumChunk c(args, task);
      Acc sum = Acc(Neutral<Join>::kValue);
      for (i64 i = threadIdx.x; i < c.count; i += blockDim.x) {
        sum = Join::join(sum, static_cast<Acc>(in[c.first + i * c.step]));
      }
      sum = block_join<Join>(sum, Acc(Neutral<Join>::kValue));
      if (threadIdx.x == 0) out[task] = sum;
    }
  } else {
    for (i64 task = global_index(); task < tasks; task += global_size()) {
      const CumChunk c(args, task);
      Acc sum = Acc(Neutral<Join>::kValue);
      for (i64 i = 0; i < c.count; ++i) {
        sum = Join::join(sum, static_cast<Acc>(in[c.first + i * c.step]));
      }
      out[task] = sum;
    }
  }
}

template <typename T, typename Join>
__device__ void cumulate(const CumArguments& args) {
  using Acc = Wide<T>;
  const T* in = static_cast<const T*>(args.in);
  T* out = static_cast<T*>(args.out);
  const Acc* before = static_cast<const Acc*>(args.totals);
  const Acc neutral = Acc(Neutral<Join>::kValue);
  const i64 tasks = args.rows * args.chunks;
  if (args.blocks) {
    constexpr int kItems = 4;  // of a thread
    for (i64 task = blockIdx.x; task < tasks; task += gridDim.x) {
      const CumChunk c(args, task);
      Acc carry = neutral;
      if (c.chunk > 0) {
        for (i64 p = threadIdx.x; p < c.chunk; p += blockDim.x) {
          carry = Join::join(carry, before[p * args.rows + c.row]);
        }
        carry = block_join<Join>(carry, neutral);
      }
      const i64 stretch = static_cast<i64>(blockDim.x) * kItems;
      for (i64 begin = 0; begin < c.count; begin += stretch) {
        const i64 own = begin + static_cast<i64>(threadIdx.x) * kItems;
        Acc values[kItems];
        Acc sum = neutral;
        for (int i = 0; i < kItems; ++i) {
          values[i] =
              own + i < c.count ? static_cast<Acc>(in[c.first + (own + i) * c.step]) : neutral;
          sum = Join::join(sum, values[i]);
        }
        Acc all = neutral;
        const Acc through = block_scan<Join>(sum, all);
        // What comes before this thread's elements, without dividing or subtracting.
        const Acc previous = __shfl_sync(0xffffffffu, through, (threadIdx.x + 31) % 32);
        __shared__ Acc last[8];
        if (threadIdx.x % 32 == 31) last[threadIdx.x / 32] = through;
        __syncthreads();
        Acc running = carry;
        if (threadIdx.x > 0) {
          running =
              Join::join(carry, threadIdx.x % 32 == 0 ? last[threadIdx.x / 32 - 1] : previous);
        }
        for (int i = 0; i < kItems; ++i) {
          if (own + i >= c.count) break;
          T& y = out[c.first + (own + i) * c.step];
          if (args.exclusive) y = static_cast<T>(running);
          running = Join::join(running, values[i]);
          if (!args.exclusive) y = static_cast<T>(running);
        }
        carry = Join::join(carry, all);
      }
    }
  } else {
    for (i64 task = global_index(); task < tasks; task += global_size()) {
      const CumChunk c(args, task);
      Acc running = neutral;
      for (i64 p = 0; p < c.chunk; ++p)
        running = Join::join(running, before[p * args.rows + c.row]);
      for (i64 i = 0; i < c.count; ++i) {
        const i64 at = c.first + i * c.step;
        const Acc value = static_cast<Acc>(in[at]);
        if (args.exclusive) out[at] = static_cast<T>(running);
        running = Join::join(running, value);
        if (!args.exclusive) out[at] = static_cast<T>(running);
      }
    }
  }
}

template <typename T, bool kWide = (sizeof(T) > 4)>
struct KeyOf {
  using type = u32;
};
template <typename T>
struct KeyOf<T, true> {
  using type = u64;
};
template <typename T>
using Key = typename KeyOf<T>::type;

/// A number whose order is that of x, or the reverse; equal values (0 and -0, all NaN) have equal
/// keys.
template <typename T>
__device__ Key<T> key_of(T x, bool largest) {
  constexpr Key<T> kSign = Key<T>(1) << (8 * sizeof(Key<T>) - 1);
  Key<T> key;
  if constexpr (NumberOf<T>::kFloat) {
    if (x != x) {
      key = ~Key<T>(0);
    } else {
      const T y = x == T(0) ? T(0) : x;
      memcpy(&key, &y, sizeof(T));
      key = (key & kSign) != 0 ? ~key : key | kSign;
    }
  } else if constexpr (NumberOf<T>::kNegative) {
    key = static_cast<Key<T>>(static_cast<i64>(x)) ^ kSign;
  } else {
    key = static_cast<Key<T>>(x);
  }
  return largest ? ~key : key;
}

__device__ inline i64 offset(const TopKArguments& args, i64 row, i64 size, i64 i) {
  return (row / args.inner * size + i) * args.inner + row % args.inner;
}

template <typename T>
__device__ void store(const TopKArguments& args, i64 row, i64 i, u32 position) {
  const i64 to = offset(args, row, args.k, i);
  static_cast<T*>(args.values)[to] =
      static_cast<const T*>(args.in)[offset(args, row, args.size, position)];
  args.indices[to] = position;
}

template <typename T>
__device__ void top_k(const TopKArguments& args) {
  __shared__ Key<T> keys[kSortSlots];
  __shared__ u32 order[kSortSlots];
  const T* in = static_cast<const T*>(args.in);
  const u32 groups = args.slots / args.width;
  const i64 tasks = args.rows * args.chunks, tiles = (tasks + groups - 1) / groups;
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    for (u32 s = threadIdx.x; s < args.slots; s += blockDim.x) {
      const i64 task = tile * groups + s / args.width;
      const i64 row = task / args.chunks;
      const i64 i = task % args.chunks * args.width + s % args.width;
      Key<T> key = ~Key<T>(0);
      u32 position = ~0u;  // behind every real one
      if (task < tasks && i < args.entries) {
        if (args.keys != nullptr) {
          key = static_cast<const Key<T>*>(args.keys)[row * args.entries + i];
          position = args.order[row * args.entries + i];
        } else {
          key = key_of(in[offset(args, row, args.size, i)], args.largest);
          position = static_cast<u32>(i);
        }
      }
      keys[s] = key;
      order[s] = position;
    }
    sort_slots(keys, order, args.slots, args.width);
    for (u32 s = threadIdx.x; s < args.slots; s += blockDim.x) {
      const i64 task = tile * groups + s / args.width, i = s % args.width;
      if (task >= tasks || i >= args.keep) continue;
      if (args.next_keys == nullptr) {
        store<T>(args, task, i, order[s]);
      } else {
        static_cast<Key<T>*>(args.next_keys)[task * args.keep + i] = keys[s];
        args.next_order[task * args.keep + i] = order[s];
      }
    }
    __syncthreads();
  }
}

/// Keys of all elements for a sort of whole rows, and what that leaves.
template <typename T>
__device__ void top_k_keys(const TopKArguments& args) {
  const T* in = static_cast<const T*>(args.in);
  for (i64 i = global_index(); i < args.rows * args.size; i += global_size()) {
    static_cast<Key<T>*>(args.next_keys)[i] =
        key_of(in[offset(args, i / args.size, args.size, i % args.size)], args.largest);
  }
}
template <typename T>
__device__ void top_k_store(const TopKArguments& args) {
  for (i64 i = global_index(); i < args.rows * args.k; i += global_size()) {
    const i64 row = i / args.k;
    store<T>(args, row, i % args.k, args.order[row * args.size + i % args.k]);
  }
}

}  // namespace

#define SCANS(T, suffix)                                                                 \
  TRAINRT_KERNEL(cum_sum_totals_##suffix, CumArguments) { totals<T, SumOf>(args); }      \
  TRAINRT_KERNEL(cum_sum_##suffix, CumArguments) { cumulate<T, SumOf>(args); }           \
  TRAINRT_KERNEL(cum_prod_totals_##suffix, CumArguments) { totals<T, ProductOf>(args); } \
  TRAINRT_KERNEL(cum_prod_##suffix, CumArguments) { cumulate<T, ProductOf>(args); }      \
  TRAINRT_KERNEL(top_k_##suffix, TopKArguments) { top_k<T>(args); }                      \
  TRAINRT_KERNEL(top_k_keys_##suffix, TopKArguments) { top_k_keys<T>(args); }            \
  TRAINRT_KERNEL(top_k_store_##suffix, TopKArguments) { top_k_store<T>(args); }

TRAINRT_FOR_NUMBERS(SCANS)

}  // namespace trainrt::cuda
