// Tensors of every element type, in every field, inside and outside the file.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

#include "onnx/onnx_pb.h"
#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A model that holds one initializer "w" and gives back its input.
onnx::ModelProto holder(int type, const Shape& shape) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(model_bytes(graph_text("g (float[1] x) => (float[1] x) {}"))));
  onnx::TensorProto* t = m.mutable_graph()->add_initializer();
  t->set_name("w");
  t->set_data_type(type);
  for (int64_t d : shape) t->add_dims(d);
  return m;
}
onnx::TensorProto* tensor(onnx::ModelProto& m) { return m.mutable_graph()->mutable_initializer(0); }

Tensor loaded(const onnx::ModelProto& m, const std::string& folder = ".") {
  return load_bytes(m.SerializeAsString(), folder).weight("w");
}

/// Integers of a type, from raw bytes and from the typed field.
template <typename T>
void check_integers(int type, void (*add)(onnx::TensorProto*, T)) {
  const std::vector<T> values = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::max()};
  onnx::ModelProto raw = holder(type, {2, 2}), typed = raw;
  tensor(raw)->set_raw_data(values.data(), values.size() * sizeof(T));
  for (T v : values) add(tensor(typed), v);
  for (const onnx::ModelProto& m : {raw, typed}) {
    const Tensor t = loaded(m);
    REQUIRE(t.dtype() == dtype_of<T>);
    REQUIRE(t.shape() == Shape{2, 2});
    for (size_t i = 0; i < values.size(); ++i) CHECK(t.data<T>()[i] == values[i]);
  }
}

TEST_CASE("integers of all widths") {
  using P = onnx::TensorProto;
  check_integers<int8_t>(P::INT8, [](P* t, int8_t v) { t->add_int32_data(v); });
  check_integers<uint8_t>(P::UINT8, [](P* t, uint8_t v) { t->add_int32_data(v); });
  check_integers<int16_t>(P::INT16, [](P* t, int16_t v) { t->add_int32_data(v); });
  check_integers<uint16_t>(P::UINT16, [](P* t, uint16_t v) { t->add_int32_data(v); });
  check_integers<int32_t>(P::INT32, [](P* t, int32_t v) { t->add_int32_data(v); });
  check_integers<uint32_t>(P::UINT32, [](P* t, uint32_t v) { t->add_uint64_data(v); });
  check_integers<int64_t>(P::INT64, [](P* t, int64_t v) { t->add_int64_data(v); });
  check_integers<uint64_t>(P::UINT64, [](P* t, uint64_t v) { t->add_uint64_data(v); });
}

TEST_CASE("float and double, raw and typed") {
  onnx::ModelProto m = holder(onnx::TensorProto::FLOAT, {2});
  tensor(m)->add_float_data(1.5f);
  tensor(m)->add_float_data(-2);
  CHECK(loaded(m).data<float>()[0] == 1.5f);
  m = holder(onnx::TensorProto::DOUBLE, {1});
  const double v = 0.1;
  tensor(m)->set_raw_data(&v, sizeof v);
  CHECK(loaded(m).data<double>()[0] == 0.1);
  m = holder(onnx::TensorProto::DOUBLE, {1});
  tensor(m)->add_double_data(0.1);
  CHECK(loaded(m).data<double>()[0] == 0.1);
}

TEST_CASE("half-width floats stay as stored") {
  onnx::ModelProto m = holder(onnx::TensorProto::FLOAT16, {2});
  tensor(m)->add_int32_data(0x3C00);
  tensor(m)->add_int32_data(0xC000);
  Tensor t = loaded(m);
  CHECK(t.dtype() == DType::kFloat16);
  CHECK(t.to(DType::kFloat32).data<float>()[1] == -2);
  m = holder(onnx::TensorProto::BFLOAT16, {1});
  tensor(m)->set_raw_data(std::string("\xC0\x3F", 2));
  t = loaded(m);
  CHECK(t.dtype() == DType::kBFloat16);
  CHECK(t.to(DType::kFloat32).data<float>()[0] == 1.5f);
}

