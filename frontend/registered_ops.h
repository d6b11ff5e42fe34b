// Operators, gradients and kernels that programs add.
#ifndef TRAINRT_FRONTEND_REGISTERED_OPS_H_
#define TRAINRT_FRONTEND_REGISTERED_OPS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/lower.h"
#include "graph/call.h"

namespace trainrt {

using RegisteredLowering = std::function<void(LowerContext&)>;
using RegisteredGradient = std::function<std::vector<Var>(const CallGradient&)>;

/// For models that are loaded from now on; takes the place of what was there. Thread-safe.
void register_lowering(const std::string& domain, const std::string& op, int64_t since,
                       RegisteredLowering lowering);
/// For plans that are made from now on.
void register_gradient_rule(const std::string& domain, const std::string& op,
                            RegisteredGradient rule);

/// Null when there is none; rows live as long as the process.
const LoweringRow* find_registered(std::string_view domain, std::string_view op, int64_t opset);
/// Empty when there is none.
RegisteredGradient find_gradient_rule(std::string_view domain, std::string_view op);
/// Changes with every registration: part of the keys of plans.
int64_t registrations();

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_REGISTERED_OPS_H_
