#include "runtime/glob.h"

#include <cstddef>

namespace trainrt {
namespace {

// Matches one character against the set that starts behind '['; *length is that of the whole set
// with its brackets, 0 when it is never closed.
bool match_set(std::string_view pattern, char c, size_t* length) {
  size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool hit = false;
  for (const size_t start = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > start) {
      *length = i + 1;
      return hit != negated;
    }
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      hit |= pattern[i] <= c && c <= pattern[i + 2];
      i += 2;
    } else {
      hit |= pattern[i] == c;
    }
  }
  *length = 0;
  return false;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  // On a mismatch, go back to the last star and let it take one character more: linear in practice,
  // quadratic at worst.
  size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    bool hit = false;
    size_t length = 1;
    if (p < pattern.size()) {
      if (pattern[p] == '[') {
        hit = match_set(pattern.substr(p), text[t], &length);
        if (length == 0) {
          length = 1;
          hit = text[t] == '[';
        }
      } else {
        hit = pattern[p] == '?' || pattern[p] == text[t];
      }
    }
    if (hit) {
      p += length;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace trainrt
