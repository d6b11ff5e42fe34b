#include "runtime/byte_size.h"

#include <cctype>
#include <charconv>
#include <map>

#include "trainrt/error.h"

namespace trainrt {

size_t parse_bytes(const std::string& text, const std::string& option) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  std::string unit;
  for (const char* c = next; c < end; ++c) {
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  const std::map<std::string, double> units = {
      {"", 1},      {"b", 1},       {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},
      {"tb", 1e12}, {"kib", 1024.}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  const auto factor = units.find(unit);
  constexpr double kMost = 0x1p62;
  if (error != std::errc() || factor == units.end() || !(value * factor->second >= 1) ||
      value * factor->second > kMost) {
    throw Error(ErrorCode::kUsage,
                option + ": a size such as 2GiB, 500MB or 4096 expected, found '" + text + "'");
  }
  return static_cast<size_t>(value * factor->second);
}

}  // namespace trainrt
