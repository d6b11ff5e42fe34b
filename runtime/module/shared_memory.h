// Tensors in POSIX shared memory, with an index by which another process finds them.
//
//   8 bytes  "TRAINRTS"
//   u64      bytes of the index, from here on; 0 while it is being written
//   index    for each tensor: u32 length of the name, name, u8 dtype, u8 rank, i64 dims, u64 offset
//            from the start of the memory
//   data     on a 64-byte boundary
#ifndef TRAINRT_RUNTIME_MODULE_SHARED_MEMORY_H_
#define TRAINRT_RUNTIME_MODULE_SHARED_MEMORY_H_

#include <cstddef>
#include <string>

#include "trainrt/hooks.h"

namespace trainrt {

/// Owns a mapping, and the name when it made it.
class SharedMemory {
 public:
  /// Room for tensors like these, each on a 64-byte boundary. Throws Error(kMemory).
  static SharedMemory create(const StateDict& like);
  /// Maps another process's memory for reading. Throws Error(kInput).
  static SharedMemory attach(const std::string& name);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  const std::string& name() const { return name_; }
  std::byte* data() const { return base_ + data_; }
  /// Writes the index: the tensors lie in this memory now; others are left out.
  void set_places(const StateDict& tensors);
  /// Views by the index. Throws Error(kInput) for a damaged one.
  StateDict tensors(std::shared_ptr<void> owner) const;

 private:
  SharedMemory() = default;
  std::string name_;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0, data_ = 0;
  bool owner_ = false;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_SHARED_MEMORY_H_
