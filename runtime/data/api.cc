#include "runtime/data/npy.h"
#include "trainrt/data.h"

namespace trainrt {

TensorMap load_npz(const std::string& path) { return read_npz(path); }

void save_npz(const std::string& path, const TensorMap& arrays) {
  write_npz(path, {arrays.begin(), arrays.end()});
}

}  // namespace trainrt
