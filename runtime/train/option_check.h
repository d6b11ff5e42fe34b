// Checks of options.
#ifndef TRAINRT_RUNTIME_TRAIN_OPTION_CHECK_H_
#define TRAINRT_RUNTIME_TRAIN_OPTION_CHECK_H_

#include <cmath>
#include <optional>
#include <string>

#include "trainrt/error.h"

namespace trainrt {

/// Throws Error(kUsage) unless `good`.
inline void check_usage(bool good, const std::string& message) {
  if (!good) throw Error(ErrorCode::kUsage, message);
}

inline void check_above_zero(const std::optional<double>& value, const char* name) {
  if (!value) return;
  check_usage(std::isfinite(*value) && *value > 0,
              std::string(name) + " must be a number above 0, not " + std::to_string(*value));
}

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_OPTION_CHECK_H_
