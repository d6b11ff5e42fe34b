// Memory of one plan on a GPU besides the arena and the state.
#ifndef TRAINRT_RUNTIME_GPU_BUFFERS_H_
#define TRAINRT_RUNTIME_GPU_BUFFERS_H_

#include <array>
#include <memory>

#include "runtime/gpu_context.h"

namespace trainrt {

/// A step's inputs are written to staging memory, copied in one piece by the upload stream to one
/// of two landing places while the step before may still run, and from there to where its kernels
/// read them. Book everything, then allocate().
class GpuBuffers {
 public:
  explicit GpuBuffers(std::shared_ptr<GpuContext> context) : context_(std::move(context)) {}
  ~GpuBuffers();
  GpuBuffers(const GpuBuffers&) = delete;
  GpuBuffers& operator=(const GpuBuffers&) = delete;

  GpuContext& context() const { return *context_; }
  const std::shared_ptr<GpuContext>& shared_context() const { return context_; }

  /// Offsets of inputs, and of constants and outputs.
  size_t book_input(size_t bytes) { return book(input_bytes_, bytes); }
  size_t book_fixed(size_t bytes) { return book(fixed_bytes_, bytes); }
  void allocate();

  std::byte* input(size_t offset) const { return inputs_.data() + offset; }
  std::byte* fixed(size_t offset) const { return fixed_.data() + offset; }
  std::byte* staging(size_t offset) const { return staging_.data() + offset; }
  const std::shared_ptr<void>& staging_owner() const { return staging_.owner(); }
  /// Copies a constant and waits.
  void fill(size_t fixed_offset, const void* from, size_t bytes);

  /// Before the host writes inputs: until the last upload has read them.
  void open_staging();
  /// Brings the inputs over if staging was opened since.
  void upload();

 private:
  static size_t book(size_t& total, size_t bytes);

  std::shared_ptr<GpuContext> context_;
  size_t input_bytes_ = 0, fixed_bytes_ = 0;
  DeviceMemory inputs_, fixed_;
  std::array<DeviceMemory, 2> landings_;
  std::array<std::unique_ptr<gpu::Event>, 2> arrived_, taken_;  // by landing
  StagingMemory staging_;
  size_t next_ = 0;
  bool staged_ = true;  // before the first run nothing is there
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_GPU_BUFFERS_H_
