// If, Loop and Scan with what decides them known.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <utility>

#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

Tensor ints(std::initializer_list<int64_t> values, Shape shape) {
  return Tensor::from<int64_t>(values, std::move(shape));
}
std::vector<double> values(const Tensor& t) {
  const Tensor d = t.to(DType::kFloat64);
  const auto span = std::as_const(d).data<double>();
  return {span.begin(), span.end()};
}

const char* const kIf =
    "g (float[n] x) => (float[n] y) { s = Shape(x) two = Constant<value_ints: ints = [2]>()"
    " c = Equal(s, two)"
    " y = If (c) <then_branch = t () => (float[n] a) { a = Neg(x) },"
    " else_branch = e () => (float[n] b) { k = Constant<value = float {10}>() b = Mul(x, k) }> }";

TEST_CASE("a branch is chosen by the shape") {
  const OnnxModel m = model_of(graph_text(kIf));
  CHECK(values(run(m, {{"x", doubles({1, 2}, {2})}}).at("y")) == std::vector<double>{-1, -2});
  CHECK(values(run(m, {{"x", doubles({1}, {1})}}).at("y")) == std::vector<double>{10});
}

TEST_CASE("a condition on float contents is dynamic") {
  const OnnxModel m = model_of(
      graph_text("g (float x) => (float y) { z = Constant<value = float {0}>() c = Greater(x, z)"
                 " [branch] y = If (c) <then_branch = t () => (float a) { a = Neg(x) },"
                 " else_branch = e () => (float b) { b = Abs(x) }> }"));
  const Problem p = only_problem(m, {{"x", doubles({1}, {})}});
  CHECK(p.kind == "dynamic");
  CHECK(p.node == "branch");
  CHECK_THAT(p.reason, ContainsSubstring("contents of x"));
}

TEST_CASE("a branch that is not taken may hold what does not fit") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x) => (float[2] y) { c = Constant<value = bool {1}>()"
                 " y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) },"
                 " else_branch = e () => (float[3] b) { s = Constant<value_ints: ints = [3]>()"
                 " b = Reshape(x, s) }> }"));
  CHECK(values(run(m, {{"x", doubles({1, 2}, {2})}}).at("y")) == std::vector<double>{-1, -2});
}

TEST_CASE("a loop carries values, stacks outputs and counts") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x) => (float[2] last, float[3,2] all, int64[3] count) <int64 n = "
                 "{3}, float[2] w ="
                 " {2, 3}>"
                 "{ last, all, count = Loop (n, , x) <body = b (int64 i, bool k, float[2] p) =>"
                 " (bool k2, float[2] p2, float[2] s, int64 j) { k2 = Identity(k) p2 = Mul(p, w)"
                 " s = Add(p2, x) j = Identity(i) }> }"));
  const Tensors out = run(m, {{"x", doubles({1, 1}, {2})}});
  CHECK(values(out.at("last")) == std::vector<double>{8, 27});
  CHECK(values(out.at("all")) == std::vector<double>{3, 4, 5, 10, 9, 28});
  CHECK(out.at("count").to_ints() == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("a loop ends by its condition") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[1] y) <int64 three = {3}, bool yes = {1}>"
      "{ y = Loop (``, yes, x) <body = b (int64 i, bool k, float[1] p) => (bool k2, float[1] p2)"
      " { k2 = Less(i, three) p2 = Add(p, p) }> }"));
  CHECK(run(m, {{"x", doubles({1}, {1})}}).at("y").item() == 16);
}

TEST_CASE("a loop whose condition depends on contents is dynamic") {
  const OnnxModel m = model_of(graph_text(
      "g (float x) => (float y) <bool yes = {1}, float top = {10}>"
      "{ [loop] y = Loop (``, yes, x) <body = b (int64 i, bool k, float p) => (bool k2, float p2)"
      " { p2 = Add(p, p) k2 = Less(p2, top) }> }"));
  const Problem p = only_problem(m, {{"x", doubles({1}, {})}});
  CHECK(p.kind == "dynamic");
  CHECK(p.node == "loop");
}

TEST_CASE("a trip count that is an input is asked for") {
  const OnnxModel m = model_of(graph_text(
      "g (int64 n, float[1] x) => (float[1] y) {"
      " y = Loop (n, , x) <body = b (int64 i, bool k, float[1] p) => (bool k2, float[1] p2)"
      " { k2 = Identity(k) p2 = Add(p, p) }> }"));
  const Tensor x = doubles({1}, {1});
  CHECK(lower(m, {{"x", x}, {"n", ints({3}, {})}}).result.needs_value ==
        std::vector<std::string>{"n"});
  CHECK(run(m, {{"x", x}}, {{"n", ints({4}, {})}}).at("y").item() == 16);
}

