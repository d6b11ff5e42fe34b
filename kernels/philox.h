// Philox4x32-10, a counter-based random generator (Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", 2011): the same (key, counter) gives the same four words, in any order.
#ifndef TRAINRT_KERNELS_PHILOX_H_
#define TRAINRT_KERNELS_PHILOX_H_

#include <array>
#include <cstdint>

namespace trainrt {

struct Philox {
  uint64_t seed = 0;    // key
  uint64_t step = 0;    // high words of the counter
  uint32_t stream = 0;  // mixed into the key

  /// Words of block `block`.
  std::array<uint32_t, 4> operator()(uint64_t block) const {
    uint32_t k0 = static_cast<uint32_t>(seed) ^ (stream * 0x9E3779B9u);
    uint32_t k1 = static_cast<uint32_t>(seed >> 32) + stream;
    std::array<uint32_t, 4> c = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                 static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)};
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }
};

/// Word i of the stream: word i % 4 of block i / 4.
inline uint32_t philox_word(const Philox& p, uint64_t i) { return p(i / 4)[i % 4]; }
/// Uniform in [0, 1), 24 bits.
inline double to_uniform(uint32_t word) { return (word >> 8) * (1.0 / 16777216.0); }

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_PHILOX_H_
