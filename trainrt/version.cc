#include "trainrt/version.h"

namespace trainrt {

// Two macros, so that the numbers are put in before they become text.
#define TRAINRT_TEXT_OF(x) #x
#define TRAINRT_TEXT(x) TRAINRT_TEXT_OF(x)

const char* version() {
  return TRAINRT_TEXT(TRAINRT_VERSION_MAJOR) "." TRAINRT_TEXT(
      TRAINRT_VERSION_MINOR) "." TRAINRT_TEXT(TRAINRT_VERSION_PATCH);
}

}  // namespace trainrt
