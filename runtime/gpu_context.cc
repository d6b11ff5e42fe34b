#include "runtime/gpu_context.h"

#include <cstring>
#include <utility>

#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr size_t kScalars = 1024;  // that wait on the device

}  // namespace

const std::shared_ptr<DeviceMemory>& StateMirror::memory(const Tensor& host) {
  const auto [found, fresh] = by_host_.try_emplace(host.raw(), entries_.size());
  if (fresh) {
    entries_.push_back({host, std::make_shared<DeviceMemory>(device_, host.bytes()), false});
    by_device_.emplace(entries_.back().memory->data(), found->second);
    bytes_ += host.bytes();
    host_is_newer_ = true;
  }
  return entries_[found->second].memory;
}

void StateMirror::to_device() {
  if (!host_is_newer_) return;
  for (const Entry& e : entries_) {
    // What the device has changed since was on the host before the host could change anything.
    if (!e.device_is_newer) stream_.copy_to_device(e.memory->data(), e.host.raw(), e.host.bytes());
  }
  // The tensors are the program's from here on.
  stream_.synchronize();
  host_is_newer_ = false;
}

void StateMirror::changed_on_device(void* address) {
  entries_[by_device_.at(address)].device_is_newer = true;
  device_is_newer_ = true;
}

void StateMirror::to_host() {
  host_is_newer_ = true;
  if (!device_is_newer_) return;
  for (Entry& e : entries_) {
    if (!e.device_is_newer) continue;
    stream_.copy_to_host(e.host.raw(), e.memory->data(), e.host.bytes());
    e.device_is_newer = false;
  }
  stream_.synchronize();
  device_is_newer_ = false;
}

void StateMirror::clear() {
  stream_.synchronize();
  entries_.clear();
  by_host_.clear();
  by_device_.clear();
  host_is_newer_ = device_is_newer_ = false;
  bytes_ = 0;
}

void StateMirror::zero(const Tensor& host) {
  const auto found = by_host_.find(host.raw());
  if (found == by_host_.end() || host_is_newer_) {
    to_host();
    if (host.bytes() > 0) std::memset(const_cast<void*>(host.raw()), 0, host.bytes());
    return;
  }
  Entry& e = entries_[found->second];
  stream_.zero(e.memory->data(), e.host.bytes());
  e.device_is_newer = true;
  device_is_newer_ = true;
}

GpuContext::GpuContext(std::shared_ptr<gpu::Device> device)
    : device_(std::move(device)),
      compute_(device_->make_stream()),
      upload_(device_->make_stream()),
      state_(*device_, *compute_),
      status_(*device_, sizeof(int32_t)) {
  compute_->zero(status_.data(), sizeof(int32_t));
  compute_->synchronize();
}

GpuContext::~GpuContext() {
  try {
    upload_->synchronize();
    compute_->synchronize();
  } catch (const Error&) {
    // Whoever waited for results has seen it.
  }
}

void GpuContext::reserve(size_t bytes) {
  if (bytes <= arena_.bytes()) return;
  compute_->synchronize();
  arena_ = DeviceMemory();  // its contents are worthless: never two at a time
  arena_ = DeviceMemory(*device_, bytes);
}

void GpuContext::reserve_host(size_t bytes) {
  if (bytes <= host_arena_bytes_) return;
  compute_->synchronize();
  host_arena_ = StagingMemory();
  host_arena_ = StagingMemory(*device_, bytes);
  host_arena_bytes_ = bytes;
}

int32_t GpuContext::add_steps(int32_t count, std::function<std::string(int32_t)> describe) {
  const int32_t first = next_step_;
  next_step_ += count;
  steps_[first] = {count, std::move(describe)};
  return first;
}

void GpuContext::forget_steps(int32_t first) { steps_.erase(first); }

void GpuContext::finish() {
  int32_t reported = 0;
  compute_->copy_to_host(&reported, status_.data(), sizeof(reported));
  compute_->synchronize();
  if (reported == 0) return;
  compute_->zero(status_.data(), sizeof(int32_t));
  compute_->synchronize();
  const int32_t step = reported - 1;
  auto it = steps_.upper_bound(step);
  std::string node = "a node";
  if (it != steps_.begin()) {
    --it;
    if (step - it->first < it->second.count) node = it->second.describe(step - it->first);
  }
  throw Error(ErrorCode::kRuntime,
              node +
                  ": an index in its inputs is out of range (found on the GPU, after steps that "
                  "were on their way may have run)");
}

ScalarLog::ScalarLog(std::shared_ptr<GpuContext> context)
    : context_(std::move(context)), memory_(context_->device(), kScalars * sizeof(double)) {}

void ScalarLog::note(const void* address, DType dtype) {
  if (noted_.size() == kScalars) fetch();
  context_->compute().copy_on_device(memory_.data() + noted_.size() * sizeof(double), address,
                                     dtype_size(dtype));
  noted_.push_back(dtype);
}

void ScalarLog::fetch() {
  std::vector<double> words(noted_.size());
  context_->compute().copy_to_host(words.data(), memory_.data(), words.size() * sizeof(double));
  const std::vector<DType> types = std::exchange(noted_, {});
  context_->finish();
  for (size_t i = 0; i < words.size(); ++i) {
    fetched_.push_back(Tensor::view(&words[i], types[i], {}).item());
  }
}

std::vector<double> ScalarLog::take() {
  if (!noted_.empty()) fetch();
  return std::exchange(fetched_, {});
}

}  // namespace trainrt