TEST_CASE("a loop without iterations gives its initial values and empty stacks") {
  const OnnxModel m = model_of(graph_text(
      "g (float[2] x) => (float[2] y, float[k,2] s) <int64 n = {0}>"
      "{ y, s = Loop (n, , x) <body = b (int64 i, bool k, float[2] p) =>"
      " (bool k2, float[2] p2, float[2] q) { k2 = Identity(k) p2 = Add(p, p) q = Neg(p) }> }"));
  const Tensors out = run(m, {{"x", doubles({1, 5}, {2})}});
  CHECK(values(out.at("y")) == std::vector<double>{1, 5});
  CHECK(out.at("s").shape() == Shape{0, 2});
}

TEST_CASE("a loop may grow what it carries") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[k] y) <int64 n = {3}>"
      "{ y = Loop (n, , x) <body = b (int64 i, bool k, float[a] p) => (bool k2, float[b] p2)"
      " { k2 = Identity(k) p2 = Concat<axis: int = 0>(p, x) }> }"));
  CHECK(run(m, {{"x", doubles({7}, {1})}}).at("y").shape() == Shape{4});
}

TEST_CASE("a loop in a loop") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[1] y) <int64 n = {2}, int64 k3 = {3}>"
      "{ y = Loop (n, , x) <body = b (int64 i, bool k, float[1] p) => (bool k2, float[1] p2)"
      " { k2 = Identity(k) p2 = Loop (k3, , p) <body = b2 (int64 i2, bool l, float[1] q) =>"
      " (bool l2, float[1] q2) { l2 = Identity(l) q2 = Add(q, x) }> }> }"));
  CHECK(run(m, {{"x", doubles({2}, {1})}}).at("y").item() == 14);
}

TEST_CASE("a problem inside a loop is reported once") {
  const OnnxModel m = model_of(graph_text(
      "g (float[2] x) => (float[2] y) <int64 n = {5}, int64[1] s = {3}>"
      "{ y = Loop (n, , x) <body = b (int64 i, bool k, float[2] p) => (bool k2, float[2] p2)"
      " { k2 = Identity(k) [bad] p2 = Reshape(p, s) }> }"));
  CHECK(only_problem(m, {{"x", doubles({1, 2}, {2})}}).node == "bad");
}

TEST_CASE("a body with the wrong number of inputs is refused") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x) => (float[2] y) <int64 n = {5}>"
                 "{ y = Loop (n, , x) <body = b (int64 i, bool k) => (bool k2, float[2] p2)"
                 " { k2 = Identity(k) p2 = Neg(x) }> }"));
  CHECK_THAT(only_problem(m, {{"x", doubles({1, 2}, {2})}}).reason, ContainsSubstring("the body"));
}

std::string scan(const std::string& attributes, const std::string& output = "float[a,b] s") {
  return graph_text(
      "g (float[1] h, float[2,3] x) => (float[1] hn, " + output +
      ") {"
      " hn, s = Scan <num_scan_inputs: int = 1" +
      attributes +
      ", body = b (float[1] c, float[k] r)"
      " => (float[1] c2, float[k] o) { t = ReduceSum<keepdims: int = 0>(r) c2 = Add(c, t)"
      " o = Mul(r, c2) }> (h, x) }");
}

TEST_CASE("scan over the first axis") {
  const Tensors out = run(model_of(scan("")),
                          {{"h", doubles({1}, {1})}, {"x", doubles({1, 2, 3, 4, 5, 6}, {2, 3})}});
  CHECK(values(out.at("hn")) == std::vector<double>{22});
  CHECK(values(out.at("s")) == std::vector<double>{7, 14, 21, 88, 110, 132});
}

TEST_CASE("scan backwards over a negative axis, stacked along the last") {
  const Tensors out =
      run(model_of(scan(", scan_input_axes: ints = [-1], scan_input_directions: ints = [1],"
                        " scan_output_axes: ints = [-1], scan_output_directions: ints = [1]")),
          {{"h", doubles({0}, {1})}, {"x", doubles({1, 2, 3, 4, 5, 6}, {2, 3})}});
  // Columns from the last: [3,6] -> 9, [2,5] -> 16, [1,4] -> 21; outputs are put in front.
  CHECK(values(out.at("hn")) == std::vector<double>{21});
  CHECK(out.at("s").shape() == Shape{2, 3});
  CHECK(values(out.at("s")) == std::vector<double>{21, 32, 27, 84, 80, 54});
}

TEST_CASE("scan over sequences of different lengths is refused") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x, float[3] z) => (float[k] s) {"
                 " s = Scan <num_scan_inputs: int = 2, body = b (float p, float q) => (float o)"
                 " { o = Add(p, q) }> (x, z) }"));
  CHECK_THAT(only_problem(m, {{"x", doubles({1, 2}, {2})}, {"z", doubles({1, 2, 3}, {3})}}).reason,
             ContainsSubstring("2 and 3 steps"));
}

TEST_CASE("scan without steps") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x) => (float[n,2] s) {"
                 " s = Scan <num_scan_inputs: int = 1, body = b (float[2] p) => (float[2] o)"
                 " { o = Neg(p) }> (x) }"));
  CHECK(run(m, {{"x", Tensor(DType::kFloat64, {0, 2})}}).at("s").shape() == Shape{0, 2});
}

