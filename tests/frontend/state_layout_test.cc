// Where a framework's tensors lie in a file's weights.
#include "frontend/state_layout.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "onnx/onnx_pb.h"
#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

using Metadata = std::vector<std::pair<std::string, std::string>>;  // of value or node: text

void add(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>* to,
         const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto* p = to->Add();
  p->set_key(key);
  p->set_value(value);
}

/// As PyTorch's exporters write it: with a signature, what weights were folded from, scopes by
/// node.
OnnxModel torch_model(const std::string& graph, const std::string& signature = "",
                      const Metadata& folded_from = {}, const Metadata& scopes = {},
                      const std::vector<std::string>& unchanged = {}) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(model_bytes(graph_text(graph))));
  model.set_producer_name("pytorch");
  onnx::GraphProto* g = model.mutable_graph();
  if (!signature.empty()) {
    add(g->mutable_metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature", signature);
  }
  for (const auto& [value, text] : folded_from) {
    onnx::ValueInfoProto* info = g->add_value_info();
    info->set_name(value);
    add(info->mutable_metadata_props(), "pkg.onnxscript.optimizer.folded_from", text);
  }
  for (const std::string& value : unchanged) {
    onnx::ValueInfoProto* info = g->add_value_info();
    info->set_name(value);
    add(info->mutable_metadata_props(), "pkg.torch.export.graph_signature.InputSpec.kind",
        "PARAMETER");
  }
  for (const auto& [node, text] : scopes) {
    for (onnx::NodeProto& n : *g->mutable_node()) {
      if (n.name() == node) add(n.mutable_metadata_props(), "pkg.torch.onnx.name_scopes", text);
    }
  }
  return load_bytes(model.SerializeAsString());
}

/// "key[shape] in weight", with "'" for a transposed one.
std::vector<std::string> entries(const OnnxModel& m) {
  std::vector<std::string> texts;
  for (const StateEntry& e : m.state_layout().entries) {
    texts.push_back(e.key + to_string(e.shape) + " in " + e.weight + (e.transposed ? "'" : ""));
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

using Texts = std::vector<std::string>;

std::string reason(const OnnxModel& m, const std::string& weight) {
  const auto it = m.state_layout().refused.find(weight);
  return it == m.state_layout().refused.end() ? "" : it->second;
}

TEST_CASE("weights of other frameworks have the names and the layout of the file") {
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x) => (float[n,2] y) <float[2,2] val_3 = {1,2,3,4}, float[2] b ="
                 " {1,2}> { a = MatMul(x, val_3) y = Add(a, b) }"));
  CHECK(entries(m) == Texts{"b[2] in b", "val_3[2,2] in val_3"});
  CHECK(m.state_layout().refused.empty());
  CHECK(m.state_layout().lost.empty());
}

TEST_CASE("a folded matrix is the module's weight turned round") {
  const OnnxModel m = torch_model(
      "g (float[n,2] x) => (float[n,3] y) <float[2,3] `onnx::MatMul_9` = {1,2,3,4,5,6},"
      " float[3] `fc.bias` = {1,2,3}> { [/fc/MatMul] a = MatMul(x, `onnx::MatMul_9`)"
      " [/fc/Add] y = Add(a, `fc.bias`) }");
  CHECK(entries(m) == Texts{"fc.bias[3] in fc.bias", "fc.weight[3,2] in onnx::MatMul_9'"});
}

TEST_CASE("what a file says a weight was folded from goes before the scope") {
  const std::string graph =
      "g (float[n,2] x) => (float[n,3] y) <float[2,3] val_3 = {1,2,3,4,5,6}>"
      "{ [product] y = MatMul(x, val_3) }";
  const Metadata scopes = {{"product", "['', 'fc', 'linear']"}};
  const OnnxModel m =
      torch_model(graph, "p_fc_w: PARAMETER target='fc.w'\n", {{"val_3", "['fc.w']"}}, scopes);
  CHECK(entries(m) == Texts{"fc.w[3,2] in val_3'"});
  CHECK(m.parameters()[0].original == "fc.w");
  // More than a transpose.
  const OnnxModel scaled =
      torch_model(graph, "p_fc_w: PARAMETER target='fc.w'\np_s: PARAMETER target='fc.s'\n",
                  {{"val_3", "['fc.s', 'fc.w', 'mul']"}}, scopes);
  CHECK(entries(scaled).empty());
  CHECK_THAT(reason(scaled, "val_3"), ContainsSubstring("'fc.s', 'fc.w'"));
  CHECK(scaled.state_layout().lost == Texts{"fc.w", "fc.s"});
  const OnnxModel one = torch_model(graph, "p_fc_w: PARAMETER target='fc.w'\n",
                                    {{"val_3", "['fc.w', 'mul']"}}, scopes);
  CHECK_THAT(reason(one, "val_3"), ContainsSubstring("'fc.w'"));
}

