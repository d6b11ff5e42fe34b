// What a GPU offers to kernels, plans and executors, free of CUDA's headers: rows and plans for a
// GPU are made and tested on machines without one. libtrainrt_cuda.so implements it with CUDA, the
// tests with an emulation on the CPU.
#ifndef TRAINRT_KERNELS_GPU_H_
#define TRAINRT_KERNELS_GPU_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/types.h"

namespace trainrt::gpu {

struct Size3 {
  uint32_t x = 1, y = 1, z = 1;
};

/// A function that runs on the device. Owned by its Device.
class Function;

/// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
};

/// Work that was recorded once and runs again at the same addresses.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// Work runs in the order in which it was given, behind the caller's back. Every member throws
/// Error(kRuntime) naming what the driver said. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;

  /// At most 256 threads a block. `arguments` is the function's only parameter, copied at once.
  template <typename Arguments>
  void launch(const Function* function, Size3 grid, uint32_t threads, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= 4000);
    launch(function, grid, threads, &arguments, sizeof(Arguments));
  }
  virtual void launch(const Function* function, Size3 grid, uint32_t threads, const void* arguments,
                      size_t bytes) = 0;

  /// The host memory must stay as it is until the copy has run, and be of Device::allocate_host()
  /// for the copy to run behind the caller's back.
  virtual void copy_to_device(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, size_t bytes) = 0;
  virtual void zero(void* to, size_t bytes) = 0;

  /// What was given so far happens before what is given to a stream that waits for `event`.
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;
  /// Until everything has run.
  virtual void synchronize() = 0;

  /// Work given from here on is recorded and does not run. Synchronising is not allowed.
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;
  virtual void run(Recording& recording) = 0;
};

/// How products of float32 are computed.
enum class Products : uint8_t {
  kFloat32,
  kTf32,  // operands rounded to 10 bits of mantissa, sums in float32
};

/// What happens to the sums of a product before they are rounded to c and stored. The bias is dense
/// [n], by column, float64 where c is float64 and float32 everywhere else, where c is bfloat16 too.
/// ReLU leaves NaN as it is. A library that cannot do exactly that refuses: the caller asks again
/// with kNone and finishes the product on its own. Auxiliary data is in the library's own form and
/// passes between the two calls that name the same form.
enum class Epilogue : uint8_t { kNone, kBias, kRelu, kBiasRelu, kBiasGelu };

/// Row-major matrices, for each of the batch: c = epilogue(op(a) op(b)), where op() transposes if
/// asked for and the results are m x n. m, n, k and batch are at least 1. `lda` and so on are
/// elements between rows as stored; strides are elements between the matrices of a batch, 0: the
/// same one for all (of a and b only). a and b are of one type: float32 or float64, and c of the
/// same, or bfloat16, and c bfloat16 or float32. Inputs a, b and, where the epilogue adds one, the
/// bias; output c.
struct MatMulCall {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool trans_a = false, trans_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  DType a = DType::kFloat32, b = DType::kFloat32, c = DType::kFloat32;
  Products products = Products::kFloat32;
  Epilogue epilogue = Epilogue::kNone;
  int64_t alignment = 64;  // bytes: addresses of a, b, c and bias are multiples of it
};

enum class ConvPass : uint8_t { kForward, kData, kWeight };

/// x [N, C, spatial…], w [M, C / group, spatial…], y [N, M, spatial…], each dense in its own order:
/// row-major, or with `channels_last` the channels innermost. Two or three spatial dims, nothing is
/// empty; pads may differ from one side to the other. y's dim is (x + pads - dilation (w - 1) - 1)
/// / stride + 1, rounded down. Inputs and result: kForward x, w (and bias [M]) to y; kData dy, w to
/// dx; kWeight x, dy to dw. What is read is all float32, and the result too, or all bfloat16, and
/// the result bfloat16 or float32; dy is of `y_type`, dx of `x_type`, dw of `w_type`. The bias is
/// float32 in any case; it is added to the sums, and ReLU, which leaves NaN as it is, applied
/// before they are rounded. A library that cannot do exactly that refuses, and is asked again
/// without either.
struct ConvCall {
  ConvPass pass = ConvPass::kForward;
  Shape x, w, y;
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  int64_t group = 1;
  DType x_type = DType::kFloat32, w_type = DType::kFloat32, y_type = DType::kFloat32;
  bool channels_last = false;
  Products products = Products::kFloat32;
  bool bias = false, relu = false;  // kForward only
};

