// Instructions of a Fused program, bound to the loops of their ops.
#ifndef TRAINRT_KERNELS_CPU_FUSED_INSTRUCTION_H_
#define TRAINRT_KERNELS_CPU_FUSED_INSTRUCTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "graph/fused.h"
#include "kernels/cpu/elementwise.h"

namespace trainrt {

inline constexpr size_t kFusedSlots = 256;

/// Addresses of a tile's operands: inputs, numbers, buffers, outputs.
using FusedSlots = std::array<std::byte*, kFusedSlots>;

struct FusedCall;
using FusedLoop = void (*)(const FusedCall&, const FusedSlots&, int64_t n);

struct FusedCall {
  FusedLoop call = nullptr;
  std::array<uint8_t, 3> in{};
  uint8_t out = 0;
  float lo = 0, hi = 0;
  union {
    UnaryLoop unary;
    BinaryLoop binary;
    CompareLoop compare;
    WhereLoop where;
  };

  FusedCall() : unary(nullptr) {}
  const float* f(const FusedSlots& slots, size_t i) const {
    return reinterpret_cast<const float*>(slots[in[i]]);
  }
  const uint8_t* b(const FusedSlots& slots, size_t i) const {
    return reinterpret_cast<const uint8_t*>(slots[in[i]]);
  }
  float* f_out(const FusedSlots& slots) const { return reinterpret_cast<float*>(slots[out]); }
  uint8_t* b_out(const FusedSlots& slots) const { return reinterpret_cast<uint8_t*>(slots[out]); }
};

/// The loop for an instruction whose operand i has type in[i] and is one number unless moves[i];
/// nothing when there is none.
std::optional<FusedCall> select_call(const FusedInstruction& from, std::span<const DType> in,
                                     const std::array<bool, 3>& moves);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_FUSED_INSTRUCTION_H_
