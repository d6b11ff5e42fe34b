#include "trainrt/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace trainrt {
namespace {

constexpr std::string_view kNames[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                       "int16",   "int32",   "int64",   "uint8",    "uint16",
                                       "uint32",  "uint64",  "bool"};
constexpr size_t kAlignment = 64;

std::shared_ptr<void> allocate(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  // Large blocks come zeroed from the system; aligned_alloc would make memset touch every page.
  void* base = std::calloc(rounded + kAlignment, 1);
  if (base == nullptr) {
    throw Error(ErrorCode::kMemory, "cannot allocate " + std::to_string(bytes) + " bytes");
  }
  const auto address = reinterpret_cast<uintptr_t>(base);
  auto* aligned = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  return {aligned, [base](void*) { std::free(base); }};
}

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu, fraction = h & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// Round to nearest even, through double so that float64 input is rounded once.
uint16_t double_to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000u : 0u;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00u;
  if (magnitude >= 65520.0) return sign | 0x7C00u;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int shift = std::max(exponent - 11, -24);  // weight of the last fraction bit
  const double units = std::nearbyint(std::ldexp(magnitude, -shift));
  if (shift == -24) return sign | static_cast<uint16_t>(units);
  return sign | static_cast<uint16_t>((static_cast<uint32_t>(shift + 24) << 10) +
                                      static_cast<uint32_t>(units));
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

template <typename T>
T saturate(double v) {
  if (std::isnan(v)) return 0;
  if (v <= static_cast<double>(std::numeric_limits<T>::lowest())) {
    return std::numeric_limits<T>::lowest();
  }
  if (v >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

template <typename From, typename To>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturate<To>(static_cast<double>(v));
  } else {
    return static_cast<To>(v);
  }
}

template <typename F>
void read_half(const Tensor& t, F&& put) {
  const auto* source = static_cast<const uint16_t*>(t.raw());
  for (int64_t i = 0; i < t.size(); ++i) {
    put(i, t.dtype() == DType::kFloat16
               ? half_to_float(source[i])
               : std::bit_cast<float>(static_cast<uint32_t>(source[i]) << 16));
  }
}

}  // namespace

std::string_view dtype_name(DType t) { return kNames[static_cast<size_t>(t)]; }

bool parse_dtype(std::string_view name, DType* out) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return false;
  *out = static_cast<DType>(found - std::begin(kNames));
  return true;
}

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t d : shape) {
    if (d < 0) throw Error(ErrorCode::kMemory, "negative dim in shape " + to_string(shape));
    if (d == 0) empty = true;
  }
  if (empty) return 0;
  for (int64_t d : shape) {
    if (count > (int64_t{1} << 62) / d) {
      throw Error(ErrorCode::kMemory, "shape " + to_string(shape) + " is too large");
    }
    count *= d;
  }
  return count;
}

std::string to_string(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  size_ = element_count(shape_);
  if (size_ > (int64_t{1} << 46)) {
    throw Error(ErrorCode::kMemory, "shape " + to_string(shape_) + " is too large");
  }
  data_ = allocate(bytes());
}

Tensor Tensor::of_ints(std::span<const int64_t> values) {
  return from<int64_t>(values, {static_cast<int64_t>(values.size())});
}

Tensor Tensor::view(void* data, DType dtype, Shape shape) {
  return view(data, dtype, std::move(shape), nullptr);
}

Tensor Tensor::view(void* data, DType dtype, Shape shape, std::shared_ptr<void> owner) {
  const int64_t size = element_count(shape);
  if (data == nullptr) {
    if (size == 0) return Tensor(dtype, std::move(shape));  // as that of an empty std::vector
    throw Error(ErrorCode::kInput, "Tensor::view: null data for shape " + to_string(shape));
  }
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = std::move(shape);
  t.size_ = size;
  t.data_ = std::shared_ptr<void>(std::move(owner), data);
  return t;
}

std::vector<int64_t> Tensor::strides() const {
  std::vector<int64_t> strides(shape_.size());
  uint64_t step = 1;  // unsigned: an empty tensor may have axes whose product is out of range
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(shape_[i], 1));
  }
  return strides;
}

