// Words of the text form. Private to graph/.
#ifndef TRAINRT_GRAPH_TEXT_NAMES_H_
#define TRAINRT_GRAPH_TEXT_NAMES_H_

#include <string_view>

namespace trainrt {

inline constexpr std::string_view kSectionNames[] = {"forward", "backward", "update"};
inline constexpr std::string_view kOutputRoleNames[] = {"output", "loss", "gradient", "state"};

/// Characters of names that need no quotes.
constexpr bool is_name_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '.' || c == '-' || c == '/' || c == ':';
}

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_TEXT_NAMES_H_
