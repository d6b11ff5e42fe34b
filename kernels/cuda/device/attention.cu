// Attention without a matrix of scores. A block takes 32 rows of one head, eight threads a row:
// each holds every eighth element of the row, and products of rows are summed among the eight. The
// rows of the other side pass by in shared memory.
#include "kernels/cuda/device/attention.h"
#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {
namespace {

constexpr int kRows = 32, kLanes = 8;

template <typename T>
struct Tile;
template <>
struct Tile<float> {
  static constexpr int kOthers = 16;  // rows of the other side at a time: 32 KiB of shared memory
};
template <>
struct Tile<double> {
  static constexpr int kOthers = 8;
};

__device__ i64 row_at(const HeadRows& rows, i64 b, i64 h, i64 t) {
  return rows.first + b * rows.batch + h * rows.head + t * rows.token;
}

template <typename T>
__device__ T among_lanes(T value) {
  for (int d = 1; d < kLanes; d *= 2) value += __shfl_xor_sync(0xffffffffu, value, d);
  return value;
}

/// This thread's part of a row; zero beyond its end.
template <typename T, int kPart>
__device__ void read_row(const HeadRows& rows, i64 b, i64 h, i64 t, bool there, i64 size, int lane,
                         T* part) {
  const i64 at = row_at(rows, b, h, t);
  TRAINRT_UNROLL
  for (int i = 0; i < kPart; ++i) {
    const int c = i * kLanes + lane;
    part[i] = there && c < size ? load<T>(rows.data, rows.half, at + c) : T(0);
  }
}

template <typename T, int kPart>
__device__ void write_row(const HeadRows& rows, i64 b, i64 h, i64 t, i64 size, int lane,
                          const T* part) {
  const i64 at = row_at(rows, b, h, t);
  TRAINRT_UNROLL
  for (int i = 0; i < kPart; ++i) {
    const int c = i * kLanes + lane;
    if (c < size) store<T>(rows.data, rows.half, at + c, part[i]);
  }
}

/// Rows [first, first + count) of the other side, of `width` elements each, zero beyond `tokens`.
template <typename T, int kPart>
__device__ void read_tile(const HeadRows& rows, i64 b, i64 h, i64 first, i64 tokens, i64 size,
                          T* tile) {
  constexpr int kWidth = kPart * kLanes, kOthers = Tile<T>::kOthers;
  for (int i = threadIdx.x; i < kOthers * kWidth; i += kRows * kLanes) {
    const int row = i / kWidth, c = i % kWidth;
    const bool there = first + row < tokens && c < size;
    tile[i] = there ? load<T>(rows.data, rows.half, row_at(rows, b, h, first + row) + c) : T(0);
  }
}

template <typename T, int kPart>
__device__ T dot(const T* part, const T* row, int lane) {
  T sum = 0;
  TRAINRT_UNROLL
  for (int i = 0; i < kPart; ++i) sum += part[i] * row[i * kLanes + lane];
  return among_lanes(sum);
}

template <typename T, int kPart>
__device__ void add_row(T* part, T factor, const T* row, int lane) {
  TRAINRT_UNROLL
  for (int i = 0; i < kPart; ++i) part[i] += factor * row[i * kLanes + lane];
}

__device__ i64 visible(const AttentionArguments& args, i64 query) {
  if (!args.causal) return args.keys;
  const i64 n = query + args.keys - args.queries + 1;
  return n < 0 ? 0 : n > args.keys ? args.keys : n;
}

template <typename T>
__device__ T mask_at(const AttentionArguments& args, i64 b, i64 h, i64 i, i64 j) {
  if (args.mask == nullptr) return T(0);
  return static_cast<const T*>(args.mask)[b * args.mask_strides[0] + h * args.mask_strides[1] +
                                          i * args.mask_strides[2] + j * args.mask_strides[3]];
}

/// The chain rule's product: 0 where nothing flows in, whatever the factor is.
template <typename T>
__device__ T chain(T dy, T factor) {
  return dy == T(0) ? T(0) : dy * factor;
}

/// Which rows a block takes.
struct Work {
  i64 b, h, first;
};
__device__ Work work_of(i64 index, i64 tiles, i64 heads) {
  const i64 head = index / tiles;
  return {head / heads, head % heads, index % tiles * kRows};
}

/// A thread's query, and the keys that it and its block see.
struct Query {
  i64 b, h, i;
  bool there;
  i64 seen, most;