double Tensor::item() const {
  if (size_ != 1) {
    throw Error(ErrorCode::kInput,
                "one element expected, the tensor has shape " + to_string(shape_));
  }
  return to(DType::kFloat64).data<double>()[0];
}

std::vector<int64_t> Tensor::to_ints() const {
  if (is_float(dtype_)) {
    throw Error(ErrorCode::kInput,
                "integers expected, the tensor is " + std::string(dtype_name(dtype_)));
  }
  const Tensor wide = to(DType::kInt64);
  const auto values = wide.data<int64_t>();
  return {values.begin(), values.end()};
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor t(dtype_, shape_);
  if (size_) std::memcpy(t.raw(), raw(), bytes());
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  if (element_count(shape) != size_) {
    throw Error(ErrorCode::kInput,
                "cannot reshape " + to_string(shape_) + " to " + to_string(shape));
  }
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  if (shape_.empty() || begin < 0 || end < begin || end > shape_[0]) {
    throw Error(ErrorCode::kInput, "rows [" + std::to_string(begin) + ", " + std::to_string(end) +
                                       ") of a tensor of shape " + to_string(shape_));
  }
  Tensor t = *this;
  const int64_t row = shape_[0] ? size_ / shape_[0] : 0;
  t.shape_[0] = end - begin;
  t.size_ = row * (end - begin);
  t.data_ = std::shared_ptr<void>(data_, static_cast<char*>(data_.get()) +
                                             static_cast<size_t>(row * begin) * dtype_size(dtype_));
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return clone();
  Tensor t(dtype, shape_);
  if (dtype_ == DType::kFloat16 || dtype_ == DType::kBFloat16) {
    if (dtype == DType::kFloat32) {
      auto* out = static_cast<float*>(t.raw());
      read_half(*this, [&](int64_t i, float v) { out[i] = v; });
      return t;
    }
    return to(DType::kFloat32).to(dtype);
  }
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) {
    auto* out = static_cast<uint16_t*>(t.raw());
    with_type(dtype_, [&](auto tag) {
      using From = decltype(tag);
      const auto* in = static_cast<const From*>(raw());
      for (int64_t i = 0; i < size_; ++i) {
        out[i] = dtype == DType::kFloat16 ? double_to_half(static_cast<double>(in[i]))
                                          : float_to_bfloat16(static_cast<float>(in[i]));
      }
    });
    return t;
  }
  with_type(dtype_, [&](auto from) {
    with_type(dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const auto* in = static_cast<const From*>(raw());
      auto* out = static_cast<To*>(t.raw());
      for (int64_t i = 0; i < size_; ++i) out[i] = convert<From, To>(in[i]);
    });
  });
  return t;
}

void Tensor::fill(double value) {
  if (dtype_ == DType::kFloat16 || dtype_ == DType::kBFloat16) {
    const Tensor one = Tensor::scalar(value).to(dtype_);
    const uint16_t bits = *static_cast<const uint16_t*>(one.raw());
    std::fill_n(static_cast<uint16_t*>(raw()), size_, bits);
    return;
  }
  with_type(dtype_, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(static_cast<T*>(raw()), size_, convert<double, T>(value));
  });
}

void Tensor::copy_from(const Tensor& source) {
  if (source.dtype_ != dtype_ || source.shape_ != shape_) {
    throw Error(ErrorCode::kInput, "cannot copy " + std::string(dtype_name(source.dtype_)) +
                                       to_string(source.shape_) + " into " +
                                       std::string(dtype_name(dtype_)) + to_string(shape_));
  }
  if (size_) std::memmove(raw(), source.raw(), bytes());
}

void Tensor::check_count(const char* where, size_t values, const Shape& shape) {
  const int64_t expected = element_count(shape);
  if (static_cast<size_t>(expected) == values) return;
  throw Error(ErrorCode::kInput, std::string(where) + ": " + std::to_string(values) +
                                     " values for shape " + to_string(shape) + ", which has " +
                                     std::to_string(expected));
}

void Tensor::check_type(DType wanted) const {
  if (dtype_ != wanted) {
    throw Error(ErrorCode::kInput, "the tensor holds " + std::string(dtype_name(dtype_)) +
                                       ", asked for " + std::string(dtype_name(wanted)));
  }
}

}  // namespace trainrt
