// Writing the model back.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <memory>

#include "frontend/import.h"
#include "frontend/writer.h"
#include "onnx/onnx_pb.h"
#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

onnx::ModelProto parsed(const std::string& path) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(TemporaryFolder::read(path)));
  return m;
}

const char* const kModel =
    "<ir_version: 8, opset_import: [\"\" : 17], producer_name: \"maker\", doc_string: \"text\">"
    "g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1,2,3,4}, int64[2] s = {-1, 2}>"
    "{ k = Constant<value = float[2] {5, 6}>() f = Constant<value_floats: floats = [7.0, 8.0]>()"
    " [mm] a = MatMul(x, w) b = Mul(a, k) c = Add(b, f) y = Reshape(c, s) }";

TEST_CASE("nothing changes but the weights") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  model_of(kModel).save(path, {{"w", doubles({10, 20, 30, 40}, {2, 2})}});
  const onnx::ModelProto m = parsed(path);
  CHECK(m.producer_name() == "maker");
  CHECK(m.doc_string() == "text");
  CHECK(m.ir_version() == 8);
  CHECK(m.graph().node_size() == 6);
  CHECK(m.graph().node(2).name() == "mm");
  const OnnxModel again = OnnxModel::load(path);
  CHECK(again.weight("w").dtype() == DType::kFloat32);
  CHECK(again.weight("w").data<float>()[3] == 40);
  CHECK(again.weight("k").data<float>()[1] == 6);
  CHECK(again.weight("f").data<float>()[0] == 7);
  CHECK(again.weight("s").to_ints() == std::vector<int64_t>{-1, 2});
}

TEST_CASE("Constant nodes take new values in both spellings") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  model_of(kModel).save(path, {{"k", doubles({-1, -2}, {2})}, {"f", doubles({0.5, 0.25}, {2})}});
  const OnnxModel again = OnnxModel::load(path);
  CHECK(again.weight("k").data<float>()[1] == -2);
  CHECK(again.weight("f").data<float>()[1] == 0.25f);
}

TEST_CASE("a model saves as often as wanted, over itself as well") {
  TemporaryFolder folder;
  const std::string path = folder.file("m.onnx");
  write_file(path, model_bytes(kModel));
  const OnnxModel m = OnnxModel::load(path);
  for (double v : {1.0, 2.0, 3.0}) {
    m.save(path, {{"w", doubles({v, v, v, v}, {2, 2})}});
    CHECK(OnnxModel::load(path).weight("w").data<float>()[0] == static_cast<float>(v));
  }
  CHECK(m.weight("w").data<float>()[3] == 4);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()),
                      std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("weights of subgraphs and functions are written in their places") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  const OnnxModel m = model_of(
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>"
      "g (bool c, float[2] x) => (float[2] y) { z = local.F(x)"
      " y = If (c) <then_branch = t () => (float[2] a) <float[2] w = {1,2}> { a = Mul(z, w) },"
      " else_branch = e () => (float[2] b) <float[2] w = {3,4}> { b = Mul(z, w) }> }"
      "<domain: \"local\", opset_import: [\"\" : 17]>"
      "F (v) => (q) { k = Constant<value = float[2] {5, 6}>() q = Add(v, k) }");
  m.save(path, {{"w#2", doubles({30, 40}, {2})}, {"k", doubles({50, 60}, {2})}});
  const OnnxModel again = OnnxModel::load(path);
  CHECK(again.weight("w").data<float>()[0] == 1);
  CHECK(again.weight("w#2").data<float>()[0] == 30);
  CHECK(again.weight("k").data<float>()[1] == 60);
}

TEST_CASE("stored types are kept") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(model_bytes(
      graph_text("g (float[2] x) => (float[2] y) <double[2] d = {1,2}> { y = Mul(x, d) }"))));
  for (int type : {10, 16}) {
    onnx::TensorProto* t = p.mutable_graph()->add_initializer();
    t->set_name("h" + std::to_string(type));
    t->set_data_type(type);
    t->add_dims(2);
    t->set_raw_data(std::string(4, '\0'));
  }
  load_bytes(p.SerializeAsString())
      .save(path, {{"d", doubles({0.1, 0.2}, {2})},
                   {"h10", doubles({1.5, -2}, {2})},
                   {"h16", doubles({1.5, -2}, {2})}});
  const OnnxModel again = OnnxModel::load(path);
  CHECK(again.weight("d").data<double>()[0] == 0.1);
  CHECK(again.weight("h10").dtype() == DType::kFloat16);
  CHECK(again.weight("h10").to(DType::kFloat32).data<float>()[1] == -2);
  CHECK(again.weight("h16").dtype() == DType::kBFloat16);
  CHECK(again.weight("h16").to(DType::kFloat32).data<float>()[0] == 1.5f);
}

TEST_CASE("external data stays external, in a file named after the new model") {
  TemporaryFolder folder;
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(model_bytes(kModel)));
  onnx::TensorProto* t = p.mutable_graph()->mutable_initializer(0);
  t->clear_float_data();
  t->clear_raw_data();
  t->set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto* e = t->add_external_data();
  e->set_key("location");
  e->set_value("old.bin");
  const float old[] = {1, 2, 3, 4};
  write_file(folder.file("old.bin"), std::string(reinterpret_cast<const char*>(old), 16));
  write_file(folder.file("in.onnx"), p.SerializeAsString());
  const OnnxModel m = OnnxModel::load(folder.file("in.onnx"));
  m.save(folder.file("out.onnx"), {{"w", doubles({9, 8, 7, 6}, {2, 2})}});
  CHECK(std::filesystem::file_size(folder.file("out.onnx.data")) == 16);
  CHECK(parsed(folder.file("out.onnx")).graph().initializer(0).raw_data().empty());
  CHECK(OnnxModel::load(folder.file("out.onnx")).weight("w").data<float>()[1] == 8);
  CHECK(OnnxModel::load(folder.file("in.onnx")).weight("w").data<float>()[1] == 2);
}

