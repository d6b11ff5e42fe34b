// Takes instruction sets away before the first kernel chooses one.
#include "hwy/targets.h"

#include "hwy/detect_targets.h"

namespace trainrt {
namespace {

[[maybe_unused]] const bool kDisabled = [] {
  hwy::DisableTargets(TRAINRT_DISABLED_TARGETS);
  return true;
}();

}  // namespace
}  // namespace trainrt
