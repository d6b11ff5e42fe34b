#include "runtime/glob.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace trainrt {
namespace {

TEST_CASE("glob: plain text matches itself only") {
  CHECK(glob_match("fc.weight", "fc.weight"));
  CHECK_FALSE(glob_match("fc.weight", "fc.weights"));
  CHECK_FALSE(glob_match("fc.weight", "fc.weigh"));
  CHECK(glob_match("", ""));
  CHECK_FALSE(glob_match("", "a"));
}

TEST_CASE("glob: a star takes any characters, dots and slashes too") {
  CHECK(glob_match("*", ""));
  CHECK(glob_match("layer*.weight", "layer1/0.conv.weight"));
  CHECK(glob_match("*bias", "a.bias"));
  CHECK(glob_match("a*b*c", "aXbYbZc"));
  CHECK_FALSE(glob_match("a*b*c", "aXbYbZ"));
}

TEST_CASE("glob: a question mark takes one character") {
  CHECK(glob_match("layer?.w", "layer3.w"));
  CHECK_FALSE(glob_match("layer?.w", "layer.w"));
}

TEST_CASE("glob: sets") {
  CHECK(glob_match("l[123]", "l2"));
  CHECK(glob_match("l[0-9]x", "l7x"));
  CHECK_FALSE(glob_match("l[0-9]", "la"));
  CHECK(glob_match("l[!0-9]", "la"));
  CHECK_FALSE(glob_match("l[!0-9]", "l4"));
  CHECK(glob_match("[]]", "]"));
  CHECK(glob_match("a[-]", "a-"));
}

TEST_CASE("glob: an unclosed bracket stands for itself") {
  CHECK(glob_match("a[0", "a[0"));
  CHECK_FALSE(glob_match("a[0", "a0"));
}

TEST_CASE("glob: many stars stay fast") {
  const std::string text(2000, 'a');
  CHECK_FALSE(glob_match("*a*a*a*a*a*a*a*a*b", text));
}

}  // namespace
}  // namespace trainrt
