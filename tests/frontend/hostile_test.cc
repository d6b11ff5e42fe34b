// Files that were made, or damaged, to do harm: an error each, and quickly.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "onnx/onnx_pb.h"
#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string good() {
  return model_bytes(
      graph_text("g (float[n,2] x) => (float[n,3] y) <float[2,3] w = {1,2,3,4,5,6}, float[3] b ="
                 " {1,2,3}> { a = MatMul(x, w) c = Constant<value_ints: ints = [-1, 3]>()"
                 " d = Add(a, b) y = Reshape(d, c) }"));
}

/// Loads and specializes; any Error is fine, anything else is not.
void survive(const std::string& bytes) {
  try {
    const OnnxModel m = load_bytes(bytes);
    m.text();
    Tensors inputs;
    for (const Port& p : m.inputs()) {
      Shape shape;
      for (const Dim& d : p.dims) shape.push_back(d.size >= 0 ? std::min<int64_t>(d.size, 9) : 2);
      inputs[p.name] = Tensor(p.dtype, shape);
    }
    lower(m, inputs);
  } catch (const Error& e) {
    CHECK(e.code() != ErrorCode::kInternal);
  }
}

TEST_CASE("a truncated file is refused at every length") {
  const std::string bytes = good();
  for (size_t n = 0; n < bytes.size(); ++n) survive(bytes.substr(0, n));
  CHECK_THAT(load_error(bytes.substr(0, bytes.size() / 2)), ContainsSubstring("not an ONNX model"));
  CHECK_THAT(load_error(""), ContainsSubstring("not an ONNX model"));
  CHECK_THAT(load_error("just text"), ContainsSubstring("not an ONNX model"));
}

TEST_CASE("no changed byte crashes") {
  const std::string bytes = good();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (char c : {'\0', '\xFF', '\x80', '\x01', '\x7F'}) {
      std::string changed = bytes;
      changed[i] = c;
      survive(changed);
    }
  }
}

TEST_CASE("no repeated or missing piece crashes") {
  const std::string bytes = good();
  for (size_t i = 0; i + 8 < bytes.size(); i += 3) {
    survive(bytes.substr(0, i) + bytes.substr(i + 7));
    survive(bytes.substr(0, i + 8) + bytes.substr(i));
  }
}

TEST_CASE("dims that overflow are refused before memory is asked for") {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(good()));
  onnx::TensorProto* t = m.mutable_graph()->mutable_initializer(0);
  const std::vector<Shape> shapes = {{int64_t{1} << 62, 4},
                                     {int64_t{1} << 40},
                                     {-1, 6},
                                     {int64_t{1} << 32, int64_t{1} << 32},
                                     {std::numeric_limits<int64_t>::min()},
                                     {std::numeric_limits<int64_t>::max()},
                                     {0, std::numeric_limits<int64_t>::max(), 3}};
  for (const Shape& shape : shapes) {
    t->clear_dims();
    for (int64_t d : shape) t->add_dims(d);
    INFO(to_string(shape));
    CHECK_THAT(load_error(m.SerializeAsString()), ContainsSubstring("tensor 'w'"));
  }
}

TEST_CASE("unknown element types are refused") {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(good()));
  for (int type : {0, -1, 99}) {
    m.mutable_graph()->mutable_initializer(0)->set_data_type(type);
    CHECK_THAT(load_error(m.SerializeAsString()), ContainsSubstring("unknown element type"));
  }
}

std::string nested(int depth) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(
      model_bytes(graph_text("g (bool c, float[1] x) => (float[1] y) { y = Neg(x) }"))));
  onnx::GraphProto* g = m.mutable_graph();
  for (int i = 0; i < depth; ++i) {
    onnx::NodeProto* n = g->mutable_node(0);
    n->set_op_type("If");
    n->set_input(0, "c");
    onnx::GraphProto* branches[2];
    const char* names[] = {"then_branch", "else_branch"};
    for (int k = 0; k < 2; ++k) {
      onnx::AttributeProto* a = n->add_attribute();
      a->set_name(names[k]);
      a->set_type(onnx::AttributeProto::GRAPH);
      branches[k] = a->mutable_g();
      onnx::NodeProto* inner = branches[k]->add_node();
      inner->set_op_type("Neg");
      inner->add_input("x");
      inner->add_output("y" + std::to_string(i));
      branches[k]->add_output()->set_name("y" + std::to_string(i));
    }
    g = branches[0];
  }
  return m.SerializeAsString();
}

