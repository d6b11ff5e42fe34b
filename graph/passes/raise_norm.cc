#include "graph/passes/raise.h"

namespace trainrt {

std::span<const RaiseRule> raise_norm_rules() { return {}; }

}  // namespace trainrt
