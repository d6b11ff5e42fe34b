// Handles of the C API: numbers that stand for objects, checked at every use.
#ifndef TRAINRT_RUNTIME_CAPI_HANDLES_H_
#define TRAINRT_RUNTIME_CAPI_HANDLES_H_

#include <memory>
#include <mutex>
#include <utility>

#include "runtime/capi/errors.h"

namespace trainrt::capi {

/// What a handle stands for. Derived types have a `kType`, the name of the handle's C type, which
/// is compared by address.
struct Object {
  Object(const char* type, std::shared_ptr<std::mutex> mutex)
      : type(type), mutex(std::move(mutex)) {}
  explicit Object(const char* type) : Object(type, std::make_shared<std::mutex>()) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  const char* const type;
  /// Held during a call; objects that share data share it.
  const std::shared_ptr<std::mutex> mutex;
};

/// A new handle.
void* add_handle(std::shared_ptr<Object> object);
/// Throws CallError(TRAINRT_ERROR_HANDLE) unless the handle is alive and of that type.
std::shared_ptr<Object> find_handle(const void* handle, const char* type);
/// As find_handle; from now on nobody finds it. Whoever uses the object keeps it until then.
std::shared_ptr<Object> remove_handle(const void* handle, const char* type);

/// An object in use: kept alive and locked.
template <typename T>
class InUse {
 public:
  explicit InUse(std::shared_ptr<Object> object)
      : object_(std::move(object)), lock_(*object_->mutex) {}
  T* operator->() const { return static_cast<T*>(object_.get()); }
  T& operator*() const { return static_cast<T&>(*object_); }

 private:
  std::shared_ptr<Object> object_;  // outlives the lock on its mutex
  std::unique_lock<std::mutex> lock_;
};

template <typename T>
InUse<T> use(const typename T::Handle* handle) {
  return InUse<T>(find_handle(handle, T::kType));
}

/// Gives the object to the caller as a handle.
template <typename T>
void give(typename T::Handle** out, std::shared_ptr<T> object) {
  *out = static_cast<typename T::Handle*>(add_handle(std::move(object)));
}

template <typename T>
trainrt_status free_handle(const typename T::Handle* handle) {
  return guarded([&] {
    if (handle != nullptr) remove_handle(handle, T::kType);
  });
}

}  // namespace trainrt::capi

#endif  // TRAINRT_RUNTIME_CAPI_HANDLES_H_
