#include "runtime/cli/fields.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "trainrt/error.h"

namespace trainrt::cli {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Names = std::map<std::string, std::string>;

FieldRequest request(std::vector<std::string> fields, std::vector<std::string> inputs) {
  FieldRequest r;
  r.fields = std::move(fields);
  r.inputs = std::move(inputs);
  r.outputs = {"y", "z"};
  r.source = "'d.npz'";
  return r;
}

TEST_CASE("arrays go to their namesakes", "[fields]") {
  const FieldMap map = match_fields(request({"a", "b", "target"}, {"a", "b"}));
  CHECK(map.names == Names{{"a", "a"}, {"b", "b"}, {"target", "target"}});
  CHECK(map.notes.empty());
}

TEST_CASE("in/NAME is accepted and the plain name wins", "[fields]") {
  CHECK(match_fields(request({"in/a"}, {"a"})).names == Names{{"in/a", "a"}});
  CHECK(match_fields(request({"in/a", "a"}, {"a"})).names == Names{{"a", "a"}});
}

TEST_CASE("the only array left is the only input left", "[fields]") {
  const FieldMap map = match_fields(request({"pixels", "target"}, {"a"}));
  CHECK(map.names.at("pixels") == "a");
  CHECK(map.notes.size() == 1);
  CHECK(map.guessed.contains("a"));
}

TEST_CASE("among several arrays a usual name is taken", "[fields]") {
  const FieldMap map = match_fields(request({"images", "ids", "target"}, {"a"}));
  CHECK(map.names.at("images") == "a");
  CHECK(map.notes.size() == 2);
}

TEST_CASE("a missing input is named with what is there", "[fields]") {
  CHECK_THROWS_MATCHES(match_fields(request({"target"}, {"a"})), Error,
                       MessageMatches(ContainsSubstring("'a'") && ContainsSubstring("'target'")));
  CHECK_THROWS_MATCHES(match_fields(request({"p", "q"}, {"a"})), Error,
                       MessageMatches(ContainsSubstring("'p', 'q'")));
  CHECK_THROWS_MATCHES(match_fields(request({"p"}, {"a", "b"})), Error,
                       MessageMatches(ContainsSubstring("'a', 'b'")));
}

TEST_CASE("targets of outputs are checked", "[fields]") {
  CHECK(match_fields(request({"a", "target/z"}, {"a"})).names.contains("target/z"));
  CHECK_THROWS_MATCHES(match_fields(request({"a", "target/w"}, {"a"})), Error,
                       MessageMatches(ContainsSubstring("'y', 'z'")));
}

TEST_CASE("labels are a target unless they are an input", "[fields]") {
  CHECK(match_fields(request({"a", "labels"}, {"a"})).names.at("labels") == "target");
  CHECK(match_fields(request({"a", "labels"}, {"a", "labels"})).names.at("labels") == "labels");
}

TEST_CASE("targets and output gradients are kept on request only", "[fields]") {
  FieldRequest r = request({"a", "target", "dy/y", "out/y", "grad/a"}, {"a"});
  CHECK(match_fields(r).names == Names{{"a", "a"}, {"target", "target"}});
  r.targets = false;
  r.output_grads = true;
  const FieldMap map = match_fields(r);
  CHECK(map.names == Names{{"a", "a"}, {"dy/y", "dy/y"}});
  CHECK(map.notes.empty());
}

}  // namespace
}  // namespace trainrt::cli