TEST_CASE("a constant that comes from no parameter is none, nor is a buffer") {
  const OnnxModel m = torch_model(
      "g (float[2] x) => (float[2] y) <float[2] where = {1,2}, float[2] pe = {3,4}, float[2] w ="
      " {5,6}> { a = Add(x, where) b = Add(a, pe) y = Mul(b, w) }",
      "p_w: PARAMETER target='w'\nb_pe: BUFFER target='pe' persistent=True\n"
      "b_m: BUFFER target='m' persistent=False\n",
      {{"where", "['arange', 'm', 'val_2']"}}, {}, {"w", "pe"});
  REQUIRE(m.parameters().size() == 1);
  CHECK(m.parameters()[0].name == "w");
  CHECK(entries(m) == Texts{"w[2] in w"});
  CHECK(m.state_layout().lost.empty());
  for (const StateConstant& c : m.state_layout().constants) CHECK(c.in_state == (c.name == "pe"));
}

TEST_CASE("vectors with dims of one are the module's vectors") {
  const OnnxModel m = torch_model(
      "g (float[n,2,4] x) => (float[n,2,4] y) <float[1,2,1] val_1 = {1,2}>"
      "{ y = PRelu(x, val_1) }",
      "p: PARAMETER target='slope.weight'\n", {{"val_1", "['slope.weight', 'val_0']"}});
  CHECK(entries(m) == Texts{"slope.weight[2] in val_1"});
}

TEST_CASE("the scale and shift of a TorchScript GroupNorm have its names") {
  const char* const graph =
      "g (float[2,4,6] x) => (float[2,4,6] y) <float[4,1] `onnx::Mul_5` = {1,2,3,4}, float[4,1]"
      " `onnx::Add_6` = {1,2,3,4}, int64[3] a = {0,2,-1}, int64[3] b = {2,4,6},"
      " float[2] `/n/Constant_output_0` = {1,1}, float[2] `/n/Constant_1_output_0` = {0,0}>"
      "{ [/n/Reshape] r = Reshape(x, a)"
      " [/n/InstanceNormalization] i = InstanceNormalization(r, `/n/Constant_output_0`,"
      " `/n/Constant_1_output_0`)"
      " [/n/Reshape_1] s = Reshape(i, b) [/n/Mul] m = Mul(s, `onnx::Mul_5`)"
      " [/n/Add] y = Add(m, `onnx::Add_6`) }";
  CHECK(entries(torch_model(graph)) ==
        Texts{"n.bias[4] in onnx::Add_6", "n.weight[4] in onnx::Mul_5"});
}

TEST_CASE("a computed weight of a TorchScript convolution is refused") {
  const OnnxModel m = torch_model(
      "g (float[1,1,3] x) => (float[1,1,3] y) <float[1,1,1] `onnx::Conv_5` = {2}, float[2,1,1]"
      " `onnx::Conv_6` = {2, 3}>"
      "{ [/conv/Conv] y = Conv(x, `onnx::Conv_5`) [/up/Conv] z = Conv(y, `onnx::Conv_6`) }");
  CHECK(entries(m).empty());
  const OnnxModel two = torch_model(
      "g (float[1,1,3] x) => (float[1,2,3] y) <float[2,1,1] `onnx::Conv_6` = {2, 3}>"
      "{ [/up/Conv] y = Conv(x, `onnx::Conv_6`) }");
  CHECK_THAT(reason(two, "onnx::Conv_6"), ContainsSubstring("BatchNormalization"));
}

