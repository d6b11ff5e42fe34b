// Walks over shapes with several operands, each with strides of its own, as kernels get them.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_STRIDED_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_STRIDED_H_

namespace trainrt::cuda {

inline constexpr int kMaxWalkRank = 16;

/// n / divisor for 0 <= n < 2^31, as (high word of n * multiplier + n) >> shift.
struct Divisor {
  unsigned divisor, multiplier, shift;
};

/// Row-major over `sizes`; element strides of operand k are strides[k]. The divisors are those of
/// the sizes, for walks over fewer than 2^31 elements.
template <int kOperands>
struct Walk {
  int rank;
  Divisor divisors[kMaxWalkRank];
  long long sizes[kMaxWalkRank];
  long long strides[kOperands][kMaxWalkRank];
};

/// Elements of 16 bytes.
struct alignas(16) Chunk16 {
  unsigned long long words[2];
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_STRIDED_H_
