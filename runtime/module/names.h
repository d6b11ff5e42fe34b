// Names that users write.
#ifndef TRAINRT_RUNTIME_MODULE_NAMES_H_
#define TRAINRT_RUNTIME_MODULE_NAMES_H_

#include <span>
#include <string>
#include <string_view>

namespace trainrt {

/// The known name with the smallest edit distance; empty when there is none.
std::string nearest_name(std::string_view wanted, std::span<const std::string> known);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_NAMES_H_
