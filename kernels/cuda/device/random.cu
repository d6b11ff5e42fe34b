#include "kernels/cuda/device/random.h"

#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {
namespace {

struct Words {
  u32 w[4];
};

/// Philox4x32-10, as in kernels/philox.h.
__device__ Words philox(const RandomArguments& args, u64 block) {
  const u64 seed = static_cast<u64>(args.rng[0]), step = static_cast<u64>(args.rng[1]);
  u32 k0 = static_cast<u32>(seed) ^ (args.stream * 0x9E3779B9u);
  u32 k1 = static_cast<u32>(seed >> 32) + args.stream;
  Words c = {{static_cast<u32>(block), static_cast<u32>(block >> 32), static_cast<u32>(step),
              static_cast<u32>(step >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = u64{0xD2511F53u} * c.w[0], p1 = u64{0xCD9E8D57u} * c.w[2];
    c = {{static_cast<u32>(p1 >> 32) ^ c.w[1] ^ k0, static_cast<u32>(p1),
          static_cast<u32>(p0 >> 32) ^ c.w[3] ^ k1, static_cast<u32>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

__device__ double to_uniform(u32 word) { return (word >> 8) * (1.0 / 16777216.0); }

template <typename T>
__device__ void dropout(const RandomArguments& args) {
  const T factor = static_cast<T>(args.b);
  const i64 blocks = (args.size + 3) / 4;
  for (i64 b = global_index(); b < blocks; b += global_size()) {
    const Words words = philox(args, static_cast<u64>(b));
    for (int k = 0; k < 4 && b * 4 + k < args.size; ++k) {
      const i64 i = b * 4 + k;
      const bool stays = to_uniform(words.w[k]) >= args.a;
      store<T>(args.out, args.half_out, i,
               stays ? load<T>(args.x, args.half_x, i) * factor : T(0));
    }
  }
}

template <typename T>
__device__ void uniform(const RandomArguments& args) {
  const T high = static_cast<T>(args.b), below = static_cast<T>(args.below);
  const i64 blocks = (args.size + 3) / 4;
  for (i64 b = global_index(); b < blocks; b += global_size()) {
    const Words words = philox(args, static_cast<u64>(b));
    for (int k = 0; k < 4 && b * 4 + k < args.size; ++k) {
      const T v = static_cast<T>(args.a + (args.b - args.a) * to_uniform(words.w[k]));
      static_cast<T*>(args.out)[b * 4 + k] = v == high ? below : v;
    }
  }
}

/// Box-Muller in double; a GPU's logarithm and cosine may differ from the host's in their last bit.
template <typename T>
__device__ void normal(const RandomArguments& args) {
  const i64 blocks = (args.size + 1) / 2;
  for (i64 b = global_index(); b < blocks; b += global_size()) {
    const Words words = philox(args, static_cast<u64>(b));
    for (int k = 0; k < 2 && b * 2 + k < args.size; ++k) {
      const double u = to_uniform(words.w[2 * k]), v = to_uniform(words.w[2 * k + 1]);
      const double z = sqrt(-2 * log1p(-u)) * cos(2 * 3.141592653589793238462643 * v);
      static_cast<T*>(args.out)[b * 2 + k] = static_cast<T>(args.a + args.b * z);
    }
  }
}

}  // namespace

#define RANDOM(T, suffix)                                                      \
  TRAINRT_KERNEL(dropout_##suffix, RandomArguments) { dropout<T>(args); }      \
  TRAINRT_KERNEL(random_uniform_##suffix, RandomArguments) { uniform<T>(args); } \
  TRAINRT_KERNEL(random_normal_##suffix, RandomArguments) { normal<T>(args); }

RANDOM(float, f32)
RANDOM(double, f64)

}  // namespace trainrt::cuda
