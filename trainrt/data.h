// Tensors in files: NumPy's .npy and .npz, and .safetensors.
#ifndef TRAINRT_DATA_H_
#define TRAINRT_DATA_H_

#include <string>
#include <utility>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// The array of a NumPy .npy file: either byte order, C or Fortran order; numbers and bools. Throws
/// Error(kFile) naming the file and the fault.
Tensor load_npy(const std::string& path);
/// Writes one array; bfloat16 as float32, which NumPy lacks. Throws Error(kFile), and Error(kInput)
/// for an undefined tensor; then the file is as it was before.
void save_npy(const std::string& path, const Tensor& array);

/// The arrays of a NumPy .npz file by name. Throws Error(kFile) naming the file and the fault.
TensorMap load_npz(const std::string& path);
/// Writes arrays uncompressed; types and errors as in save_npy().
void save_npz(const std::string& path, const TensorMap& arrays);

/// The tensors of a .safetensors file in the order of its header; `__metadata__` is left out. Every
/// offset, size and name is checked. Throws Error(kFile) naming the file, the tensor and the fault.
std::vector<std::pair<std::string, Tensor>> load_safetensors(const std::string& path);
/// Writes the header in the order given (a StateDict fits) and every tensor in its own type, with
/// wide elements first in the file, so that all are aligned. Throws Error(kFile), and Error(kInput)
/// for an undefined tensor or a name that occurs twice, is reserved or is no UTF-8; then the file
/// is as it was before.
void save_safetensors(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace trainrt

#endif  // TRAINRT_DATA_H_