TEST_CASE("any non-zero byte is true") {
  onnx::ModelProto m = holder(onnx::TensorProto::BOOL, {3});
  tensor(m)->set_raw_data(std::string("\0\1\7", 3));
  CHECK(loaded(m).to_ints() == std::vector<int64_t>{0, 1, 1});
}

TEST_CASE("4-bit integers are widened") {
  onnx::ModelProto m = holder(22, {3});  // int4
  tensor(m)->set_raw_data(std::string("\x7F\x08", 2));
  Tensor t = loaded(m);
  CHECK(t.dtype() == DType::kInt8);
  CHECK(t.to_ints() == std::vector<int64_t>{-1, 7, -8});
  m = holder(21, {3});  // uint4
  tensor(m)->add_int32_data(0x7F);
  tensor(m)->add_int32_data(0x08);
  t = loaded(m);
  CHECK(t.to_ints() == std::vector<int64_t>{15, 7, 8});
}

TEST_CASE("8-bit floats are widened") {
  struct Case {
    int type;
    unsigned char bits;
    float value;
  };
  const Case cases[] = {{17, 0x38, 1.0f},     {17, 0x7E, 448.0f}, {17, 0x01, 0x1p-9f},
                        {18, 0x40, 1.0f},     {19, 0x3C, 1.0f},   {19, 0xFB, -57344.0f},
                        {19, 0x7C, INFINITY}, {20, 0x40, 1.0f},   {24, 0x7F, 1.0f},
                        {24, 0x80, 2.0f}};
  for (const Case& c : cases) {
    onnx::ModelProto m = holder(c.type, {1});
    tensor(m)->set_raw_data(&c.bits, 1);
    CHECK(loaded(m).data<float>()[0] == c.value);
  }
  onnx::ModelProto m = holder(17, {1});
  tensor(m)->set_raw_data(std::string("\x7F", 1));
  CHECK(std::isnan(loaded(m).data<float>()[0]));
  m = holder(23, {2});  // float4e2m1
  tensor(m)->set_raw_data(std::string("\xF2", 1));
  CHECK(loaded(m).data<float>()[0] == 1.0f);
  CHECK(loaded(m).data<float>()[1] == -6.0f);
}

TEST_CASE("widened types are constants, not parameters") {
  onnx::ModelProto m = holder(17, {2});
  tensor(m)->set_raw_data(std::string("\x38\x38", 2));
  const OnnxModel model = load_bytes(m.SerializeAsString());
  CHECK(model.parameters().empty());
  CHECK(model.other_weights().empty());
}

TEST_CASE("a tensor without elements needs no bytes") {
  const Tensor t = loaded(holder(onnx::TensorProto::FLOAT, {0, 5}));
  CHECK(t.shape() == Shape{0, 5});
}

TEST_CASE("too few and too many values are refused with the tensor's name") {
  onnx::ModelProto m = holder(onnx::TensorProto::FLOAT, {3});
  CHECK_THAT(load_error(m.SerializeAsString()), ContainsSubstring("tensor 'w': shape [3]"));
  tensor(m)->set_raw_data(std::string(8, '\0'));
  CHECK_THAT(load_error(m.SerializeAsString()), ContainsSubstring("needs 12 bytes, found 8"));
  tensor(m)->clear_raw_data();
  for (int i = 0; i < 4; ++i) tensor(m)->add_float_data(0);
  CHECK_THAT(load_error(m.SerializeAsString()), ContainsSubstring("needs 3 values in float_data"));
}

onnx::ModelProto external(const std::string& location, const char* offset, const char* length) {
  onnx::ModelProto m = holder(onnx::TensorProto::FLOAT, {2});
  onnx::TensorProto* t = tensor(m);
  t->set_data_location(onnx::TensorProto::EXTERNAL);
  auto add = [&](const char* key, const std::string& value) {
    onnx::StringStringEntryProto* e = t->add_external_data();
    e->set_key(key);
    e->set_value(value);
  };
  add("location", location);
  if (offset != nullptr) add("offset", offset);
  if (length != nullptr) add("length", length);
  return m;
}

