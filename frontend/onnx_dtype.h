// ONNX's numbers for element types.
#ifndef TRAINRT_FRONTEND_ONNX_DTYPE_H_
#define TRAINRT_FRONTEND_ONNX_DTYPE_H_

#include <cstdint>
#include <string>

#include "trainrt/dtype.h"

namespace trainrt {

/// TensorProto.DataType by number, also those newer than the installed ONNX.
enum OnnxType : int64_t {
  kOnnxFloat = 1,
  kOnnxUint8 = 2,
  kOnnxInt8 = 3,
  kOnnxUint16 = 4,
  kOnnxInt16 = 5,
  kOnnxInt32 = 6,
  kOnnxInt64 = 7,
  kOnnxString = 8,
  kOnnxBool = 9,
  kOnnxFloat16 = 10,
  kOnnxDouble = 11,
  kOnnxUint32 = 12,
  kOnnxUint64 = 13,
  kOnnxComplex64 = 14,
  kOnnxComplex128 = 15,
  kOnnxBfloat16 = 16,
  kOnnxFloat8E4M3FN = 17,
  kOnnxFloat8E4M3FNUZ = 18,
  kOnnxFloat8E5M2 = 19,
  kOnnxFloat8E5M2FNUZ = 20,
  kOnnxUint4 = 21,
  kOnnxInt4 = 22,
  kOnnxFloat4E2M1 = 23,
  kOnnxFloat8E8M0 = 24,
  kOnnxUint2 = 25,
  kOnnxInt2 = 26,
};

/// The DType with exactly these values; false when there is none (strings, complex, 8-bit floats,
/// …).
bool dtype_from_onnx(int64_t type, DType* out);
int64_t onnx_from_dtype(DType type);
/// Floats of 8 and 4 bits, integers of 4 and 2.
bool is_narrow(int64_t type);
/// int4, uint4, int2, uint2.
bool is_narrow_integer(int64_t type);
/// The type that holds the values of one that is none of DType's.
DType widened(int64_t type);
/// "float16", "float8e4m3fn", "type 99".
std::string onnx_type_name(int64_t type);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_ONNX_DTYPE_H_
