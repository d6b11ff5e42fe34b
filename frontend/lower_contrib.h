// The families of com.microsoft's operators. Private to the frontend.
#ifndef TRAINRT_FRONTEND_LOWER_CONTRIB_H_
#define TRAINRT_FRONTEND_LOWER_CONTRIB_H_

#include <span>

#include "frontend/lower.h"

namespace trainrt::lowering {

inline constexpr std::string_view kMs = "com.microsoft";

std::span<const LoweringRow> contrib_attention_lowerings();
std::span<const LoweringRow> contrib_linear_lowerings();  // products, convolutions, 4-bit weights
std::span<const LoweringRow> contrib_norm_lowerings();

}  // namespace trainrt::lowering

#endif  // TRAINRT_FRONTEND_LOWER_CONTRIB_H_
