// Products of bfloat16 matrices by the tile unit of x86 processors (AMX-BF16): a tile product adds
// 16x32 times 32x16 bfloat16 values to 16x16 float32 sums.
#ifndef TRAINRT_KERNELS_CPU_AMX_H_
#define TRAINRT_KERNELS_CPU_AMX_H_

#include <cstddef>
#include <cstdint>

namespace trainrt {

/// Whether this processor has the tile unit with bfloat16 and the system lets this process use it.
bool cpu_has_amx();

/// A matrix of bfloat16 as it lies in memory: element (line, k) at data[line * line_stride + k *
/// k_stride]; one of the strides is 1. A line is a row of the left operand of a product
/// or a column of the right one.
struct AmxMatrix {
  int64_t lines = 0, line_stride = 1, k_stride = 1;
};

/// out[m, n] = sum over k of a[m, k] b[n, k] (+ bias[n]) (max 0); out is row-major with n
/// contiguous, float32 or bfloat16. The unit counts subnormal numbers as zero.
struct AmxProduct {
  AmxMatrix a, b;
  int64_t k = 0;
  bool out_bf16 = false, relu = false;
};

/// A product with its blocking chosen; for processors where cpu_has_amx(). The results do not
/// depend on the number of threads.
class AmxMatMul {
 public:
  explicit AmxMatMul(const AmxProduct& product);

  /// Bytes of scratch that run() wants, 64-byte aligned.
  size_t scratch_bytes() const { return scratch_; }
  /// `bias` may be null.
  void run(const uint16_t* a, const uint16_t* b, void* out, const float* bias, void* scratch) const;

 private:
  AmxProduct p_;
  bool stream_a_ = true;              // the operand of more lines; the other one is packed whole
  int64_t k_block_ = 0, shared_ = 0;  // inner dims and lines of a block of that
  int threads_ = 1;
  size_t threads_at_ = 0, thread_bytes_ = 0, scratch_ = 0;
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_AMX_H_
