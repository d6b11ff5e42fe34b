#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

std::string_view suffix(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "f32";
    case DType::kFloat64:
      return "f64";
    case DType::kBFloat16:
      return "bf16";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kUInt8:
      return "u8";
    case DType::kUInt16:
      return "u16";
    case DType::kUInt32:
      return "u32";
    case DType::kUInt64:
      return "u64";
    case DType::kBool:
      return "b8";
    default:
      throw Error(ErrorCode::kInternal, "device code knows no " + std::string(dtype_name(dtype)));
  }
}

const gpu::Function* function(const Scratch& scratch, std::string_view name) {
  return scratch.device == nullptr ? nullptr : scratch.device->function(name);
}

const gpu::Function* function(const Scratch& scratch, std::string_view name, DType dtype) {
  return function(scratch, std::string(name) + "_" + std::string(suffix(dtype)));
}

Support all_of(const NodeView& node, std::initializer_list<DType> types) {
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const TensorType& t : *list) {
      if (std::find(types.begin(), types.end(), t.dtype) == types.end()) {
        return Support::no("takes no " + std::string(dtype_name(t.dtype)));
      }
    }
  }
  return Support::yes();
}

Support all_float(const NodeView& node) {
  Support single = all_of(node, {DType::kFloat32});
  return single.ok || all_of(node, {DType::kFloat64}).ok ? Support::yes() : single;
}

size_t book(Scratch& scratch, size_t bytes) {
  const size_t offset = (scratch.bytes + 255) / 256 * 256;
  scratch.bytes = offset + bytes;
  return offset;
}

int64_t size_of(const Shape& shape, size_t begin, size_t end) {
  int64_t size = 1;
  for (size_t d = begin; d < end; ++d) size *= shape[d];
  return size;
}

}  // namespace trainrt::cuda
