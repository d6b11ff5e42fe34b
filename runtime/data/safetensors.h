// The safetensors format: a JSON header with offsets, then raw little-endian data.
#ifndef TRAINRT_RUNTIME_DATA_SAFETENSORS_H_
#define TRAINRT_RUNTIME_DATA_SAFETENSORS_H_

#include <string>
#include <utility>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// All tensors in the order of the header. Every offset and size is checked; what does not hold,
/// and a name that occurs twice, throws Error(kFile).
std::vector<std::pair<std::string, Tensor>> read_safetensors(const std::string& path);
/// The header in the order given; the data by falling element size, so that it is aligned. Throws
/// Error(kFile), and Error(kInput) for undefined tensors and names that the format cannot hold.
void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_SAFETENSORS_H_
