// What elementwise ops are in CUDA C++, by element type.
#ifndef TRAINRT_KERNELS_CUDA_CODEGEN_OPS_H_
#define TRAINRT_KERNELS_CUDA_CODEGEN_OPS_H_

#include <span>
#include <string>
#include <string_view>

#include "graph/attrs.h"
#include "graph/types.h"
#include "kernels/kernel.h"

namespace trainrt::cuda {

/// The type (device/device.h) in which elements of `dtype` are computed: "float", "u8" for bool, …
std::string_view computed_type(DType dtype);
/// The type as which they lie in memory.
std::string_view stored_type(DType dtype);
/// A value of the type, which reads back to the same bits.
std::string literal(DType dtype, double value);

/// Whether expression() knows the op for elements of this type. `types` are of the inputs.
Support has_expression(Op op, std::span<const DType> types, DType result);
/// The op's result as an expression; operands are names or literals of the computed types.
std::string expression(Op op, const Attrs& attrs, std::span<const std::string> operands,
                       std::span<const DType> types, DType result);
/// "relu_grad"
std::string snake_case(Op op);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_CODEGEN_OPS_H_