TEST_CASE("a weight that the file does not call unchanged is refused") {
  const OnnxModel m = torch_model(
      "g (float[1,1,3] x) => (float[1,2,3] y) <float[2,1,1] `conv.weight` = {2, 3}, float[2]"
      " `conv.weight_bias` = {1, 2}, float[2,1] `other.weight` = {1, 1}>"
      "{ [conv] a = Conv(x, `conv.weight`, `conv.weight_bias`) y = Mul(a, `other.weight`) }",
      "p: PARAMETER target='conv.weight'\np: PARAMETER target='other.weight'\n"
      "p: PARAMETER target='bn.weight'\nb: BUFFER target='bn.running_mean' persistent=True\n"
      "b: BUFFER target='bn.num_batches_tracked' persistent=True\n",
      {}, {{"conv", "['', 'bn', 'batch_norm']"}}, {"other.weight"});
  CHECK(entries(m) == Texts{"other.weight[2,1] in other.weight"});
  CHECK_THAT(reason(m, "conv.weight"), ContainsSubstring("BatchNormalization"));
  CHECK_THAT(reason(m, "conv.weight_bias"), ContainsSubstring("no such parameter"));
  CHECK(m.state_layout().lost == Texts{"conv.weight", "bn.weight", "bn.running_mean"});
}

TEST_CASE("a tied weight has the names of the modules that read it") {
  const std::string table = "g (int64[n] i) => (float[n,3] y) <float[3,2] `NAME` = {1,2,3,4,5,6}>";
  const std::string body =
      "{ [/wte/Gather] h = Gather(`NAME`, i) [/head/Transpose] t = Transpose(`NAME`)"
      " [/head/MatMul] y = MatMul(h, t) }";
  const auto graph = [&](const std::string& name) {
    std::string text = table + body;
    for (size_t at; (at = text.find("NAME")) != std::string::npos;) text.replace(at, 4, name);
    return text;
  };
  CHECK(entries(torch_model(graph("wte.weight"))) ==
        Texts{"head.weight[3,2] in wte.weight", "wte.weight[3,2] in wte.weight"});
  // The outer module's own parameter, or a submodule's read by the outer one, has one name.
  CHECK(entries(torch_model(graph("table"))) == Texts{"table[3,2] in table"});
  CHECK(entries(torch_model(graph("head.proj.weight"))) ==
        Texts{"head.proj.weight[3,2] in head.proj.weight", "wte.weight[3,2] in head.proj.weight"});
}

TEST_CASE("a module's second call gives no name") {
  CHECK(entries(torch_model(
            "g (float[n,2] x) => (float[n,2] y) <float[2,2] `fc.weight` = {1,2,3,4}>"
            "{ [/fc/Transpose] t = Transpose(`fc.weight`) [/fc/MatMul] a = MatMul(x, t)"
            " [/fc_1/Transpose] u = Transpose(`fc.weight`) [/fc_1/MatMul] y = MatMul(a, u) }")) ==
        Texts{"fc.weight[2,2] in fc.weight"});
}

TEST_CASE("equal weights that the exporter stored once keep both names") {
  CHECK(entries(torch_model(
            "g (float[n,2] x) => (float[n,2] y) <float[2] `a.weight` = {1,1}, float[2] `a.bias` ="
            " {0,0}> { s = Identity(`a.weight`) y0 = Mul(x, `a.weight`) y1 = Mul(y0, s)"
            " y2 = Add(y1, `a.bias`) `b.bias` = Identity(`a.bias`) y = Add(y2, `b.bias`) }")) ==
        Texts{"a.bias[2] in a.bias", "a.weight[2] in a.weight", "b.bias[2] in a.bias",
              "s[2] in a.weight"});
}

TEST_CASE("recurrent layers count by their weights, in forms that PyTorch has") {
  const auto lstm = [](const std::string& attributes) {
    return torch_model(
        "g (float[3,1,2] x) => (float[3,1,1,1] y) <float[1,3,2] `onnx::GRU_1` = {1,2,3,4,5,6},"
        " float[1,3,1] `onnx::GRU_2` = {1,2,3}>"
        "{ [/rnn/GRU] y = GRU<hidden_size = 1" +
        attributes + ">(x, `onnx::GRU_1`, `onnx::GRU_2`) }");
  };
  const OnnxModel m = lstm(", linear_before_reset = 1");
  CHECK(entries(m) ==
        Texts{"rnn.weight_hh_l0[3,1] in onnx::GRU_2", "rnn.weight_ih_l0[3,2] in onnx::GRU_1"});
  CHECK(m.state_layout().entries[0].blocks == std::vector<int64_t>{1, 0, 2});
  CHECK(m.parameters()[0].module == "rnn");
  CHECK(entries(lstm("")).empty());
  CHECK(entries(lstm(", linear_before_reset = 1, direction = \"reverse\"")).empty());
  CHECK_FALSE(reason(lstm(""), "onnx::GRU_1").empty());
}

}  // namespace
}  // namespace trainrt
