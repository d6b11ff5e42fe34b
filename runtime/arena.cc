#include "runtime/arena.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t read_limit(const char* path) {
  std::ifstream file(path);
  size_t bytes = 0;
  return file >> bytes ? bytes : std::numeric_limits<size_t>::max();
}

}  // namespace

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void Arena::reserve(size_t bytes) {
  if (bytes <= bytes_) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > std::numeric_limits<size_t>::max() - page) {
    throw Error(ErrorCode::kMemory, "an arena of " + std::to_string(bytes) + " bytes is too large");
  }
  bytes = (bytes + page - 1) / page * page;
  // The old contents are worthless: giving them back first keeps the peak at one arena.
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  ++user_;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    throw Error(ErrorCode::kMemory,
                "no memory for " + std::to_string(bytes) + " bytes of intermediate values");
  }
  if (bytes >= kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(p);
  bytes_ = bytes;
}

void release_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

size_t memory_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  size_t limit = std::numeric_limits<size_t>::max();
  if (pages > 0) limit = static_cast<size_t>(pages) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  limit = std::min(limit, read_limit("/sys/fs/cgroup/memory.max"));
  limit = std::min(limit, read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    limit = std::min(limit, static_cast<size_t>(address_space.rlim_cur));
  }
  return limit / 10 * 9;
}

}  // namespace trainrt
