// NumPy's array files: .npy and .npz.
#ifndef TRAINRT_RUNTIME_DATA_NPY_H_
#define TRAINRT_RUNTIME_DATA_NPY_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// One .npy file in memory: versions 1 to 3, either byte order, C or Fortran order. `what` names it
/// in errors (Error(kFile)). Two-byte voids are taken as bfloat16, which NumPy itself lacks.
Tensor parse_npy(std::string_view bytes, const std::string& what);
/// Magic, version and dictionary, padded so that the data starts at a multiple of 64.
std::string npy_header(DType dtype, const Shape& shape);

Tensor read_npy(const std::string& path);
/// bfloat16 is written as float32. Throws Error(kFile), Error(kInput) for an undefined tensor.
void write_npy(const std::string& path, const Tensor& array);

/// Arrays by name, ".npy" removed.
std::map<std::string, Tensor> read_npz(const std::string& path);
/// Stored members, in the order given; types and errors as in write_npy().
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_NPY_H_
