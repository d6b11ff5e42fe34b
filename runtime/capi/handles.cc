#include "runtime/capi/handles.h"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace trainrt::capi {
namespace {

// No address of a process looks like this, and numbers are not used again.
constexpr uintptr_t kFirst = uintptr_t{0x7472} << 48;

class Registry {
 public:
  uintptr_t add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const uintptr_t handle = next_;
    objects_.emplace(handle, std::move(object));
    ++next_;
    return handle;
  }

  std::shared_ptr<Object> find(uintptr_t handle, const char* type, bool remove) {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(handle);
    if (it == objects_.end()) {
      const bool freed = handle >= kFirst && handle < next_;
      throw CallError(TRAINRT_ERROR_HANDLE, std::string(type) + ": the handle " +
                                                (handle == 0 ? "is NULL"
                                                 : freed     ? "has been freed"
                                                             : "is none that this library gave"));
    }
    if (it->second->type != type) {
      throw CallError(TRAINRT_ERROR_HANDLE, std::string(type) + " expected, the handle is a " +
                                                std::string(it->second->type));
    }
    std::shared_ptr<Object> object = it->second;
    if (remove) objects_.erase(it);
    return object;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;
  uintptr_t next_ = kFirst;
};

// Never destroyed: handles may be used until the process ends.
Registry& registry() {
  static auto* const kRegistry = new Registry;
  return *kRegistry;
}

}  // namespace

void* add_handle(std::shared_ptr<Object> object) {
  return reinterpret_cast<void*>(registry().add(std::move(object)));
}

std::shared_ptr<Object> find_handle(const void* handle, const char* type) {
  return registry().find(reinterpret_cast<uintptr_t>(handle), type, false);
}

std::shared_ptr<Object> remove_handle(const void* handle, const char* type) {
  return registry().find(reinterpret_cast<uintptr_t>(handle), type, true);
}

}  // namespace trainrt::capi
