#include "trainrt/error.h"

#include <catch2/catch_test_macros.hpp>

using namespace trainrt;

TEST_CASE("a problem prints its node, op and opset") {
  CHECK(to_string(Problem{"fancy_1", "Fancy", "vendor", 1, "no_lowering", "unknown op"}) ==
        "node 'fancy_1' (vendor::Fancy, opset 1): unknown op");
  CHECK(to_string(Problem{"mm", "MatMul", "", 17, "invalid", "bad shapes"}) ==
        "node 'mm' (MatMul, opset 17): bad shapes");
  CHECK(to_string(Problem{"", "", "", 0, "invalid", "no graph"}) == "no graph");
}

TEST_CASE("diagnostics throw once, with the whole list") {
  Diagnostics d;
  CHECK_NOTHROW(d.throw_if_any(ErrorCode::kUnsupported, "cannot train"));
  d.add({"a", "A", "", 1, "no_gradient", "first"});
  d.add({"b", "B", "", 1, "no_gradient", "second"});
  try {
    d.throw_if_any(ErrorCode::kUnsupported, "cannot train");
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUnsupported);
    REQUIRE(e.problems().size() == 2);
    const std::string text = e.what();
    CHECK(text.find("cannot train\n") == 0);
    CHECK(text.find("'a' (A, opset 1): first") != std::string::npos);
    CHECK(text.find("'b' (B, opset 1): second") != std::string::npos);
  }
}

TEST_CASE("a failed check names the place and the condition") {
  try {
    TRAINRT_CHECK(1 + 1 == 3, "arithmetic");
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInternal);
    CHECK(std::string(e.what()).find("1 + 1 == 3") != std::string::npos);
    CHECK(std::string(e.what()).find("arithmetic") != std::string::npos);
  }
}
