#include "graph/types.h"

#include <unordered_map>

namespace trainrt {
namespace {

constexpr OpInfo kInfos[] = {
#define OP(name, min_in, max_in, outputs, attrs) {#name, min_in, max_in, outputs},
#include "graph/op_list.def"
#undef OP
};

}  // namespace

const OpInfo& op_info(Op op) { return kInfos[static_cast<size_t>(op)]; }

bool parse_op(std::string_view name, Op* out) {
  static const auto* const kByName = [] {
    auto* map = new std::unordered_map<std::string_view, Op>;
    for (int i = 0; i < kOpCount; ++i) (*map)[kInfos[i].name] = static_cast<Op>(i);
    return map;
  }();
  const auto found = kByName->find(name);
  if (found == kByName->end()) return false;
  *out = found->second;
  return true;
}

// The elementwise ops stand together in op_list.def.
bool is_elementwise(Op op) { return op >= Op::kNeg && op <= Op::kFused; }

bool is_state_update(Op op) {
  return op == Op::kAssign || op == Op::kAssignAdd || op == Op::kOptimizerUpdate;
}

bool has_effects(Op op) { return op == Op::kHook || is_state_update(op); }

bool is_view(Op op) { return op == Op::kReshape || op == Op::kIdentity || op == Op::kStopGradient; }

std::string to_string(const TensorType& type) {
  return std::string(dtype_name(type.dtype)) + to_string(type.shape) +
         (type.layout == Layout::kNChw16c ? "nChw16c" : "");
}

}  // namespace trainrt
