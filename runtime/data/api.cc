#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "trainrt/data.h"

namespace trainrt {

Tensor load_npy(const std::string& path) { return read_npy(path); }

void save_npy(const std::string& path, const Tensor& array) { write_npy(path, array); }

TensorMap load_npz(const std::string& path) { return read_npz(path); }

void save_npz(const std::string& path, const TensorMap& arrays) {
  write_npz(path, {arrays.begin(), arrays.end()});
}

std::vector<std::pair<std::string, Tensor>> load_safetensors(const std::string& path) {
  return read_safetensors(path);
}

void save_safetensors(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& tensors) {
  write_safetensors(path, tensors);
}

}  // namespace trainrt
