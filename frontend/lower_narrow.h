// Element types narrower than any DType. Values of float8 and float4 are kept in the working type,
// on the narrow type's grid; those of int4 and int2 in int8, of uint4 and uint2 in uint8. Private
// to the frontend.
#ifndef TRAINRT_FRONTEND_LOWER_NARROW_H_
#define TRAINRT_FRONTEND_LOWER_NARROW_H_

#include <cstdint>

#include "frontend/lower.h"

namespace trainrt::lowering {

struct NarrowType {
  int64_t onnx;            // TensorProto.DataType
  RoundToAttrs grid;       // floats: also what becomes of values beyond it without `saturate`
  int64_t lo = 0, hi = 0;  // integers: their range; 0 and 0 for floats

  bool is_float() const { return hi == 0; }
  /// Type that integers are kept in.
  DType dtype() const { return lo < 0 ? DType::kInt8 : DType::kUInt8; }
};

/// Null when the type is none of these.
const NarrowType* find_narrow(int64_t onnx_type);

Var round_to(Var x, const RoundToAttrs& grid);

void lower_cast(LowerContext& c);
void lower_cast_like(LowerContext& c);

}  // namespace trainrt::lowering

#endif  // TRAINRT_FRONTEND_LOWER_NARROW_H_
