// Which values are parameters, and what they are called.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "onnx/onnx_pb.h"
#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;
using Names = std::vector<std::string>;

Names names(const std::vector<WeightInfo>& weights) {
  Names result;
  for (const WeightInfo& w : weights) result.push_back(w.name);
  return result;
}

Names parameters(const std::string& graph, int opset = 17) {
  return names(model_of(graph_text(graph, opset)).parameters());
}

std::string reason(const OnnxModel& m, const std::string& name) {
  for (const auto* list : {&m.parameters(), &m.buffers(), &m.other_weights()}) {
    for (const WeightInfo& w : *list) {
      if (w.name == name) return w.reason;
    }
  }
  return "";
}

TEST_CASE("float initializers of rank 1 or more are parameters") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1,2,3,4}, float[1] b = {1},"
                 " float s = {2}, int64[2] shape = {-1, 2}>"
                 "{ a = MatMul(x, w) c = Add(a, b) d = Mul(c, s) y = Reshape(d, shape) }"));
  CHECK(names(m.parameters()) == Names{"w", "b"});
  CHECK_THAT(reason(m, "w"), ContainsSubstring("read by MatMul"));
  CHECK(m.other_weights().empty());
}

TEST_CASE("initializers that are inputs as well are weights") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x, float[2] w = {3, 4}) => (float[n,2] y) { y = Mul(x, w) }"));
  REQUIRE(m.inputs().size() == 1);
  CHECK(names(m.parameters()) == Names{"w"});
}

TEST_CASE("a Constant node of several floats is a parameter, of one it is not") {
  CHECK(parameters("g (float[2] x) => (float[2] y) { a = Constant<value = float[2] {1, 2}>()"
                   " b = Constant<value = float[1] {1}>() c = Constant<value_floats: floats ="
                   " [1.0, 2.0]>() d = Mul(x, a) e = Mul(d, b) y = Mul(e, c) }") ==
        Names{"a", "c"});
}

TEST_CASE("made-up names of constants are told from those of weights") {
  const std::string head =
      "g (float[2] x) => (float[2] y) <float[2] `onnx::Mul_7` = {1, 2},"
      " float[1] `val_12` = {1}, float[1] slope = {1}>";
  CHECK(parameters(head + "{ `/a/Constant_4_output_0` = Constant<value = float[2] {1, 2}>()"
                          " b = Mul(x, `onnx::Mul_7`) c = Mul(b, `val_12`)"
                          " d = Mul(c, `/a/Constant_4_output_0`) y = PRelu(d, slope) }") ==
        Names{"onnx::Mul_7", "slope"});
}

TEST_CASE("weights without a differentiable path are none") {
  const OnnxModel m = model_of(graph_text(
      "g (float[2] x) => (float[2] y, bool[2] z) <float[2] used = {1,2}, float[2] compared = {1,2},"
      " float[2] dead = {1,2}, float[2] rounded = {1, 2}>"
      "{ y0 = Mul(x, used) z = Less(x, compared) d = Mul(x, dead)"
      " i = Cast<to: int = 7>(rounded) f = Cast<to: int = 1>(i) y = Add(y0, f) }"));
  CHECK(names(m.parameters()) == Names{"used"});
  CHECK_THAT(reason(m, "compared"), ContainsSubstring("no differentiable path"));
  CHECK_THAT(reason(m, "dead"), ContainsSubstring("no node"));
  CHECK(names(m.other_weights()) == Names{"compared", "dead", "rounded"});
}

TEST_CASE("running statistics are buffers, also behind Identity") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2,3] x) => (float[n,2,3] y) <float[2] s = {1,1}, float[2] b = {0,0},"
                 " float[2] mean = {0,0}, float[2] var = {1,1}>"
                 "{ m2 = Identity(mean) s2 = Identity(s)"
                 " a = BatchNormalization(x, s, b, mean, var)"
                 " y = BatchNormalization(a, s2, b, m2, var) }"));
  CHECK(names(m.parameters()) == Names{"s", "b"});
  CHECK(names(m.buffers()) == Names{"mean", "var", "m2"});
  CHECK_THAT(reason(m, "m2"), ContainsSubstring("running mean"));
  CHECK_THAT(reason(m, "var"), ContainsSubstring("running variance"));
}

TEST_CASE("bounds, pad values and scales are no parameters") {
  CHECK(parameters("g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[1] low = {0.0}, float[4]"
                   " scales = {1,1,2,2}>"
                   "{ a = Clip(x, low) y = Resize(a, , scales) }")
            .empty());
}

