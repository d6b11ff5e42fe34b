// Element types narrower than any DType: read, computed with, written back.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "onnx/onnx_pb.h"
#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

// TensorProto.DataType
constexpr int kE4M3FN = 17, kE5M2 = 19, kInt4 = 22;

onnx::ModelProto proto_of(const std::string& graph) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(model_bytes(graph_text(graph, 21))));
  return m;
}

onnx::TensorProto* add_initializer(onnx::ModelProto& m, const char* name, int type,
                                   const Shape& shape, const std::string& raw) {
  onnx::TensorProto* t = m.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (int64_t d : shape) t->add_dims(d);
  t->set_raw_data(raw);
  return t;
}

void check_equal(const Tensor& given, std::initializer_list<double> expected) {
  REQUIRE(given.size() == static_cast<int64_t>(expected.size()));
  const Tensor wide = given.to(DType::kFloat64);
  size_t i = 0;
  for (double e : expected) CHECK(wide.data<double>()[i++] == e);
}

TEST_CASE("a zero point of float8 says what is quantized to") {
  onnx::ModelProto m = proto_of(
      "g (float[4] x) => (float[4] y) <float s = {1}>"
      "{ q = QuantizeLinear(x, s, z) r = Reshape(q, k) c = CastLike(x, r)"
      "  d = DequantizeLinear(r, s, z) y = Add(c, d) }");
  add_initializer(m, "z", kE4M3FN, {}, std::string(1, '\0'));
  add_initializer(m, "k", 7, {1}, std::string("\x04\0\0\0\0\0\0\0", 8));
  const OnnxModel model = load_bytes(m.SerializeAsString());
  // The nearest values of the type, twice: once by each way.
  check_equal(run(model, {{"x", doubles({0.3, 5.4, -100, 1e6}, {4})}}).at("y"),
              {0.625, 11, -192, 896});
}

TEST_CASE("weights of four bits and of eight are constants") {
  onnx::ModelProto m = proto_of(
      "g (float[2] x) => (float[2] y) <float s = {0.5}>"
      "{ a = DequantizeLinear(w, s) b = Cast<to = 1>(v) c = Mul(x, a) y = Add(c, b) }");
  add_initializer(m, "w", kInt4, {2}, std::string("\x7F", 1));      // -1, 7
  add_initializer(m, "v", kE5M2, {2}, std::string("\x3C\xC1", 2));  // 1, -2.5
  const OnnxModel model = load_bytes(m.SerializeAsString());
  CHECK(model.parameters().empty());
  check_equal(run(model, {{"x", doubles({2, 4}, {2})}}).at("y"), {0, 11.5});
}

TEST_CASE("a Cast to four bits ends the search for parameters, to eight it does not") {
  const auto parameters = [](int type) {
    return load_bytes(proto_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>"
                               "{ a = Cast<to = " +
                               std::to_string(type) + ">(w) b = Cast<to = 1>(a) y = Mul(x, b) }")
                          .SerializeAsString())
        .parameters()
        .size();
  };
  CHECK(parameters(kE4M3FN) == 1);
  CHECK(parameters(kInt4) == 0);
}

TEST_CASE("what stands behind quantization is found as a parameter, its scale is not") {
  const OnnxModel model = load_bytes(
      proto_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] s = {1, 2}>"
               "{ a = QuantizeLinear<axis = 0>(w, s) b = DequantizeLinear<axis = 0>(a, s)"
               "  y = Mul(x, b) }")
          .SerializeAsString());
  REQUIRE(model.parameters().size() == 1);
  CHECK(model.parameters()[0].name == "w");
}

TEST_CASE("narrow weights are written back as they were, inside and outside the file") {
  TemporaryFolder folder;
  for (bool external : {false, true}) {
    onnx::ModelProto m = proto_of(
        "g (float[3] x) => (float[3] y) <float s = {1}, float[3] b = {1, 2, 3}>"
        "{ a = DequantizeLinear(w, s) c = Mul(x, a) y = Add(c, b) }");
    const std::string raw("\x7F\x02", 2);  // -1, 7, 2
    onnx::TensorProto* t = add_initializer(m, "w", kInt4, {3}, raw);
    if (external) {
      t->clear_raw_data();
      t->set_data_location(onnx::TensorProto::EXTERNAL);
      onnx::StringStringEntryProto* e = t->add_external_data();
      e->set_key("location");
      e->set_value("weights.bin");
      write_file(folder.file("weights.bin"), raw);
    }
    write_file(folder.file("in.onnx"), m.SerializeAsString());
    const std::string out = folder.file("out.onnx");
    OnnxModel::load(folder.file("in.onnx")).save(out, {{"b", doubles({4, 5, 6}, {3})}});
    std::filesystem::remove(folder.file("weights.bin"));
    const OnnxModel again = OnnxModel::load(out);
    check_equal(again.weight("w"), {-1, 7, 2});
    check_equal(run(again, {{"x", doubles({1, 1, 1}, {3})}}).at("y"), {3, 12, 8});
    onnx::ModelProto written;
    REQUIRE(written.ParseFromString(TemporaryFolder::read(out)));
    const onnx::TensorProto& w = written.graph().initializer(2);
    CHECK(w.data_type() == kInt4);
    CHECK((external ? TemporaryFolder::read(out + ".data") : w.raw_data()) == raw);
  }
}

}  // namespace
}  // namespace trainrt