TEST_CASE("subgraphs nest, within bounds") {
  const OnnxModel m = load_bytes(nested(60));
  const Tensor x = doubles({3}, {1}), c = Tensor::scalar<bool>(true);
  CHECK(run(m, {{"x", x}}, {{"c", c}}).at("y").item() == -3);
  CHECK(load_error(nested(66)) != "");
  CHECK(load_error(nested(3000)) != "");
}

TEST_CASE("types nested endlessly are refused") {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(good()));
  onnx::TypeProto* t = m.mutable_graph()->mutable_input(0)->mutable_type();
  for (int i = 0; i < 5000; ++i) t = t->mutable_sequence_type()->mutable_elem_type();
  CHECK_THAT(load_error(m.SerializeAsString()), ContainsSubstring("not an ONNX model"));
}

TEST_CASE("names with endless paths belong to the root") {
  std::string dots, slashes = "/";
  for (int i = 0; i < 300000; ++i) {
    dots += "a.";
    slashes += "a/";
  }
  onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(good()));
  onnx::GraphProto& graph = *proto.mutable_graph();
  graph.mutable_initializer(0)->set_name(dots + "w");
  graph.mutable_node(0)->set_input(1, dots + "w");
  graph.mutable_node(0)->set_name(slashes + "MatMul");
  graph.mutable_node(2)->set_name("/b/Add");
  const OnnxModel m = load_bytes(proto.SerializeAsString());
  REQUIRE(m.modules().size() == 2);
  CHECK(m.modules()[1].path == "b");
  CHECK(m.parameters()[0].module.empty());
}

TEST_CASE("a loop with an absurd trip count is refused") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[1] y) <int64 n = {1000000000000}>"
      "{ y = Loop (n, , x) <body = b (int64 i, bool k, float[1] p) => (bool k2, float[1] p2)"
      " { k2 = Identity(k) p2 = Identity(p) }> }"));
  CHECK(only_problem(m, {{"x", doubles({1}, {1})}}).kind == "dynamic");
}

TEST_CASE("loops in loops come to an end") {
  const OnnxModel m = model_of(graph_text(
      "g (float[1] x) => (float[1] y) <int64 n = {90000}>"
      "{ y = Loop (n, , x) <body = b (int64 i, bool k, float[1] p) => (bool k2, float[1] p2)"
      " { k2 = Identity(k) p2 = Loop (n, , p) <body = b2 (int64 i2, bool l, float[1] q) =>"
      " (bool l2, float[1] q2) { l2 = Identity(l) q2 = Identity(q) }> }> }"));
  const Lowered lowered = lower(m, {{"x", doubles({1}, {1})}});
  REQUIRE_FALSE(lowered.problems.empty());
  CHECK(lowered.problems[0].kind == "memory");
}

TEST_CASE("attributes of the wrong kind are refused") {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(
      model_bytes(graph_text("g (bool c, float[1] x) => (float[1] y) { y = LeakyRelu(x) }"))));
  onnx::AttributeProto* a = m.mutable_graph()->mutable_node(0)->add_attribute();
  a->set_name("alpha");
  a->set_type(onnx::AttributeProto::STRING);
  const OnnxModel model = load_bytes(m.SerializeAsString());
  const Lowered lowered =
      lower(model, {{"x", doubles({1}, {1})}, {"c", Tensor::scalar<bool>(true)}});
  REQUIRE(lowered.problems.size() == 1);
  CHECK_THAT(lowered.problems[0].reason, ContainsSubstring("alpha"));
}

TEST_CASE("control flow without its graphs is refused") {
  for (const char* op : {"If", "Loop", "Scan"}) {
    onnx::ModelProto m;
    REQUIRE(m.ParseFromString(
        model_bytes(graph_text("g (int64 n, float[1] x) => (float[1] y) { y = Neg(x) }"))));
    m.mutable_graph()->mutable_node(0)->set_op_type(op);
    m.mutable_graph()->mutable_node(0)->set_input(0, "n");
    survive(m.SerializeAsString());
  }
}

}  // namespace
}  // namespace trainrt
