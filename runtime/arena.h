// The memory that the plans of a session share.
#ifndef TRAINRT_RUNTIME_ARENA_H_
#define TRAINRT_RUNTIME_ARENA_H_

#include <cstddef>
#include <cstdint>

namespace trainrt {

/// One block of anonymous memory, page aligned, as large as the largest plan needs. Contents do not
/// survive growing. `user` tells whose values lie in it: a plan that finds another's number there
/// knows that its values are gone.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// Throws Error(kMemory) when the memory cannot be had.
  void reserve(size_t bytes);
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Takes the arena over for a run; returns the number of that run.
  uint64_t take() { return ++user_; }
  uint64_t user() const { return user_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  uint64_t user_ = 0;
};

/// Gives back what the allocator keeps of freed memory, as after making a plan.
void release_free_memory();

/// Bytes this process may still hope for in all: 90% of the machine's memory, less when a resource
/// limit or control group says so.
size_t memory_limit();

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_ARENA_H_