  __device__ Query(const AttentionArguments& args, i64 index, i64 tiles) {
    const Work w = work_of(index, tiles, args.heads);
    const i64 last = w.first + kRows < args.queries ? w.first + kRows : args.queries;
    b = w.b;
    h = w.h;
    i = w.first + threadIdx.x / kLanes;
    there = i < args.queries;
    seen = there ? visible(args, i) : 0;
    most = visible(args, last - 1);
  }
};

/// Calls f(first) for the keys that a block sees, which lie with their values in shared memory.
template <typename T, int kPart, typename F>
__device__ void pass_keys(const AttentionArguments& args, const Query& query, T* keys, T* values,
                          F f) {
  const i64 head = query.h / (args.heads / args.kv_heads);
  for (i64 first = 0; first < query.most; first += Tile<T>::kOthers) {
    __syncthreads();
    read_tile<T, kPart>(args.k, query.b, head, first, args.keys, args.size, keys);
    read_tile<T, kPart>(args.v, query.b, head, first, args.keys, args.value_size, values);
    __syncthreads();
    f(first);
  }
}

// The softmax runs along: m is the largest score so far, everything is relative to it.
template <typename T, int kPart>
__device__ void forward(const AttentionArguments& args) {
  constexpr int kOthers = Tile<T>::kOthers, kWidth = kPart * kLanes;
  __shared__ T keys[kOthers * kWidth];
  __shared__ T values[kOthers * kWidth];
  const int lane = threadIdx.x % kLanes;
  const i64 tiles = (args.queries + kRows - 1) / kRows;
  const T scale = static_cast<T>(args.scale), none = -static_cast<T>(INFINITY);
  for (i64 index = blockIdx.x; index < args.batch * args.heads * tiles; index += gridDim.x) {
    const Query w(args, index, tiles);
    T q[kPart], y[kPart] = {};
    read_row<T, kPart>(args.q, w.b, w.h, w.i, w.there, args.size, lane, q);
    T m = none, sum = 0;
    pass_keys<T, kPart>(args, w, keys, values, [&](i64 first) {
      T s[kOthers], peak = m;
      TRAINRT_UNROLL
      for (int j = 0; j < kOthers; ++j) {
        const T product = dot<T, kPart>(q, keys + j * kWidth, lane);
        s[j] = first + j < w.seen ? scale * product + mask_at<T>(args, w.b, w.h, w.i, first + j)
                                  : none;
        if (first + j < w.seen) peak = MaxOf::join(peak, s[j]);
      }
      if (peak == none) return;  // nothing is seen yet
      const T factor = m == none ? T(0) : exp(m - peak);
      m = peak;
      sum *= factor;
      TRAINRT_UNROLL
      for (int c = 0; c < kPart; ++c) y[c] *= factor;
      TRAINRT_UNROLL
      for (int j = 0; j < kOthers; ++j) {
        if (first + j >= w.seen) continue;
        const T e = exp(s[j] - m);
        sum += e;
        add_row<T, kPart>(y, e, values + j * kWidth, lane);
      }
    });
    if (!w.there) continue;
    // Without a key the softmax is 0/0, as it is where the mask leaves none.
    if (m == none) sum = static_cast<T>(NAN);
    TRAINRT_UNROLL
    for (int c = 0; c < kPart; ++c) y[c] = m == none ? sum : y[c] / sum;
    write_row<T, kPart>(args.y, w.b, w.h, w.i, args.value_size, lane, y);
    if (lane == 0) {
      static_cast<T*>(args.log_sums)[(w.b * args.heads + w.h) * args.queries + w.i] = m + log(sum);
    }
  }
}

/// Sums of dy y for each query.
template <typename T>
__device__ void row_sums(const AttentionArguments& args) {
  const u32 lane = threadIdx.x % 32;
  const i64 rows = args.batch * args.heads * args.queries;
  for (i64 r = global_index() / 32; r < rows; r += global_size() / 32) {
    const i64 i = r % args.queries, h = r / args.queries % args.heads,
              b = r / args.queries / args.heads;
    const i64 at_y = row_at(args.y, b, h, i), at_dy = row_at(args.dy, b, h, i);
    T sum = 0;
    for (i64 c = lane; c < args.value_size; c += 32) {
      sum += chain(load<T>(args.dy.data, args.dy.half, at_dy + c),
                   load<T>(args.y.data, args.y.half, at_y + c));
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (lane == 0) static_cast<T*>(args.sums)[r] = sum;
  }
}

// With P = e^(score - log-sum) and D = sum of dy y: dS = P (dy v^T - D), dq = scale dS k
template <typename T, int kPart>
__device__ void query_gradient(const AttentionArguments& args) {
  constexpr int kOthers = Tile<T>::kOthers, kWidth = kPart * kLanes;
  __shared__ T keys[kOthers * kWidth];
  __shared__ T values[kOthers * kWidth];
  const int lane = threadIdx.x % kLanes;
  const i64 tiles = (args.queries + kRows - 1) / kRows;
  const T scale = static_cast<T>(args.scale);
  for (i64 index = blockIdx.x; index < args.batch * args.heads * tiles; index += gridDim.x) {
    const Query w(args, index, tiles);
    const i64 row = (w.b * args.heads + w.h) * args.queries + w.i;
    const T log_sum = w.there ? static_cast<const T*>(args.log_sums)[row] : T(0);
    const T sum = w.there ? static_cast<const T*>(args.sums)[row] : T(0);
    T q[kPart], dy[kPart], dq[kPart] = {};
    read_row<T, kPart>(args.q, w.b, w.h, w.i, w.there, args.size, lane, q);
    read_row<T, kPart>(args.dy, w.b, w.h, w.i, w.there, args.value_size, lane, dy);
    pass_keys<T, kPart>(args, w, keys, values, [&](i64 first) {
      for (int j = 0; j < kOthers; ++j) {
        const T product = dot<T, kPart>(q, keys + j * kWidth, lane);
        const T into = dot<T, kPart>(dy, values + j * kWidth, lane);
        if (first + j >= w.seen) continue;
        const T score = scale * product + mask_at<T>(args, w.b, w.h, w.i, first + j);
        const T ds = scale * chain(into - sum, exp(score - log_sum));
        add_row<T, kPart>(dq, ds, keys + j * kWidth, lane);
      }
    });
    if (w.there) write_row<T, kPart>(args.dq, w.b, w.h, w.i, args.size, lane, dq);
  }
}

// dv = P^T dy, dk = scale dS^T q: the queries pass by, of all heads that share these keys
template <typename T, int kPart>
__device__ void key_gradient(const AttentionArguments& args) {
  constexpr int kOthers = Tile<T>::kOthers, kWidth = kPart * kLanes;
  __shared__ T queries[kOthers * kWidth];
  __shared__ T gradients[kOthers * kWidth];
  const int lane = threadIdx.x % kLanes;
  const i64 tiles = (args.keys + kRows - 1) / kRows;
  const i64 count = args.batch * args.kv_heads * tiles, group = args.heads / args.kv_heads;
  const T scale = static_cast<T>(args.scale);
  for (i64 index = blockIdx.x; index < count; index += gridDim.x) {
    const Work w = work_of(index, tiles, args.kv_heads);
    const i64 j = w.first + threadIdx.x / kLanes;
    const bool there = j < args.keys;
    T k[kPart], v[kPart], dk[kPart] = {}, dv[kPart] = {};
    read_row<T, kPart>(args.k, w.b, w.h, j, there, args.size, lane, k);
    read_row<T, kPart>(args.v, w.b, w.h, j, there, args.value_size, lane, v);
    for (i64 h = w.h * group; h < (w.h + 1) * group; ++h) {
      // The first query that sees the block's first key.
      i64 begin = args.causal ? w.first - (args.keys - args.queries) : 0;
      begin = begin < 0 ? 0 : begin / kOthers * kOthers;
      for (i64 first = begin; first < args.queries; first += kOthers) {
        __syncthreads();
        read_tile<T, kPart>(args.q, w.b, h, first, args.queries, args.size, queries);
        read_tile<T, kPart>(args.dy, w.b, h, first, args.queries, args.value_size, gradients);
        __syncthreads();
        for (int i = 0; i < kOthers; ++i) {
          const T product = dot<T, kPart>(k, queries + i * kWidth, lane);
          const T into = dot<T, kPart>(v, gradients + i * kWidth, lane);
          const i64 query = first + i;
          if (!there || query >= args.queries || j >= visible(args, query)) continue;
          const i64 row = (w.b * args.heads + h) * args.queries + query;
          const T score = scale * product + mask_at<T>(args, w.b, h, query, j);
          const T weight = exp(score - static_cast<const T*>(args.log_sums)[row]);
          const T ds = scale * chain(into - static_cast<const T*>(args.sums)[row], weight);
          add_row<T, kPart>(dv, weight, gradients + i * kWidth, lane);
          add_row<T, kPart>(dk, ds, queries + i * kWidth, lane);
        }
      }
    }
    if (!there) continue;
    write_row<T, kPart>(args.dk, w.b, w.h, j, args.size, lane, dk);
    write_row<T, kPart>(args.dv, w.b, w.h, j, args.value_size, lane, dv);
  }
}

}  // namespace

// By the width of the rows: up to 64, 128 and 256 elements.
#define ATTENTION(T, kPart, suffix)                                                             \
  TRAINRT_KERNEL(attention_##suffix, AttentionArguments) { forward<T, kPart>(args); }           \
  TRAINRT_KERNEL(attention_dq_##suffix, AttentionArguments) { query_gradient<T, kPart>(args); } \
  TRAINRT_KERNEL(attention_dkv_##suffix, AttentionArguments) { key_gradient<T, kPart>(args); }

ATTENTION(float, 8, 64_f32)
ATTENTION(float, 16, 128_f32)
ATTENTION(float, 32, 256_f32)
ATTENTION(double, 8, 64_f64)
ATTENTION(double, 16, 128_f64)
ATTENTION(double, 32, 256_f64)
TRAINRT_KERNEL(attention_sums_f32, AttentionArguments) { row_sums<float>(args); }
TRAINRT_KERNEL(attention_sums_f64, AttentionArguments) { row_sums<double>(args); }

}  // namespace trainrt::cuda
