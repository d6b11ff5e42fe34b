// Arithmetic on every element type: integers wrap, NaN is the largest and the smallest value.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_NUMBERS_INL_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_NUMBERS_INL_H_

#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {

/// What elements are widened to before they are computed with, the type in which sums and products
/// are accumulated, whether there are negative values, and the least and the largest one.
template <typename T>
struct NumberOf;

template <>
struct NumberOf<float> {
  using Value = float;
  using Wide = double;
  static constexpr bool kFloat = true, kNegative = true;
  __device__ static float largest() { return INFINITY; }
  __device__ static float lowest() { return -INFINITY; }
};
template <>
struct NumberOf<double> {
  using Value = double;
  using Wide = double;
  static constexpr bool kFloat = true, kNegative = true;
  __device__ static double largest() { return INFINITY; }
  __device__ static double lowest() { return -INFINITY; }
};
template <>
struct NumberOf<bf16> : NumberOf<float> {};

template <typename T, bool kSigned>
struct IntegerOf {
  using Value = T;
  using Wide = u64;
  static constexpr bool kFloat = false, kNegative = kSigned;
  __device__ static T largest() {
    return static_cast<T>(~u64{0} >> (64 - 8 * sizeof(T) + (kSigned ? 1 : 0)));
  }
  __device__ static T lowest() { return static_cast<T>(kSigned ? ~largest() : 0); }
};
template <>
struct NumberOf<signed char> : IntegerOf<signed char, true> {};
template <>
struct NumberOf<short> : IntegerOf<short, true> {};
template <>
struct NumberOf<int> : IntegerOf<int, true> {};
template <>
struct NumberOf<i64> : IntegerOf<i64, true> {};
template <>
struct NumberOf<unsigned char> : IntegerOf<unsigned char, false> {};
template <>
struct NumberOf<unsigned short> : IntegerOf<unsigned short, false> {};
template <>
struct NumberOf<u32> : IntegerOf<u32, false> {};
template <>
struct NumberOf<u64> : IntegerOf<u64, false> {};

template <typename T>
using Value = typename NumberOf<T>::Value;
template <typename T>
using Wide = typename NumberOf<T>::Wide;

template <typename T>
__device__ Value<T> value_of(T x) {
  return x;
}
template <>
__device__ inline float value_of<bf16>(bf16 x) {
  return widen(x);
}

template <typename T>
__device__ T add(T a, T b) {
  if constexpr (NumberOf<T>::kFloat) return a + b;
  return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <typename T>
__device__ T multiply(T a, T b) {
  if constexpr (NumberOf<T>::kFloat) return a * b;
  return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
}

}  // namespace trainrt::cuda

/// Expands M(type, suffix) for every integer type.
#define TRAINRT_FOR_INTEGERS(M) \
  M(signed char, i8)            \
  M(short, i16)                 \
  M(int, i32)                   \
  M(i64, i64)                   \
  M(unsigned char, u8)          \
  M(unsigned short, u16)        \
  M(u32, u32)                   \
  M(u64, u64)
#define TRAINRT_FOR_NUMBERS(M) \
  M(float, f32)                \
  M(double, f64)               \
  TRAINRT_FOR_INTEGERS(M)

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_NUMBERS_INL_H_
