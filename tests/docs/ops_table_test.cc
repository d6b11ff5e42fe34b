#include "tests/docs/ops_table.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

TEST_CASE("docs/ops.md is what the tables in the code give") {
  std::ifstream file("docs/ops.md", std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  INFO("write it again: bazel run //tests/docs:ops_table -- \"$PWD/docs/ops.md\"");
  CHECK(text.str() == trainrt::ops_table());
}

TEST_CASE("no gradient that others have is missing") {
  for (const auto& list : {trainrt::onnxruntime_gradients(), trainrt::onnxsim_gradients()}) {
    for (const std::string_view op : list) {
      INFO(op);
      CHECK(trainrt::has_gradient(op));
    }
  }
}
