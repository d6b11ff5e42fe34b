// Arguments of C calls: checked and converted.
#ifndef TRAINRT_RUNTIME_CAPI_ARGUMENTS_H_
#define TRAINRT_RUNTIME_CAPI_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/capi/errors.h"
#include "trainrt/tensor.h"

namespace trainrt::capi {

// What does not hold throws CallError(TRAINRT_ERROR_ARGUMENT), a size TRAINRT_ERROR_SIZE.

void check_pointer(const void* pointer, const char* name);
/// As above; sets the result to NULL.
template <typename T>
void clear_result(T** out, const char* name) {
  check_pointer(out, name);
  *out = nullptr;
}
std::string text_argument(const char* text, const char* name);
/// `what` is the plural of what is counted.
void check_index(int64_t index, size_t count, const char* what);
DType dtype_argument(int32_t dtype, const std::string& where);

/// The caller's arrays as tensors, views where they can be. No name may occur twice.
std::vector<std::pair<std::string, Tensor>> array_arguments(const trainrt_array* arrays,
                                                            int64_t count);
inline TensorMap tensor_map(const trainrt_array* arrays, int64_t count) {
  const auto list = array_arguments(arrays, count);
  return {list.begin(), list.end()};
}
std::pair<std::string, Tensor> array_argument(const trainrt_array& array);

/// Describes a tensor; pointers lead into the arguments. `data`: tell where the elements are.
void describe(const std::string& name, const Tensor& tensor, bool data, trainrt_array* out);

/// Copies the elements to the caller's memory; see "Functions that copy an array out" in the
/// header.
void copy_out(const std::string& name, const Tensor& tensor, void* data, size_t bytes,
              size_t* needed);

}  // namespace trainrt::capi

#endif  // TRAINRT_RUNTIME_CAPI_ARGUMENTS_H_
