// Helpers of the elementwise families: which element types a formula takes, integer arithmetic
// without undefined behaviour.
#ifndef TRAINRT_KERNELS_REFERENCE_ELEMENTWISE_H_
#define TRAINRT_KERNELS_REFERENCE_ELEMENTWISE_H_

#include <cmath>

#include "kernels/reference/common.h"

namespace trainrt::reference {

enum class Types { kFloats, kIntegers, kNumbers };

template <typename T>
constexpr bool takes(Types types) {
  return types == Types::kNumbers || std::is_floating_point_v<T> == (types == Types::kFloats);
}

/// Unsigned type in which T's arithmetic wraps (narrow types would be promoted to int).
template <typename T>
struct WrapOf {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
requires std::is_floating_point_v<T>
struct WrapOf<T> {
  using type = T;
};
template <typename T>
requires(std::is_integral_v<T> && sizeof(T) < 4) struct WrapOf<T> {
  using type = uint32_t;
};
template <typename T>
using Wrap = typename WrapOf<T>::type;

template <typename T>
T add(T a, T b) {
  return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
}
template <typename T>
T subtract(T a, T b) {
  return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
}
template <typename T>
T multiply(T a, T b) {
  return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
}

template <typename T>
T relu(T x) {
  return x > 0 || is_nan(x) ? x : T{0};
}

/// NaN wins, as in NumPy.
template <typename T>
T maximum(T a, T b) {
  return a > b || is_nan(a) ? a : b;
}
template <typename T>
T minimum(T a, T b) {
  return a < b || is_nan(a) ? a : b;
}

}  // namespace trainrt::reference

#endif  // TRAINRT_KERNELS_REFERENCE_ELEMENTWISE_H_
