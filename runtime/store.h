// Named tensors at fixed addresses.
#ifndef TRAINRT_RUNTIME_STORE_H_
#define TRAINRT_RUNTIME_STORE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/types.h"
#include "trainrt/tensor.h"

namespace trainrt {

struct StoreEntry {
  std::string name;
  TensorType type;
};

/// Memory of so many bytes, on a 64-byte boundary, with what keeps it alive.
using Allocate = std::function<std::pair<void*, std::shared_ptr<void>>(size_t bytes)>;

/// Tensors laid out one after the other, each on a 64-byte boundary, zero at first. Addresses never
/// change; entries may be added, those of one call lie in one flat piece of memory.
class Store {
 public:
  /// Throws Error(kMemory) when the memory cannot be had; entries that are there already are kept.
  void add(std::span<const StoreEntry> entries);
  bool contains(std::string_view name) const;
  /// An undefined tensor when there is none.
  Tensor find(std::string_view name) const;
  Tensor at(size_t index) const { return values_[index]; }
  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return names_.size(); }
  size_t bytes() const { return bytes_; }
  void zero();
  /// Moves everything to one piece of memory; tensors given out before keep the old one.
  void move(const Allocate& allocate);

 private:
  std::vector<std::string> names_;
  std::vector<Tensor> values_;
  std::unordered_map<std::string, size_t> index_;
  size_t bytes_ = 0;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_STORE_H_
