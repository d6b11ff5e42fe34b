// Arrays in files.
#ifndef TRAINRT_DATA_H_
#define TRAINRT_DATA_H_

#include <string>

#include "trainrt/tensor.h"

namespace trainrt {

/// The arrays of a NumPy .npz file by name. Throws Error(kFile) naming the file and the fault.
TensorMap load_npz(const std::string& path);
/// Writes arrays uncompressed; bfloat16 as float32, which NumPy lacks. Throws Error(kFile).
void save_npz(const std::string& path, const TensorMap& arrays);

}  // namespace trainrt

#endif  // TRAINRT_DATA_H_
