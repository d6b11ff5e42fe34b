// State of a module for other libraries, where it is; and theirs from GPUs.
#include "trainrt/dlpack.h"

#include <dlpack/dlpack.h>

#include "runtime/gpu_context.h"
#include "runtime/session.h"
#include "trainrt/detail/dlpack_device.h"
#include "trainrt/module.h"

namespace trainrt {
namespace {

/// What an exported tensor points to; the deleter drops all of it.
struct Lent {
  DLManagedTensorVersioned managed{};
  Shape shape;
  std::vector<int64_t> strides;
  std::shared_ptr<gpu::Device> device;  // goes last
  std::shared_ptr<DeviceMemory> memory;
};

void copy_to_host(int index, void* to, const void* from, size_t bytes) {
  const std::shared_ptr<gpu::Device> device = find_gpu(index);
  const auto stream = device->make_stream();
  stream->copy_to_host(to, from, bytes);
  stream->synchronize();
}

[[maybe_unused]] const bool kRegistered = [] {
  copy_from_gpu() = copy_to_host;
  return true;
}();

}  // namespace

DLManagedTensorVersioned* state_to_dlpack(const Module& module, const std::string& name) {
  Session& session = *module.session();
  const std::lock_guard lock(session.mutex());
  const auto parameter = session.find_parameter(name);
  const Tensor host = parameter != nullptr ? parameter->stored : session.stored_buffer(name);
  if (!host.defined()) {
    throw Error(ErrorCode::kUsage,
                "state_to_dlpack: the module has no parameter or buffer '" + name + "'");
  }
  GpuContext* gpu = session.gpu();
  if (gpu == nullptr) return to_dlpack_versioned(host);
  if (session.stored() != session.working()) {
    throw Error(ErrorCode::kUsage, "state_to_dlpack: '" + name + "' is stored as " +
                                       std::string(dtype_name(session.stored())) +
                                       " and computed with as " +
                                       std::string(dtype_name(session.working())));
  }
  auto lent = std::make_unique<Lent>();
  lent->device = gpu->shared_device();
  lent->memory = gpu->state().memory(host);
  gpu->state().to_device();
  gpu->state().changed_on_device(lent->memory->data());
  gpu->compute().synchronize();
  // The description is the host tensor's, but for the place.
  DLManagedTensorVersioned* described = to_dlpack_versioned(host);
  lent->managed.version = described->version;
  DLTensor& t = lent->managed.dl_tensor;
  t.dtype = described->dl_tensor.dtype;
  described->deleter(described);
  lent->shape = host.shape();
  lent->strides = host.strides();
  t.data = lent->memory->data();
  t.device = {kDLCUDA, session.device().index};
  t.ndim = static_cast<int32_t>(lent->shape.size());
  t.shape = lent->shape.data();
  t.strides = lent->strides.data();
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Lent*>(self->manager_ctx);
  };
  return &lent.release()->managed;
}

}  // namespace trainrt
