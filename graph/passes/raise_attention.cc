#include "graph/passes/raise.h"

namespace trainrt {

std::span<const RaiseRule> raise_attention_rules() { return {}; }

}  // namespace trainrt
