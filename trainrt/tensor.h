// Dense host tensors: row-major, contiguous, shared ownership of the bytes.
#ifndef TRAINRT_TENSOR_H_
#define TRAINRT_TENSOR_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainrt/device.h"
#include "trainrt/dtype.h"
#include "trainrt/error.h"

namespace trainrt {

using Shape = std::vector<int64_t>;

/// Product of the dims; throws Error(kMemory) when it does not fit 62 bits or a dim is negative.
int64_t element_count(std::span<const int64_t> shape);
/// "[2,3]"
std::string to_string(std::span<const int64_t> shape);

/// A tensor on the host. Copying a Tensor copies a reference: both see the same bytes, which live
/// as long as one of them. clone() copies the bytes. Storage is aligned to 64 bytes unless it is a
/// view of the caller's memory. Distinct tensors may be used from several threads; one tensor needs
/// the caller's care.
class Tensor {
 public:
  /// An undefined tensor: defined() is false.
  Tensor() = default;
  /// Zero-filled storage. Throws Error(kMemory) when it cannot be had.
  Tensor(DType dtype, Shape shape);

  /// Copies values. T must be the element type of some DType.
  template <typename T>
  static Tensor from(std::span<const T> values, Shape shape);
  template <typename T>
  static Tensor from(std::initializer_list<T> values, Shape shape) {
    return from(std::span<const T>(values.begin(), values.size()), std::move(shape));
  }
  template <typename T>
  static Tensor scalar(T value) {
    return from<T>(std::span<const T>(&value, 1), {});
  }
  /// A rank-1 int64 tensor.
  static Tensor of_ints(std::span<const int64_t> values);
  /// A tensor over the caller's memory, without a copy: what one writes the other reads. The memory
  /// must stay valid for as long as the tensor, a copy of it, or a reshape() or rows() of these
  /// lives. A call such as Module::forward() reads its tensors and keeps none of them. Throws
  /// Error(kInput) with both numbers unless the shape has as many elements as `values`.
  template <typename T, size_t N>
  static Tensor view(std::span<T, N> values, Shape shape) {
    return view(values, std::move(shape), nullptr);
  }
  /// As above, keeping `owner` alive for that long: nothing else has to.
  template <typename T, size_t N>
  static Tensor view(std::span<T, N> values, Shape shape, std::shared_ptr<void> owner);
  /// For any type: `data` is aligned to its elements and holds at least the tensor's bytes, of
  /// which nothing can be checked but that it is not null: Error(kInput).
  static Tensor view(void* data, DType dtype, Shape shape);
  static Tensor view(void* data, DType dtype, Shape shape, std::shared_ptr<void> owner);

  bool defined() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  /// Elements between neighbours along each axis. Always those of dense rows, so that a tensor of
  /// shape [2,3,4] has strides [12,4,1]; axes of size 0 count as 1.
  std::vector<int64_t> strides() const;
  /// Where the bytes are: the CPU.
  Device device() const { return {}; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t size() const { return size_; }  // elements
  size_t bytes() const { return static_cast<size_t>(size_) * dtype_size(dtype_); }

  void* raw() { return data_.get(); }
  const void* raw() const { return data_.get(); }

  /// The elements as T; throws Error(kInput) unless T is the tensor's element type.
  template <typename T>
  std::span<T> data() {
    check_type(dtype_of<T>);
    return {static_cast<T*>(raw()), static_cast<size_t>(size_)};
  }
  template <typename T>
  std::span<const T> data() const {
    check_type(dtype_of<T>);
    return {static_cast<const T*>(raw()), static_cast<size_t>(size_)};
  }
  /// The only element, converted; throws Error(kInput) unless size() is 1.
  double item() const;
  /// All elements of an integer or bool tensor; throws Error(kInput) for other types.
  std::vector<int64_t> to_ints() const;

  Tensor clone() const;
  /// Same bytes, other shape of the same size; throws Error(kInput) otherwise.
  Tensor reshape(Shape shape) const;
  /// Rows [begin, end) of the first axis; shares the bytes.
  Tensor rows(int64_t begin, int64_t end) const;
  /// Converted copy (always a copy). float16 and bfloat16 convert to and from float32 and float64.
  Tensor to(DType dtype) const;
  void fill(double value);
  /// Copies values from a tensor of the same dtype and shape; throws Error(kInput) otherwise.
  void copy_from(const Tensor& source);

 private:
  void check_type(DType wanted) const;
  static void check_count(const char* where, size_t values, const Shape& shape);

  std::shared_ptr<void> data_;
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  int64_t size_ = 0;
};

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

template <typename T>
Tensor Tensor::from(std::span<const T> values, Shape shape) {
  check_count("Tensor::from", values.size(), shape);
  Tensor t(dtype_of<T>, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<T*>(t.raw()));
  return t;
}

template <typename T, size_t N>
Tensor Tensor::view(std::span<T, N> values, Shape shape, std::shared_ptr<void> owner) {
  static_assert(!std::is_const_v<T>, "a tensor can be written to: copy with Tensor::from()");
  check_count("Tensor::view", values.size(), shape);
  return view(values.data(), dtype_of<T>, std::move(shape), std::move(owner));
}

}  // namespace trainrt

#endif  // TRAINRT_TENSOR_H_
