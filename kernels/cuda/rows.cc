#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

RowTeam row_team(int64_t rows, int64_t length) {
  constexpr int64_t kWarps = kThreads / 32;
  const gpu::Size3 by_warps = blocks_of((rows + kWarps - 1) / kWarps);
  if (length <= 64) return {"warp2", by_warps};
  if (length <= 256) return {"warp8", by_warps};
  if (length <= kMaxWarpRow) return {"warp32", by_warps};
  if (length <= kMaxTeamRow) return {"block16", blocks_of(rows)};
  return {kNoTeam, blocks_of(rows)};
}

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

Support all_float_or_bf16(const NodeView& node, uint32_t inputs, uint32_t outputs) {
  const auto widened = [](std::span<const TensorType> types, uint32_t half) {
    std::vector<TensorType> wide(types.begin(), types.end());
    for (size_t i = 0; i < wide.size(); ++i) {
      if (half >> i & 1) wide[i] = computed(wide[i]);
    }
    return wide;
  };
  const std::vector<TensorType> in = widened(node.inputs, inputs),
                                out = widened(node.outputs, outputs);
  return all_float({node.op, node.attrs, in, out});
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
