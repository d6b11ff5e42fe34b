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
#include <vector>

#include "trainrt/dtype.h"
#include "trainrt/error.h"

namespace trainrt {

using Shape = std::vector<int64_t>;

/// Product of the dims; throws Error(kMemory) when it does not fit 62 bits or a dim is negative.
int64_t element_count(std::span<const int64_t> shape);
/// "[2,3]"
std::string to_string(std::span<const int64_t> shape);

/// A tensor on the host. Copying a Tensor copies a reference: both see the same bytes. clone()
/// copies the bytes. Storage is aligned to 64 bytes unless it is a view of the caller's memory.
/// Distinct tensors may be used from several threads; one tensor needs the caller's care.
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
  /// A tensor over memory that the caller keeps alive and that holds at least the tensor's bytes.
  static Tensor view(void* data, DType dtype, Shape shape);
  /// As view(), keeping `owner` alive as long as any copy of the tensor lives.
  static Tensor view(void* data, DType dtype, Shape shape, std::shared_ptr<void> owner);

  bool defined() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
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

  std::shared_ptr<void> data_;
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  int64_t size_ = 0;
};

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

template <typename T>
Tensor Tensor::from(std::span<const T> values, Shape shape) {
  Tensor t(dtype_of<T>, std::move(shape));
  if (static_cast<size_t>(t.size()) != values.size()) {
    throw Error(ErrorCode::kInput, "Tensor::from: " + std::to_string(values.size()) +
                                       " values for shape " + to_string(t.shape()));
  }
  std::copy(values.begin(), values.end(), static_cast<T*>(t.raw()));
  return t;
}

}  // namespace trainrt

#endif  // TRAINRT_TENSOR_H_