// Running sums of two sequences; the body sees no batch axis.
std::string batch_scan(const std::string& lengths, const std::string& attributes = "",
                       const std::string& stored = "1, 1") {
  return graph_text(
      "g (int64[2] n, float[2,2] h, float[2,3,2] x) => (float[2,2] hn, float[2,3,2] s)"
      " <int64[2] stored = {" +
          stored + "}> { hn, s = Scan <num_scan_inputs: int = 1" + attributes +
          ", body = b (float[2] c, float[2] r) => (float[2] c2, float[2] o)"
          " { c2 = Add(c, r) o = Identity(c2) }> (" +
          lengths + ", h, x) }",
      8);
}

// Values of ONNX Runtime.
TEST_CASE("scan of opset 8 over the sequences of a batch") {
  const Tensors given = {{"h", doubles({100, 200, 300, 400}, {2, 2})},
                         {"x", doubles({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 2})}};
  const Tensors lens = {{"n", ints({2, 3}, {2})}};
  Tensors out = run(model_of(batch_scan("``")), given, lens);
  CHECK(values(out.at("hn")) == std::vector<double>{109, 212, 327, 430});
  CHECK(values(out.at("s")) ==
        std::vector<double>{101, 202, 104, 206, 109, 212, 307, 408, 316, 418, 327, 430});
  out = run(model_of(batch_scan("n")), given, lens);
  CHECK(values(out.at("hn")) == std::vector<double>{104, 206, 327, 430});
  CHECK(values(out.at("s")) ==
        std::vector<double>{101, 202, 104, 206, 0, 0, 307, 408, 316, 418, 327, 430});
  out = run(model_of(batch_scan("n", ", directions: ints = [1]")), given, lens);
  CHECK(values(out.at("hn")) == std::vector<double>{104, 206, 327, 430});
  CHECK(values(out.at("s")) ==
        std::vector<double>{103, 204, 104, 206, 0, 0, 311, 412, 320, 422, 327, 430});
  out = run(model_of(batch_scan("n")), given, {{"n", ints({0, 1}, {2})}});
  CHECK(values(out.at("hn")) == std::vector<double>{100, 200, 307, 408});
  CHECK(values(out.at("s")) == std::vector<double>{0, 0, 0, 0, 0, 0, 307, 408, 0, 0, 0, 0});
}

TEST_CASE("scan of opset 8 refuses lengths and inputs that do not fit") {
  const Tensors given = {{"h", doubles({1, 2, 3, 4}, {2, 2})},
                         {"n", ints({1, 1}, {2})},
                         {"x", Tensor(DType::kFloat64, {2, 3, 2})}};
  const auto problem = [&](const char* lengths) {
    return only_problem(model_of(batch_scan("stored", "", lengths)), given);
  };
  CHECK_THAT(problem("2, 4").reason, ContainsSubstring("from 0 to 3"));
  CHECK_THAT(problem("-1, 3").reason, ContainsSubstring("from 0 to 3"));
  CHECK(problem("0, 0").kind == "no_lowering");
}

TEST_CASE("a tensor is split into a sequence and put together again") {
  const OnnxModel m = model_of(graph_text(
      "g (float[5,2] x) => (float[5,2] y, int64 n, float[2,2] last) <int64 two = {2}, int64 end ="
      " {-1}, int64 first = {0}>"
      "{ s = SplitToSequence(x, two) n = SequenceLength(s) t = SequenceErase(s)"
      " last = SequenceAt(t, end) u = SequenceAt(s, end) v = SequenceInsert(t, u, first)"
      " y = ConcatFromSequence<axis: int = 0>(v) }"));
  const Tensors out = run(m, {{"x", doubles({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {5, 2})}});
  CHECK(out.at("n").item() == 3);
  CHECK(values(out.at("last")) == std::vector<double>{4, 5, 6, 7});
  CHECK(values(out.at("y")) == std::vector<double>{8, 9, 0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("a sequence of slices without the axis is stacked") {
  const OnnxModel m =
      model_of(graph_text("g (float[2,3] x) => (float[3,2] y) { s = SplitToSequence<axis: int = 1, "
                          "keepdims: int = 0>(x)"
                          " y = ConcatFromSequence<axis: int = 0, new_axis: int = 1>(s) }"));
  CHECK(values(run(m, {{"x", doubles({1, 2, 3, 4, 5, 6}, {2, 3})}}).at("y")) ==
        std::vector<double>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("a sequence is no operand of an ordinary operator") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x) => (float[2] y) { s = SequenceConstruct(x, x) y = Neg(s) }"));
  CHECK_THAT(only_problem(m, {{"x", doubles({1, 2}, {2})}}).reason, ContainsSubstring("sequence"));
}

TEST_CASE("a position outside a sequence is refused") {
  const OnnxModel m = model_of(
      graph_text("g (float[2] x) => (float[2] y) <int64 at = {2}> { s = SequenceConstruct(x, x)"
                 " y = SequenceAt(s, at) }"));
  CHECK_THAT(only_problem(m, {{"x", doubles({1, 2}, {2})}}).reason,
             ContainsSubstring("outside a sequence of 2"));
}

}  // namespace
}  // namespace trainrt
