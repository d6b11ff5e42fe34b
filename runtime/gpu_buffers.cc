#include "runtime/gpu_buffers.h"

#include <cstring>

#include "runtime/memory_planner.h"
#include "trainrt/error.h"

namespace trainrt {

size_t GpuBuffers::book(size_t& total, size_t bytes) {
  const size_t offset = total;
  total += (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return offset;
}

GpuBuffers::~GpuBuffers() {
  try {
    context_->upload().synchronize();
    context_->compute().synchronize();
  } catch (const Error&) {
    // Whoever waited for results has seen it.
  }
}

void GpuBuffers::allocate() {
  gpu::Device& device = context_->device();
  inputs_ = DeviceMemory(device, input_bytes_);
  fixed_ = DeviceMemory(device, fixed_bytes_);
  for (size_t i = 0; i < landings_.size(); ++i) {
    landings_[i] = DeviceMemory(device, input_bytes_);
    arrived_[i] = device.make_event();
    taken_[i] = device.make_event();
  }
  staging_ = StagingMemory(device, input_bytes_);
  if (input_bytes_ > 0) std::memset(staging_.data(), 0, input_bytes_);
}

void GpuBuffers::fill(size_t fixed_offset, const void* from, size_t bytes) {
  context_->compute().copy_to_device(fixed(fixed_offset), from, bytes);
  context_->compute().synchronize();
}

void GpuBuffers::open_staging() {
  if (staged_) return;
  context_->upload().synchronize();
  staged_ = true;
}

void GpuBuffers::upload() {
  if (!staged_ || input_bytes_ == 0) return;
  gpu::Stream &upload = context_->upload(), &compute = context_->compute();
  const DeviceMemory& landing = landings_[next_];
  upload.wait(*taken_[next_]);  // two steps ago
  upload.copy_to_device(landing.data(), staging_.data(), input_bytes_);
  upload.record(*arrived_[next_]);
  compute.wait(*arrived_[next_]);
  compute.copy_on_device(inputs_.data(), landing.data(), input_bytes_);
  compute.record(*taken_[next_]);
  next_ = 1 - next_;
  staged_ = false;
}

}  // namespace trainrt
