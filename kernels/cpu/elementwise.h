// Vectorised inner loops of the elementwise ops; the best target is chosen when a node is planned.
#ifndef TRAINRT_KERNELS_CPU_ELEMENTWISE_H_
#define TRAINRT_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "graph/types.h"

namespace trainrt {

/// out may be in. lo and hi are used by Clip only.
using UnaryLoop = void (*)(const float* in, float* out, int64_t n, float lo, float hi);
/// Null when the op has no float32 loop.
UnaryLoop unary_loop(Op op);

/// x = max(x, 0) on all threads. oneDNN's ReLU post-op is not used for it: that turns NaN into 0.
/// x: float32 or bfloat16
void relu_in_place(void* x, bool bf16, int64_t n);

/// Which operands move along the inner dim; the others are scalars.
enum class Operands : uint8_t { kBoth, kFirst, kSecond };

/// out may be a or b where those move. lo and hi are used by ClipGrad only.
using BinaryLoop = void (*)(const float* a, const float* b, float* out, int64_t n, float lo,
                            float hi);
BinaryLoop binary_loop(Op op, Operands operands);

using CompareLoop = void (*)(const float* a, const float* b, uint8_t* out, int64_t n);
CompareLoop compare_loop(Op op, Operands operands);

/// Condition and both branches; a branch that does not move is a scalar.
using WhereLoop = void (*)(const uint8_t* c, const float* a, const float* b, float* out, int64_t n);
WhereLoop where_loop(bool first_moves, bool second_moves);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_ELEMENTWISE_H_