TEST_CASE("paths lead through loops, scans and branches") {
  CHECK(
      parameters("g (int64 n, bool c, float[2] x) => (float[2] y) <float[2] w = {1,2}, float[2] v0 "
                 "= {1,2},"
                 " float[2] only_else = {1,2}>"
                 "{ r, s = Loop (n, , x, v0) <body = b (int64 i, bool k, float[2] p, float[2] q) =>"
                 " (bool k2, float[2] p2, float[2] q2) { k2 = Identity(k) p2 = Mul(p, q)"
                 " q2 = Mul(q, w) }>"
                 " y = If (c) <then_branch = t () => (float[2] t1) { t1 = Neg(r) },"
                 " else_branch = e () => (float[2] e1) { e1 = Add(r, only_else) }> }") ==
      Names{"w", "v0", "only_else"});
}

TEST_CASE("paths through a scan of opset 8 begin behind the lengths") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1,2,2] x) => (float[1,2] y) <float[1,2] h = {1,2}, float[1,2] u = {3,4}>"
      "{ y, z, s = Scan <num_scan_inputs: int = 1, body = b (float[2] p, float[2] q, float[2] r) =>"
      " (float[2] p2, float[2] q2, float[2] o) { p2 = Add(p, r) q2 = Neg(q) o = Neg(q) }>"
      " (``, h, u, x) }",
      8));
  CHECK(names(m.parameters()) == Names{"h"});
}

TEST_CASE("what a loop carries for nobody is no parameter") {
  CHECK(
      parameters("g (int64 n, float[2] x) => (float[2] y) <float[2] w = {1,2}, float[2] u = {1,2}>"
                 "{ y, s = Loop (n, , x, u) <body = b (int64 i, bool k, float[2] p, float[2] q) =>"
                 " (bool k2, float[2] p2, float[2] q2) { k2 = Identity(k) p2 = Mul(p, w)"
                 " q2 = Mul(q, q) }> }") == Names{"w"});
}

TEST_CASE("names of subgraph weights that recur are numbered") {
  const OnnxModel m = model_of(graph_text(
      "g (bool c, float[2] x) => (float[2] y) {"
      " y = If (c) <then_branch = t () => (float[2] a) <float[2] w = {1,2}> { a = Mul(x, w) },"
      " else_branch = e () => (float[2] b) <float[2] w = {3,4}> { b = Mul(x, w) }> }"));
  CHECK(names(m.parameters()) == Names{"w", "w#2"});
  CHECK(m.weight("w#2").data<float>()[0] == 3);
}

TEST_CASE("a weight behind Identity and Transpose is one") {
  CHECK(parameters("g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1,2,3,4}>"
                   "{ a = Identity(w) b = Transpose(a) y = MatMul(x, b) }") == Names{"w"});
}

TEST_CASE("integer outputs make no parameters") {
  CHECK(parameters("g (float[n,2] x) => (int64[n,1] y) <float[2,2] w = {1,2,3,4}>"
                   "{ a = MatMul(x, w) y = ArgMax(a) }")
            .empty());
}

/// The only parameter of a graph with one made-up weight name.
WeightInfo named(const std::string& graph, const std::string& scopes) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(model_bytes(graph_text(graph))));
  for (auto& node : *model.mutable_graph()->mutable_node()) {
    if (scopes.empty()) continue;
    auto* p = node.add_metadata_props();
    p->set_key("pkg.torch.onnx.name_scopes");
    p->set_value(scopes);
  }
  const OnnxModel m = load_bytes(model.SerializeAsString());
  for (const WeightInfo& w : m.parameters()) {
    if (w.name == "val_3") return w;
  }
  return {};
}

TEST_CASE("the dynamo exporter's scopes give a folded weight its name back") {
  const WeightInfo w = named(
      "g (float[n,2] x) => (float[n,3] y) <float[2,3] val_3 = {1,2,3,4,5,6}>"
      "{ y = MatMul(x, val_3) }",
      "['', 'blocks.0', 'blocks.0.attn', 'linear_1']");
  CHECK(w.original == "blocks.0.attn.weight");
  CHECK(w.transposed);
  CHECK(w.module == "blocks.0.attn");
}

TEST_CASE("without scopes the bias beside it names a weight") {
  const WeightInfo w = named(
      "g (float[n,2] x) => (float[n,3] y) <float[2,3] val_3 = {1,2,3,4,5,6}, float[3] `fc.bias` ="
      " {1,2,3}> { a = MatMul(x, val_3) y = Add(a, `fc.bias`) }",
      "");
  CHECK(w.original == "fc.weight");
  CHECK(w.transposed);
}

