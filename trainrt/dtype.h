// Element types of tensors.
#ifndef TRAINRT_DTYPE_H_
#define TRAINRT_DTYPE_H_

#if __cplusplus < 202002L
#error "trainrt's headers are C++20: compile with -std=c++20"
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainrt {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,   // storage only: imported values are converted to the working type
  kBFloat16,  // storage only: imported values are converted to the working type
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,  // one byte, 0 or 1
};

/// Bytes of one element.
constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kUInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
    case DType::kUInt16:
      return 2;
    default:
      return 1;
  }
}

constexpr bool is_float(DType t) {
  return t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kFloat16 ||
         t == DType::kBFloat16;
}

constexpr bool is_integer(DType t) { return !is_float(t) && t != DType::kBool; }

/// "float32", "int64", "bool", …
std::string_view dtype_name(DType t);

/// Inverse of dtype_name; false when the name is unknown.
bool parse_dtype(std::string_view name, DType* out);

/// DType of a C++ type: float, double, the fixed-width integers, bool.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kInt16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kUInt16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kUInt32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kUInt64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls f with a value of the C++ type that t names. float16 and bfloat16 have none: f is not
/// called and false is returned.
template <typename F>
bool with_type(DType t, F&& f) {
  switch (t) {
    case DType::kFloat32:
      f(float{});
      return true;
    case DType::kFloat64:
      f(double{});
      return true;
    case DType::kInt8:
      f(int8_t{});
      return true;
    case DType::kInt16:
      f(int16_t{});
      return true;
    case DType::kInt32:
      f(int32_t{});
      return true;
    case DType::kInt64:
      f(int64_t{});
      return true;
    case DType::kUInt8:
      f(uint8_t{});
      return true;
    case DType::kUInt16:
      f(uint16_t{});
      return true;
    case DType::kUInt32:
      f(uint32_t{});
      return true;
    case DType::kUInt64:
      f(uint64_t{});
      return true;
    case DType::kBool:
      f(bool{});
      return true;
    default:
      return false;
  }
}

/// As with_type, for float32 and float64 only.
template <typename F>
bool with_float_type(DType t, F&& f) {
  if (t == DType::kFloat32) {
    f(float{});
    return true;
  }
  if (t == DType::kFloat64) {
    f(double{});
    return true;
  }
  return false;
}

}  // namespace trainrt

#endif  // TRAINRT_DTYPE_H_
