#include "frontend/onnx_dtype.h"

#include <string_view>
#include <utility>

namespace trainrt {
namespace {

constexpr std::pair<int64_t, DType> kTypes[] = {
    {kOnnxFloat, DType::kFloat32},    {kOnnxUint8, DType::kUInt8},
    {kOnnxInt8, DType::kInt8},        {kOnnxUint16, DType::kUInt16},
    {kOnnxInt16, DType::kInt16},      {kOnnxInt32, DType::kInt32},
    {kOnnxInt64, DType::kInt64},      {kOnnxBool, DType::kBool},
    {kOnnxFloat16, DType::kFloat16},  {kOnnxDouble, DType::kFloat64},
    {kOnnxUint32, DType::kUInt32},    {kOnnxUint64, DType::kUInt64},
    {kOnnxBfloat16, DType::kBFloat16}};

constexpr std::pair<int64_t, std::string_view> kOthers[] = {{kOnnxString, "string"},
                                                            {kOnnxComplex64, "complex64"},
                                                            {kOnnxComplex128, "complex128"},
                                                            {kOnnxFloat8E4M3FN, "float8e4m3fn"},
                                                            {kOnnxFloat8E4M3FNUZ, "float8e4m3fnuz"},
                                                            {kOnnxFloat8E5M2, "float8e5m2"},
                                                            {kOnnxFloat8E5M2FNUZ, "float8e5m2fnuz"},
                                                            {kOnnxUint4, "uint4"},
                                                            {kOnnxInt4, "int4"},
                                                            {kOnnxFloat4E2M1, "float4e2m1"},
                                                            {kOnnxFloat8E8M0, "float8e8m0"},
                                                            {kOnnxUint2, "uint2"},
                                                            {kOnnxInt2, "int2"}};

}  // namespace

bool dtype_from_onnx(int64_t type, DType* out) {
  for (const auto& [number, dtype] : kTypes) {
    if (number == type) {
      *out = dtype;
      return true;
    }
  }
  return false;
}

int64_t onnx_from_dtype(DType type) {
  for (const auto& [number, dtype] : kTypes) {
    if (dtype == type) return number;
  }
  return 0;
}

bool is_narrow(int64_t type) {
  switch (type) {
    case kOnnxFloat8E4M3FN:
    case kOnnxFloat8E4M3FNUZ:
    case kOnnxFloat8E5M2:
    case kOnnxFloat8E5M2FNUZ:
    case kOnnxFloat8E8M0:
    case kOnnxFloat4E2M1:
      return true;
    default:
      return is_narrow_integer(type);
  }
}

bool is_narrow_integer(int64_t type) {
  return type == kOnnxInt4 || type == kOnnxUint4 || type == kOnnxInt2 || type == kOnnxUint2;
}

DType widened(int64_t type) {
  if (!is_narrow_integer(type)) return DType::kFloat32;
  return type == kOnnxInt4 || type == kOnnxInt2 ? DType::kInt8 : DType::kUInt8;
}

std::string onnx_type_name(int64_t type) {
  DType dtype;
  if (dtype_from_onnx(type, &dtype)) return std::string(dtype_name(dtype));
  for (const auto& [number, name] : kOthers) {
    if (number == type) return std::string(name);
  }
  return "type " + std::to_string(type);
}

}  // namespace trainrt
