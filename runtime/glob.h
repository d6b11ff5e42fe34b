// Shell patterns for names.
#ifndef TRAINRT_RUNTIME_GLOB_H_
#define TRAINRT_RUNTIME_GLOB_H_

#include <string_view>

namespace trainrt {

/// `*` any characters (dots and slashes too), `?` one, `[abc]`, `[a-z]`, `[!…]` one of a set. A
/// bracket that is never closed stands for itself.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_GLOB_H_