TEST_CASE("scopes and the bias beside it name a weight of a module with several") {
  const WeightInfo w = named(
      "g (float[n,2] x) => (float[n,3] y) <float[2,3] val_3 = {1,2,3,4,5,6},"
      " float[3] `l0.attn.in_proj_bias` = {1,2,3}> { a = MatMul(x, val_3)"
      " b = Add(a, `l0.attn.in_proj_bias`) y = Add(b, `l0.attn.in_proj_bias`) }",
      "['', 'l1.attn', 'linear']");
  CHECK(w.original == "l1.attn.in_proj_weight");
}

TEST_CASE("a weight of two modules keeps its made-up name") {
  CHECK(named("g (float[n,2] x) => (float[n,2] y) <float[2,2] val_3 = {1,2,3,4}>"
              "{ [a] a = MatMul(x, val_3) y = MatMul(val_3, a) }",
              "['', 'fc', 'linear']")
            .original == "val_3");
}

TEST_CASE("TorchScript scopes are joined, repeated containers counted once") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x) => (float[n,2] y) <float[2,2] `onnx::MatMul_9` = {1,2,3,4}>"
                 "{ [/3/f/f.0/fc/MatMul] y = MatMul(x, `onnx::MatMul_9`) }"));
  REQUIRE(m.parameters().size() == 1);
  CHECK(m.parameters()[0].original == "3.f.0.fc.weight");
  CHECK(m.parameters()[0].module == "3.f.0.fc");
}

TEST_CASE("real names are kept") {
  const OnnxModel m =
      model_of(graph_text("g (float[n,2] x) => (float[n,2] y) <float[2,2] `net.fc.weight` ="
                          " {1,2,3,4}> { y = Gemm<transB: int = 1>(x, `net.fc.weight`) }"));
  CHECK(m.parameters()[0].original == "net.fc.weight");
  CHECK(m.parameters()[0].module == "net.fc");
  CHECK_FALSE(m.parameters()[0].transposed);
}

TEST_CASE("tf2onnx's names give those of Keras back") {
  auto original = [](const std::string& name) {
    const OnnxModel m =
        model_of(graph_text("g (float[n,2] x) => (float[n,2] y) <float[2,2] `" + name +
                            "` = {1,2,3,4}> { y = MatMul(x, `" + name + "`) }"));
    return m.parameters()[0].original + " in " + m.parameters()[0].module;
  };
  CHECK(original("StatefulPartitionedCall/model/fc/MatMul/ReadVariableOp:0") ==
        "model/fc/kernel in model.fc");
  CHECK(original("model/lstm/lstm_cell/MatMul_1/ReadVariableOp:0") ==
        "model/lstm/lstm_cell/recurrent_kernel in model.lstm.lstm_cell");
  CHECK(original("model/conv1d/kernel:0") == "model/conv1d/kernel in model.conv1d");
  CHECK(original("linear_0.w_0") == "linear_0.w_0 in linear_0");  // Paddle2ONNX keeps Paddle's
}

const char* const kTied =
    "g (int64[n] ids) => (float[n,3] y) <float[3,2] wte = {1,2,3,4,5,6}, float[2,3] val_7 = "
    "{1,3,5,2,4,6}> { h = Gather(wte, ids) y = MatMul(h, val_7) }";

TEST_CASE("a tied weight that the exporter wrote twice is a warning, or one parameter when asked") {
  const std::string bytes = model_bytes(graph_text(kTied));
  const OnnxModel apart = load_bytes(bytes);
  CHECK(apart.parameters().size() == 2);
  REQUIRE(apart.warnings().size() == 1);
  CHECK_THAT(apart.warnings()[0], ContainsSubstring("'wte' and 'val_7'"));

  const OnnxModel one = OnnxModel::from_bytes({bytes.data(), bytes.size()}, ".", {true});
  REQUIRE(one.parameters().size() == 1);
  CHECK(one.parameters()[0].name == "wte");
  CHECK(one.warnings().empty());
  const Tensors inputs = {{"ids", Tensor::of_ints(std::vector<int64_t>{2, 0})}};
  CHECK(max_difference(run(one, inputs).at("y"), run(apart, inputs).at("y")) == 0);

  TemporaryFolder folder;
  one.save(folder / "out.onnx", {{"wte", Tensor::from<float>({6, 5, 4, 3, 2, 1}, {3, 2})}});
  const OnnxModel saved = OnnxModel::load(folder / "out.onnx");
  CHECK(max_difference(saved.weight("val_7").to(DType::kFloat64),
                       doubles({6, 4, 2, 5, 3, 1}, {2, 3})) == 0);
}

TEST_CASE("layers that were cloned are not tied") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x) => (float[n,2] y) <float[2,2] a = {1,2,3,4}, float[2,2] b = "
                 "{1,3,2,4}> { h = MatMul(x, a) y = MatMul(h, b) }"));
  CHECK(m.parameters().size() == 2);
  CHECK(m.warnings().empty());
}

}  // namespace
}  // namespace trainrt
