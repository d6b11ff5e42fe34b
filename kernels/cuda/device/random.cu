// The streams of kernels/philox.h: the same words for the same key on every backend.
#include "kernels/cuda/device/random.h"
#include "kernels/cuda/device/team-inl.h"

namespace trainrt::cuda {
namespace {

struct Words {
  u32 word[4];
};

/// Philox4x32-10 as in kernels/philox.h.
__device__ Words philox(const void* key, u32 stream, u64 block) {
  const u64* rng = static_cast<const u64*>(key);
  const u64 seed = rng[0], step = rng[1];
  u32 k0 = static_cast<u32>(seed) ^ (stream * 0x9E3779B9u);
  u32 k1 = static_cast<u32>(seed >> 32) + stream;
  u32 c0 = static_cast<u32>(block), c1 = static_cast<u32>(block >> 32);
  u32 c2 = static_cast<u32>(step), c3 = static_cast<u32>(step >> 32);
  TRAINRT_UNROLL
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const u32 high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

__device__ inline double to_uniform(u32 word) { return (word >> 8) * (1.0 / 16777216.0); }

/// Four elements as one access.
template <typename S>
struct alignas(4 * sizeof(S) < 16 ? 4 * sizeof(S) : 16) Four {
  S v[4];
};

template <typename S, typename T>
__device__ void load_four(const void* from, i64 i, i64 size, T (&v)[4]) {
  const S* p = static_cast<const S*>(from) + i;
  if (i + 4 > size) return load_stored(p, i64{1}, size - i, v);
  const Four<S> four = *reinterpret_cast<const Four<S>*>(p);
  for (int k = 0; k < 4; ++k) v[k] = widen(four.v[k]);
}

template <typename S, typename T>
__device__ void store_four(void* to, i64 i, i64 size, const T (&v)[4]) {
  S* p = static_cast<S*>(to) + i;
  if (i + 4 > size) return store_as(p, i64{1}, size - i, v);
  Four<S> four;
  for (int k = 0; k < 4; ++k) four.v[k] = Stored<S>::from(v[k]);
  *reinterpret_cast<Four<S>*>(p) = four;
}

/// X and Y: how the operand and the result are kept. T: what is computed in.
template <typename X, typename Y, typename T>
__device__ void dropout(const DropoutArguments& args) {
  const T scale = static_cast<T>(args.scale);
  for (i64 block = global_index(); block * 4 < args.size; block += global_size()) {
    const Words words = philox(args.key, args.stream, static_cast<u64>(block));
    T v[4];
    load_four<X>(args.x, block * 4, args.size, v);
    for (int k = 0; k < 4; ++k) {
      v[k] = words.word[k] >> 8 >= args.threshold ? v[k] * scale : T(0);
    }
    store_four<Y>(args.y, block * 4, args.size, v);
  }
}

template <typename T>
__device__ void uniform(const RandomArguments& args) {
  const T high = static_cast<T>(args.high), below = static_cast<T>(args.below);
  for (i64 block = global_index(); block * 4 < args.size; block += global_size()) {
    const Words words = philox(args.key, args.stream, static_cast<u64>(block));
    T y[4];
    for (int k = 0; k < 4; ++k) {
      y[k] = static_cast<T>(args.a + __dmul_rn(args.b, to_uniform(words.word[k])));
      if (y[k] == high) y[k] = below;
    }
    store_four<T>(args.y, block * 4, args.size, y);
  }
}

/// Box-Muller on two words for each element. Its logarithm and cosine are those of the device,
/// which may differ from a CPU's in the last bit of double.
template <typename T>
__device__ void normal(const RandomArguments& args) {
  for (i64 block = global_index(); block * 2 < args.size; block += global_size()) {
    const Words words = philox(args.key, args.stream, static_cast<u64>(block));
    T* y = static_cast<T*>(args.y) + block * 2;
    for (int k = 0; k < 2 && block * 2 + k < args.size; ++k) {
      const double u = to_uniform(words.word[2 * k]), v = to_uniform(words.word[2 * k + 1]);
      const double z = sqrt(-2 * log1p(-u)) * cos(2 * 3.141592653589793 * v);
      y[k] = static_cast<T>(args.a + __dmul_rn(args.b, z));
    }
  }
}

}  // namespace

TRAINRT_KERNEL(dropout_f32, DropoutArguments) {
  if (args.x_half) {
    if (args.y_half) return dropout<bf16, bf16, float>(args);
    return dropout<bf16, float, float>(args);
  }
  if (args.y_half) return dropout<float, bf16, float>(args);
  dropout<float, float, float>(args);
}
TRAINRT_KERNEL(dropout_f64, DropoutArguments) { dropout<double, double, double>(args); }
TRAINRT_KERNEL(random_uniform_f32, RandomArguments) { uniform<float>(args); }
TRAINRT_KERNEL(random_uniform_f64, RandomArguments) { uniform<double>(args); }
TRAINRT_KERNEL(random_normal_f32, RandomArguments) { normal<float>(args); }
TRAINRT_KERNEL(random_normal_f64, RandomArguments) { normal<double>(args); }

}  // namespace trainrt::cuda