std::string external_error(const onnx::ModelProto& m, const std::string& folder) {
  try {
    load_bytes(m.SerializeAsString(), folder);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("external data is read at its offset") {
  TemporaryFolder folder;
  const float values[] = {9, 9, 1.5f, -2};
  write_file(folder.file("w.bin"), std::string(reinterpret_cast<const char*>(values), 16));
  CHECK(loaded(external("w.bin", "8", "8"), folder.path()).data<float>()[1] == -2);
  CHECK(loaded(external("./w.bin", nullptr, nullptr), folder.path()).data<float>()[0] == 9);
}

TEST_CASE("external data is found beside the model's file") {
  TemporaryFolder folder;
  const float values[] = {3, 4};
  write_file(folder.file("w.bin"), std::string(reinterpret_cast<const char*>(values), 8));
  write_file(folder.file("m.onnx"), external("w.bin", "0", "8").SerializeAsString());
  CHECK(OnnxModel::load(folder.file("m.onnx")).weight("w").data<float>()[1] == 4);
}

TEST_CASE("external data outside the file's bounds is refused") {
  TemporaryFolder folder;
  write_file(folder.file("w.bin"), std::string(16, '\0'));
  CHECK_THAT(external_error(external("w.bin", "12", nullptr), folder.path()),
             ContainsSubstring("which has 16"));
  CHECK_THAT(external_error(external("w.bin", "18446744073709551608", "8"), folder.path()),
             ContainsSubstring("bad offset"));
  CHECK_THAT(external_error(external("w.bin", "-4", "8"), folder.path()),
             ContainsSubstring("bad offset"));
  CHECK_THAT(external_error(external("w.bin", "0", "12"), folder.path()),
             ContainsSubstring("'length' says 12"));
  CHECK_THAT(external_error(external("none.bin", "0", "8"), folder.path()),
             ContainsSubstring("no such file"));
}

TEST_CASE("external data never leaves the model's folder") {
  TemporaryFolder outer;
  REQUIRE(mkdir(outer.file("model").c_str(), 0700) == 0);
  REQUIRE(mkdir(outer.file("model2").c_str(), 0700) == 0);
  write_file(outer.file("secret"), std::string(16, 's'));
  write_file(outer.file("model2/secret"), std::string(16, 's'));
  write_file(outer.file("model/w.bin"), std::string(16, '\0'));
  REQUIRE(symlink("../secret", outer.file("model/link").c_str()) == 0);
  REQUIRE(symlink("..", outer.file("model/up").c_str()) == 0);
  const std::string folder = outer.file("model");
  for (const std::string location : {"../secret", "x/../../secret", "link", "up/secret",
                                     "../model2/secret", "..", ".", "", "up/model/../secret"}) {
    INFO(location);
    CHECK(external_error(external(location, "0", "8"), folder) != "");
  }
  CHECK_THAT(external_error(external("../secret", "0", "8"), folder),
             ContainsSubstring("outside the model's folder"));
  CHECK_THAT(external_error(external("link", "0", "8"), folder),
             ContainsSubstring("outside the model's folder"));
  CHECK_THAT(external_error(external(outer.file("secret"), "0", "8"), folder),
             ContainsSubstring("relative"));
  CHECK_THAT(external_error(external(std::string("w.bin\0x", 7), "0", "8"), folder),
             ContainsSubstring("relative"));
}

TEST_CASE("external data from pipes and devices is refused") {
  TemporaryFolder folder;
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK_THAT(external_error(external("pipe", "0", "8"), folder.path()),
             ContainsSubstring("no such file"));
}

TEST_CASE("many tensors over the same bytes cannot ask for endless memory") {
  TemporaryFolder folder;
  write_file(folder.file("w.bin"), std::string(8, '\0'));
  onnx::ModelProto m = external("w.bin", "0", "8");
  for (int i = 0; i < 50; ++i) {
    *m.mutable_graph()->add_initializer() = m.graph().initializer(0);
    m.mutable_graph()->mutable_initializer(i + 1)->set_name("w" + std::to_string(i));
  }
  CHECK_THAT(external_error(m, folder.path()), ContainsSubstring("overlap"));
}

}  // namespace
}  // namespace trainrt