/// Operands of attention by strides in elements: [batch, heads, tokens, size], sizes contiguous.
/// Forward: q, k, v to y and log-sums [batch, heads, tokens] (float32); backward: dy, q, k, v, y,
/// log-sums to dq, dk, dv. All but the log-sums are of `type`.
struct AttentionCall {
  struct Operand {
    int64_t batch = 0, head = 0, token = 0;  // strides
  };
  bool backward = false;
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, size = 1, value_size = 1;
  double scale = 1;
  bool causal = false;
  DType type = DType::kBFloat16;
  Operand q, k, v, y, dy, dq, dk, dv;
};

enum class PoolKind : uint8_t { kMax, kAverage, kAverageWithPads };

/// x [N, C, spatial…] row-major. Forward: x to y; backward: dy, x (and y, for kMax) to dx.
struct PoolCall {
  PoolKind kind = PoolKind::kMax;
  bool backward = false;
  Shape x, y;
  std::vector<int64_t> kernel, strides, pads_begin, pads_end;
};

/// Softmax over the middle of [outer, axis, inner]. Forward: x to y; backward: dy, y to dx.
struct SoftmaxCall {
  bool backward = false, log = false;
  int64_t outer = 1, axis = 1, inner = 1;
  DType type = DType::kFloat32;
};

/// A planned call of a library.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual size_t workspace_bytes() const = 0;
  /// Inputs and outputs in the order that the call's description names them.
  virtual void run(Stream& stream, const void* const* in, void* const* out,
                   void* workspace) const = 0;
};

struct Properties {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  size_t memory_bytes = 0;
  int multiprocessors = 1;
};

/// One GPU. Everything that it made must be gone before it.
class Device {
 public:
  virtual ~Device() = default;

  virtual const Properties& properties() const = 0;
  virtual size_t free_memory() const = 0;

  /// 256-byte aligned. Throws Error(kMemory).
  virtual void* allocate(size_t bytes) = 0;
  virtual void free(void* address) noexcept = 0;
  /// Host memory that copies may read or write behind the caller's back.
  virtual void* allocate_host(size_t bytes) = 0;
  virtual void free_host(void* address) noexcept = 0;

  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  /// A kernel of kernels/cuda/device. Throws Error(kInternal) when there is none of this name.
  virtual const Function* function(std::string_view name) = 0;
  /// The kernel `name` of a source that was written for this run (CUDA C++ without includes, behind
  /// kernels/cuda/device/device.h). Compiled behind the caller's back and kept on disk; errors are
  /// thrown by finish_compiling().
  virtual const Function* compile(const std::string& source, std::string_view name) = 0;
  /// Until all functions of compile() are there. Throws Error(kInternal) with the compiler's log.
  virtual void finish_compiling() = 0;

  /// Null with a reason when no library takes the call.
  virtual std::unique_ptr<LibraryCall> matmul(const MatMulCall& call, std::string* why) = 0;
  virtual std::unique_ptr<LibraryCall> convolution(const ConvCall& call, std::string* why) = 0;
  virtual std::unique_ptr<LibraryCall> attention(const AttentionCall& call, std::string* why) = 0;
  virtual std::unique_ptr<LibraryCall> pool(const PoolCall& call, std::string* why) = 0;
  virtual std::unique_ptr<LibraryCall> softmax(const SoftmaxCall& call, std::string* why) = 0;
};

}  // namespace trainrt::gpu

#endif  // TRAINRT_KERNELS_GPU_H_
