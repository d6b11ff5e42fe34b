#include "runtime/module/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "trainrt/module.h"

namespace trainrt {
namespace {

constexpr char kMagic[] = "TRAINRTS";
constexpr size_t kHead = 16, kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Bytes of the index: written last, read first.
std::atomic_ref<uint64_t> size_field(std::byte* base) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(base + 8));
}

std::string index_of(const StateDict& tensors, const std::byte* base, size_t bytes) {
  std::string index;
  const auto put = [&](const auto& value) {
    index.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const auto& [name, tensor] : tensors) {
    const auto* at = static_cast<const std::byte*>(tensor.raw());
    if (at < base || at + tensor.bytes() > base + bytes) continue;
    put(static_cast<uint32_t>(name.size()));
    index += name;
    put(static_cast<uint8_t>(tensor.dtype()));
    put(static_cast<uint8_t>(tensor.rank()));
    for (int64_t dim : tensor.shape()) put(dim);
    put(static_cast<uint64_t>(at - base));
  }
  return index;
}

size_t index_bytes(const StateDict& tensors) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += 14 + name.size() + 8 * static_cast<size_t>(tensor.rank());
  }
  return bytes;
}

}  // namespace

SharedMemory SharedMemory::create(const StateDict& like) {
  static std::atomic<int> counter = 0;
  SharedMemory memory;
  memory.name_ = "/trainrt-" + std::to_string(getpid()) + "-" + std::to_string(++counter);
  memory.data_ = aligned(kHead + index_bytes(like));
  memory.bytes_ = memory.data_;
  for (const auto& [name, tensor] : like) memory.bytes_ += aligned(tensor.bytes());
  const int fd = shm_open(memory.name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  void* base = MAP_FAILED;
  if (fd >= 0) {
    memory.owner_ = true;
    // Allocated now: a full file system would otherwise end the process at the first write.
    errno = posix_fallocate(fd, 0, static_cast<off_t>(memory.bytes_));
    if (errno == 0) {
      base = mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    const int error = errno;
    close(fd);
    errno = error;
  }
  if (base == MAP_FAILED) {
    throw Error(ErrorCode::kMemory, "shared memory of " + std::to_string(memory.bytes_) +
                                        " bytes cannot be had: " + std::strerror(errno));
  }
  memory.base_ = static_cast<std::byte*>(base);
  std::memcpy(memory.base_, kMagic, 8);
  return memory;
}

SharedMemory SharedMemory::attach(const std::string& name) {
  SharedMemory memory;
  memory.name_ = name;
  const int fd = shm_open(name.c_str(), O_RDONLY, 0);
  struct stat info {};
  void* base = MAP_FAILED;
  if (fd >= 0) {
    if (fstat(fd, &info) == 0 && static_cast<size_t>(info.st_size) >= kHead) {
      base = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    }
    close(fd);
  }
  if (base == MAP_FAILED) {
    throw Error(ErrorCode::kInput, "there is no shared module called '" + name +
                                       "': " + (fd < 0 ? std::strerror(errno) : "it is too small"));
  }
  memory.base_ = static_cast<std::byte*>(base);
  memory.bytes_ = static_cast<size_t>(info.st_size);
  if (std::memcmp(memory.base_, kMagic, 8) != 0) {
    throw Error(ErrorCode::kInput, "'" + name + "' is no shared module");
  }
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : name_(other.name_),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(other.bytes_),
      data_(other.data_),
      owner_(std::exchange(other.owner_, false)) {}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (owner_) shm_unlink(name_.c_str());
}

void SharedMemory::set_places(const StateDict& tensors) {
  const std::string index = index_of(tensors, base_, bytes_);
  TRAINRT_CHECK(kHead + index.size() <= data_, "the index does not fit its room");
  std::memcpy(base_ + kHead, index.data(), index.size());
  size_field(base_).store(index.size(), std::memory_order_release);
}

StateDict SharedMemory::tensors(std::shared_ptr<void> owner) const {
  const Error damaged(ErrorCode::kInput,
                      "the index of shared module '" + name_ + "' is damaged, or not written yet");
  const uint64_t index = size_field(base_).load(std::memory_order_acquire);
  if (index == 0 || index > bytes_ - kHead) throw damaged;
  const std::byte* at = base_ + kHead;
  const std::byte* end = at + index;
  const auto take = [&](void* to, size_t n) {
    if (static_cast<size_t>(end - at) < n) throw damaged;
    std::memcpy(to, at, n);
    at += n;
  };
  StateDict result;
  while (at < end) {
    uint32_t length = 0;
    take(&length, sizeof(length));
    if (length > static_cast<size_t>(end - at)) throw damaged;
    std::string name(length, ' ');
    take(name.data(), length);
    uint8_t dtype = 0, rank = 0;
    take(&dtype, 1);
    take(&rank, 1);
    if (dtype > static_cast<uint8_t>(DType::kBool)) throw damaged;
    Shape shape(rank);
    for (int64_t& dim : shape) take(&dim, sizeof(dim));
    uint64_t offset = 0;
    take(&offset, sizeof(offset));
    const size_t size =
        static_cast<size_t>(element_count(shape)) * dtype_size(static_cast<DType>(dtype));
    if (offset > bytes_ || size > bytes_ - offset) throw damaged;
    result.emplace_back(name,
                        Tensor::view(base_ + offset, static_cast<DType>(dtype), shape, owner));
  }
  return result;
}

StateDict attach_shared(const std::string& name) {
  const auto memory = std::make_shared<SharedMemory>(SharedMemory::attach(name));
  return memory->tensors(memory);
}

}  // namespace trainrt
