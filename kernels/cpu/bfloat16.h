// Float32 operands that may be kept as bfloat16: kernels see floats, a piece at a time.
#ifndef TRAINRT_KERNELS_CPU_BFLOAT16_H_
#define TRAINRT_KERNELS_CPU_BFLOAT16_H_

#include <cstdint>

#include "kernels/kernel.h"

namespace trainrt {

/// Rounds to nearest even; NaN stays NaN.
void to_bf16(const float* x, uint16_t* y, int64_t n);
void from_bf16(const uint16_t* x, float* y, int64_t n);

/// Elements that a kernel converts at a time, where it can choose: they stay in the first-level
/// cache.
inline constexpr int64_t kBf16Piece = 1024;

inline bool is_bf16(const TensorType& type) { return type.dtype == DType::kBFloat16; }

/// For rows on blocks of 16 channels: the blocked operands are float32 or bfloat16, all the same,
/// the others float32.
Support blocks_of_one_type(const NodeView& node);

/// The kernel for the type of the first input.
template <std::unique_ptr<Kernel> (*kFloat)(const NodeView&, Scratch&),
          std::unique_ptr<Kernel> (*kBf16)(const NodeView&, Scratch&)>
std::unique_ptr<Kernel> plan_by_type(const NodeView& node, Scratch& scratch) {
  return is_bf16(node.inputs[0]) ? kBf16(node, scratch) : kFloat(node, scratch);
}

/// An input of float32 or bfloat16.
class FloatInput {
 public:
  FloatInput() = default;
  FloatInput(const void* address, bool bf16) : address_(address), bf16_(bf16) {}

  explicit operator bool() const { return address_ != nullptr; }
  bool bf16() const { return bf16_; }
  /// Elements [begin, begin + n): where they lie, or converted into `buffer`.
  const float* read(int64_t begin, int64_t n, float* buffer) const {
    if (!bf16_) return static_cast<const float*>(address_) + begin;
    from_bf16(static_cast<const uint16_t*>(address_) + begin, buffer, n);
    return buffer;
  }

 private:
  const void* address_ = nullptr;
  bool bf16_ = false;
};

/// An output of float32 or bfloat16.
class FloatOutput {
 public:
  FloatOutput() = default;
  FloatOutput(void* address, bool bf16) : address_(address), bf16_(bf16) {}

  explicit operator bool() const { return address_ != nullptr; }
  bool bf16() const { return bf16_; }
  /// Where elements from `begin` on are to be written: their place, or `buffer`.
  float* place(int64_t begin, float* buffer) const {
    return bf16_ ? buffer : static_cast<float*>(address_) + begin;
  }
  /// Stores the `n` elements from `begin` on that lie in `buffer` if place() said so.
  void write(int64_t begin, int64_t n, const float* buffer) const {
    if (bf16_) to_bf16(buffer, static_cast<uint16_t*>(address_) + begin, n);
  }

 private:
  void* address_ = nullptr;
  bool bf16_ = false;
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_BFLOAT16_H_
