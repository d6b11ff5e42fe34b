#include "runtime/capi/arguments.h"

#include <cstring>
#include <set>

namespace trainrt::capi {
namespace {

constexpr int32_t kMaxRank = 64;
static_assert(static_cast<int32_t>(DType::kFloat32) == TRAINRT_FLOAT32 &&
              static_cast<int32_t>(DType::kInt64) == TRAINRT_INT64 &&
              static_cast<int32_t>(DType::kBool) == TRAINRT_BOOL);

[[noreturn]] void bad_argument(const std::string& message) {
  throw CallError(TRAINRT_ERROR_ARGUMENT, message);
}

std::string type_text(DType dtype, const Shape& shape) {
  return std::string(dtype_name(dtype)) + to_string(shape);
}

/// Bytes 0 and 1 only, as C++ wants them.
Tensor clean_bools(const Tensor& given) {
  Tensor clean(DType::kBool, given.shape());
  const auto* from = static_cast<const uint8_t*>(given.raw());
  auto* to = static_cast<uint8_t*>(clean.raw());
  for (int64_t i = 0; i < given.size(); ++i) to[i] = from[i] != 0;
  return clean;
}

}  // namespace

void check_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) bad_argument(std::string("'") + name + "' is NULL");
}

std::string text_argument(const char* text, const char* name) {
  check_pointer(text, name);
  return text;
}

void check_index(int64_t index, size_t count, const char* what) {
  if (index < 0 || static_cast<uint64_t>(index) >= count) {
    bad_argument("index " + std::to_string(index) + ": there are " + std::to_string(count) + " " +
                 what);
  }
}

DType dtype_argument(int32_t dtype, const std::string& where) {
  if (dtype < TRAINRT_FLOAT32 || dtype > TRAINRT_BOOL) {
    bad_argument(where + ": " + std::to_string(dtype) + " is no dtype; those are 0 to " +
                 std::to_string(TRAINRT_BOOL));
  }
  return static_cast<DType>(dtype);
}

std::pair<std::string, Tensor> array_argument(const trainrt_array& array) {
  if (array.name == nullptr) bad_argument("an array has no name");
  const std::string name = array.name, where = "array '" + name + "'";
  const DType dtype = dtype_argument(array.dtype, where);
  if (array.rank < 0 || array.rank > kMaxRank) {
    bad_argument(where + ": rank " + std::to_string(array.rank) + " is not in 0 to " +
                 std::to_string(kMaxRank));
  }
  if (array.rank > 0 && array.shape == nullptr) bad_argument(where + ": 'shape' is NULL");
  const Shape shape(array.shape, array.shape + array.rank);
  for (const int64_t dim : shape) {
    if (dim < 0) bad_argument(where + ": negative dim in shape " + to_string(shape));
  }
  const auto size = static_cast<uint64_t>(element_count(shape));
  // In this order nothing overflows.
  if (array.bytes % dtype_size(dtype) != 0 || array.bytes / dtype_size(dtype) != size) {
    throw CallError(TRAINRT_ERROR_SIZE, where + ": " + type_text(dtype, shape) + " has " +
                                            std::to_string(size) + " elements of " +
                                            std::to_string(dtype_size(dtype)) + " bytes, given " +
                                            std::to_string(array.bytes) + " bytes");
  }
  if (size == 0) return {name, Tensor(dtype, shape)};
  if (array.data == nullptr) bad_argument(where + ": 'data' is NULL");
  // Nothing writes to the tensors that a call is given.
  Tensor tensor = Tensor::view(const_cast<void*>(array.data), dtype, shape);
  if (dtype == DType::kBool) return {name, clean_bools(tensor)};
  const bool aligned = reinterpret_cast<uintptr_t>(array.data) % dtype_size(dtype) == 0;
  return {name, aligned ? tensor : tensor.clone()};
}

std::vector<std::pair<std::string, Tensor>> array_arguments(const trainrt_array* arrays,
                                                            int64_t count) {
  if (count < 0) bad_argument("'count' is " + std::to_string(count));
  if (count > 0) check_pointer(arrays, "arrays");
  std::vector<std::pair<std::string, Tensor>> list;
  std::set<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    list.push_back(array_argument(arrays[i]));
    if (!names.insert(list.back().first).second) {
      bad_argument("array '" + list.back().first + "' is given twice");
    }
  }
  return list;
}

void describe(const std::string& name, const Tensor& tensor, bool data, trainrt_array* out) {
  *out = {name.c_str(),
          data && tensor.size() > 0 ? tensor.raw() : nullptr,
          tensor.bytes(),
          tensor.shape().data(),
          static_cast<int32_t>(tensor.rank()),
          static_cast<int32_t>(tensor.dtype())};
}

void copy_out(const std::string& name, const Tensor& tensor, void* data, size_t bytes,
              size_t* needed) {
  if (needed != nullptr) *needed = tensor.bytes();
  if (data == nullptr) {
    if (bytes > 0) bad_argument("'data' is NULL, and bytes is " + std::to_string(bytes));
    if (needed == nullptr) bad_argument("'data' and 'needed' are NULL");
    return;
  }
  if (bytes < tensor.bytes()) {
    throw CallError(TRAINRT_ERROR_SIZE,
                    "'" + name + "' " + type_text(tensor.dtype(), tensor.shape()) + " takes " +
                        std::to_string(tensor.bytes()) + " bytes, given " + std::to_string(bytes));
  }
  if (tensor.bytes() > 0) std::memcpy(data, tensor.raw(), tensor.bytes());
}

}  // namespace trainrt::capi

const char* trainrt_dtype_name(int32_t dtype) {
  if (dtype < TRAINRT_FLOAT32 || dtype > TRAINRT_BOOL) return nullptr;
  return trainrt::dtype_name(static_cast<trainrt::DType>(dtype)).data();
}

size_t trainrt_dtype_size(int32_t dtype) {
  if (dtype < TRAINRT_FLOAT32 || dtype > TRAINRT_BOOL) return 0;
  return trainrt::dtype_size(static_cast<trainrt::DType>(dtype));
}
