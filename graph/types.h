// Identifiers, ops and the static type of values.
#ifndef TRAINRT_GRAPH_TYPES_H_
#define TRAINRT_GRAPH_TYPES_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "trainrt/tensor.h"

namespace trainrt {

enum class Op : uint8_t {
#define OP(name, min_in, max_in, outputs, attrs) k##name,
#include "graph/op_list.def"
#undef OP
};

inline constexpr int kOpCount = 0
#define OP(name, min_in, max_in, outputs, attrs) +1
#include "graph/op_list.def"
#undef OP
    ;

struct OpInfo {
  std::string_view name;  // as in op_list.def
  int min_inputs;
  int max_inputs;  // -1: any number
  int outputs;     // -1: decided by attributes and inputs
};

const OpInfo& op_info(Op op);
bool parse_op(std::string_view name, Op* out);

/// Elementwise ops read and write each element once: the result may overwrite an operand of the
/// same size. NumPy broadcasting between the operands.
bool is_elementwise(Op op);
/// Ops whose first output is the storage of their first input (Assign, OptimizerUpdate, …).
bool is_state_update(Op op);
/// Ops that do more than compute their results: they run exactly once, where they stand.
bool has_effects(Op op);
/// Ops that only reinterpret bytes (Reshape, Identity, StopGradient).
bool is_view(Op op);

template <typename Tag>
struct Id {
  int32_t index = -1;
  explicit operator bool() const { return index >= 0; }
  auto operator<=>(const Id&) const = default;
};
using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;

/// How the elements of a value lie in memory. Only values between nodes of a plan have another
/// layout than kPlain; shapes are logical in every layout.
enum class Layout : uint8_t {
  kPlain,   // row-major
  kNChw16c  // [N, ceil(C / 16), H, W, 16] of a [N, C, H, W]; what pads the last block is 0
};

/// Between nodes of a plan a float32 value may be kept as bfloat16, rounded to nearest even: its
/// dtype is kBFloat16 there and nowhere else. Ops compute in float32 all the same.
struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout = Layout::kPlain;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const { return element_count(shape); }
  /// Elements in memory, padding included.
  int64_t stored_size() const {
    return layout == Layout::kPlain || shape[1] == 0
               ? size()
               : size() / shape[1] * ((shape[1] + 15) / 16 * 16);
  }
  size_t bytes() const { return static_cast<size_t>(stored_size()) * dtype_size(dtype); }
  bool operator==(const TensorType&) const = default;
};

/// "float32[2,3]", "float32[2,3,4,4]nChw16c"
std::string to_string(const TensorType& type);

/// The type that ops compute with: plain, and float32 where the value is kept as bfloat16.
inline TensorType computed(TensorType type) {
  type.layout = Layout::kPlain;
  if (type.dtype == DType::kBFloat16) type.dtype = DType::kFloat32;
  return type;
}

/// Limits of every value, checked by infer_types: kernels rely on them.
inline constexpr int64_t kMaxRank = 16;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

}  // namespace trainrt

template <typename Tag>
struct std::hash<trainrt::Id<Tag>> {
  size_t operator()(trainrt::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.index); }
};

#endif  // TRAINRT_GRAPH_TYPES_H_
