#include "graph/fused.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "graph/infer.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

const TensorType kRows{DType::kFloat32, {4, 3}}, kRow{DType::kFloat32, {3}};

std::vector<TensorType> infer(const std::string& program, std::vector<TensorType> inputs) {
  return infer_types(Op::kFused, inputs, FusedAttrs{program});
}

TEST_CASE("programs of Fused: text and back") {
  for (const std::string text :
       {"Neg($0); return %0", "Mul($0, 0.1); Clip(%0) lo=-0.5 hi=6; Add(%1, $1); return %1, %2",
        "Less($0, -inf); Where(%0, $0, nan); Cast(%0); ReduceSum(%2) axes=[0,1] keepdims=true; "
        "return %0, %1, %3"}) {
    CHECK(print(parse_fused(text)) == text);
  }
  CHECK(parse_fused(" Add( $0 ,%0 ) ; return %0 ").instructions[0].operands.size() == 2);
}

TEST_CASE("programs of Fused: what is no program") {
  CHECK_THROWS_WITH(parse_fused("Neg($0)"), ContainsSubstring("return"));
  CHECK_THROWS_WITH(parse_fused("Nag($0); return %0"), ContainsSubstring("known op"));
  CHECK_THROWS_WITH(parse_fused("Neg($x); return %0"), ContainsSubstring("number of an input"));
  CHECK_THROWS_WITH(parse_fused("Neg(x); return %0"), ContainsSubstring("an operand"));
  CHECK_THROWS_WITH(parse_fused("Neg $0; return %0"), ContainsSubstring("Op(operands)"));
  CHECK_THROWS_WITH(parse_fused("Neg($0); return $0"), ContainsSubstring("results"));
  CHECK_THROWS_WITH(parse_fused("Neg($0); return %0; Neg($0)"), ContainsSubstring("the end"));
  CHECK_THROWS_WITH(parse_fused("Neg($0) axis=1; return %0"), ContainsSubstring("attribute"));
}

TEST_CASE("programs of Fused: types") {
  CHECK(infer("Add($0, $1); Less(%0, 1); ReduceSum(%0) axes=[0]; return %1, %0, %2",
              {kRows, kRow}) == std::vector<TensorType>{{DType::kBool, {4, 3}}, kRows, kRow});
  // Over the whole iteration space, whatever the operand's own shape.
  CHECK(infer("Exp($1); return %0", {kRows, kRow}) == std::vector<TensorType>{kRows});
}

TEST_CASE("programs of Fused: what does not fit") {
  const auto refuses = [](const std::string& program, const std::string& why) {
    CHECK_THROWS_WITH(infer(program, {kRows, kRow}), ContainsSubstring(why));
  };
  refuses("Neg($2); return %0", "no operand $2");
  refuses("Neg(%0); return %0", "no earlier result");
  refuses("Softmax($0); return %0", "no elementwise op");
  refuses("ReduceSum($0); Neg(%0); return %1", "is an operand");
  refuses("Neg(1); return %0", "iteration space");
  refuses("Neg($0); return %1", "results");
  refuses("Neg($0); return %0, %0", "distinct");
  refuses("And($0, $1); return %0", "bool");
  refuses("Neg($0)", "return");
}

}  // namespace
}  // namespace trainrt
