// The safetensors format: a JSON header with offsets, then raw little-endian data.
#ifndef TRAINRT_RUNTIME_DATA_SAFETENSORS_H_
#define TRAINRT_RUNTIME_DATA_SAFETENSORS_H_

#include <map>
#include <string>

#include "trainrt/tensor.h"

namespace trainrt {

/// All tensors by name. Every offset and size is checked; what does not hold throws Error(kFile).
std::map<std::string, Tensor> read_safetensors(const std::string& path);
/// Throws Error(kFile).
void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_SAFETENSORS_H_