TEST_CASE("a model above the limit gets external data for its large tensors") {
  TemporaryFolder folder;
  onnx::ModelProto p;
  REQUIRE(p.ParseFromString(model_bytes(kModel)));
  for (const char* name : {"big", "bigger"}) {
    onnx::TensorProto* t = p.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::FLOAT);
    t->add_dims(50'001);
    t->set_raw_data(std::string(4 * 50'001, name[3] == '\0' ? '\1' : '\2'));
  }
  auto model = std::make_unique<ImportedModel>();
  const std::string bytes = p.SerializeAsString();
  parse_model_bytes({bytes.data(), bytes.size()}, &model->proto);
  model = import_model(std::move(model), "model", ".");
  write_model(*model, folder.file("out.onnx"), {}, {.external_above = 10'000});
  const onnx::ModelProto written = parsed(folder.file("out.onnx"));
  CHECK(written.graph().initializer(0).data_location() == onnx::TensorProto::DEFAULT);
  REQUIRE(written.graph().initializer(3).data_location() == onnx::TensorProto::EXTERNAL);
  CHECK(written.graph().initializer(3).external_data(1).value() == "200704");
  CHECK(written.ByteSizeLong() < 10'000);
  const OnnxModel again = OnnxModel::load(folder.file("out.onnx"));
  const Tensor big = again.weight("big"), bigger = again.weight("bigger");
  CHECK(static_cast<const char*>(big.raw())[200'003] == 1);
  CHECK(static_cast<const char*>(bigger.raw())[0] == 2);
  again.save(folder.file("out.onnx"), {});
  CHECK(OnnxModel::load(folder.file("out.onnx")).weight("w").data<float>()[0] == 1);
}

TEST_CASE("a symbolic link at the new data file's name is replaced, not followed") {
  TemporaryFolder folder;
  write_file(folder.file("victim"), "safe");
  std::filesystem::create_symlink(folder.file("victim"), folder.file("out.onnx"));
  model_of(kModel).save(folder.file("out.onnx"), {});
  CHECK(TemporaryFolder::read(folder.file("victim")) == "safe");
  CHECK(OnnxModel::load(folder.file("out.onnx")).weight("w").data<float>()[0] == 1);
}

TEST_CASE("unknown names and wrong shapes are refused, all at once, and nothing is written") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  try {
    model_of(kModel).save(path, {{"nope", doubles({1}, {1})}, {"w", doubles({1}, {1})}});
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInput);
    CHECK_THAT(e.what(), ContainsSubstring("'nope'"));
    CHECK_THAT(e.what(), ContainsSubstring("float32[2,2]"));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a folder that does not exist is an error that names the file") {
  try {
    model_of(kModel).save("/nowhere/out.onnx", {});
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kFile);
    CHECK_THAT(e.what(), ContainsSubstring("/nowhere/out.onnx"));
  }
}

TEST_CASE("statistics that shared an initializer part when they differ") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  const OnnxModel m = model_of(
      graph_text("g (float[n,2] x) => (float[n,2] y) <float[2] s = {1,1}, float[2] b = {0,0},"
                 " float[2] mean = {0,0}, float[2] var = {1,1}>"
                 "{ m2 = Identity(mean) a = BatchNormalization(x, s, b, mean, var)"
                 " y = BatchNormalization(a, s, b, m2, var) }"));
  m.save(path, {{"mean", doubles({1, 2}, {2})}, {"m2", doubles({3, 4}, {2})}});
  const OnnxModel again = OnnxModel::load(path);
  CHECK(again.buffers().size() == 3);
  CHECK(again.weight("mean").data<float>()[0] == 1);
  CHECK(again.weight("m2").data<float>()[1] == 4);
}

TEST_CASE("training-mode nodes are written in their inference form") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  model_of(
      "<ir_version: 8, opset_import: [\"\" : 17]>"
      "g (float[n,2] x) => (float[n,2] y, bool[n,2] mask)"
      "<float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}>"
      "{ r = Constant<value_float: float = 0.5>() t = Constant<value = bool {1}>()"
      " a, m2, v2 = BatchNormalization<training_mode: int = 1>(x, s, b, m, v)"
      " y, mask = Dropout(a, r, t) }")
      .save(path, {});
  const onnx::ModelProto p = parsed(path);
  CHECK(p.graph().node(2).output_size() == 1);
  CHECK(p.graph().node(2).attribute_size() == 0);
  CHECK(p.graph().node(3).input_size() == 2);
  CHECK(p.graph().node(3).output_size() == 2);
}

TEST_CASE("a batch norm whose statistics are read keeps its training form") {
  TemporaryFolder folder;
  const std::string path = folder.file("out.onnx");
  model_of(
      "<ir_version: 8, opset_import: [\"\" : 17]>"
      "g (float[n,2] x) => (float[n,2] y, float[2] m2)"
      "<float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}>"
      "{ y, m2, v2 = BatchNormalization<training_mode: int = 1>(x, s, b, m, v) }")
      .save(path, {});
  const onnx::ModelProto p = parsed(path);
  CHECK(p.graph().node(0).output_size() == 3);
  CHECK(p.graph().node(0).attribute(0).i() == 1);
}

}  // namespace
}  // namespace trainrt
