#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/data/npy.h"
#include "tests/runtime/cli/program.h"
#include "tests/runtime/cli/tiny_models.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

class Workshop {
 public:
  explicit Workshop(const MlpOptions& options = {})
      : model(folder.write("m.onnx", mlp(options).SerializeAsString())) {
    Tensor x(DType::kFloat32, {6, 4});
    for (size_t i = 0; i < 24; ++i) x.data<float>()[i] = std::sin(static_cast<float>(i) * 1.7f);
    batch = {{"x", x}, {"target", Tensor::from<int64_t>({0, 1, 2, 1, 0, -100}, {6})}};
    data = npz("d.npz", batch);
  }
  std::string npz(const std::string& name,
                  const std::vector<std::pair<std::string, Tensor>>& arrays) const {
    write_npz(folder.file(name), arrays);
    return folder.file(name);
  }
  std::map<std::string, Tensor> grad(Arguments more) const {
    Arguments all = {"grad", model, "--out", folder.file("g.npz")};
    all.insert(all.end(), more.begin(), more.end());
    const ProgramResult r = run_trainrt(all);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return read_npz(folder.file("g.npz"));
  }

  TemporaryFolder folder;
  std::string model, data;
  std::vector<std::pair<std::string, Tensor>> batch;
};

TEST_CASE("grad writes loss, outputs and gradients", "[cli]") {
  const Workshop w;
  const auto result = w.grad({"--data", w.data, "--loss", "cross_entropy"});
  CHECK(result.at("loss").rank() == 0);
  CHECK(result.at("output/y").shape() == Shape{6, 3});
  CHECK(result.at("grad/fc1.weight").shape() == Shape{8, 4});
  CHECK(result.at("grad/fc2.bias").shape() == Shape{3});
  CHECK(result.at("grad/x").shape() == Shape{6, 4});
  CHECK(result.size() == 7);
}

TEST_CASE("grad leaves out what is asked to be left out", "[cli]") {
  const Workshop w;
  const auto result = w.grad(
      {"--data", w.data, "--no-input-grads", "--freeze", "fc1.*", "--loss", "cross_entropy"});
  CHECK_FALSE(result.contains("grad/x"));
  CHECK_FALSE(result.contains("grad/fc1.weight"));
  CHECK(result.contains("grad/fc2.weight"));
}

TEST_CASE("grad in float64 is close to float32", "[cli]") {
  const Workshop w;
  const auto narrow = w.grad({"--data", w.data});
  const auto wide = w.grad({"--data", w.data, "--dtype", "float64"});
  REQUIRE(wide.at("grad/x").dtype() == DType::kFloat64);
  for (size_t i = 0; i < 24; ++i) {
    CHECK(std::abs(wide.at("grad/x").data<double>()[i] - narrow.at("grad/x").data<float>()[i]) <
          1e-6);
  }
}

TEST_CASE("grad takes gradients of outputs", "[cli]") {
  const Workshop w;
  const Tensor ones = Tensor::from<float>(std::vector<float>(18, 1.0f), {6, 3});
  const std::string data = w.npz("dy.npz", {{"in/x", w.batch[0].second}, {"dy/y", ones}});
  const auto by_dy = w.grad({"--data", data, "--loss", "dy"});
  for (const float v : by_dy.at("grad/fc2.bias").data<float>()) CHECK(std::abs(v - 6.0f) < 1e-5f);
  double sum = 0;
  for (const float v : by_dy.at("output/y").data<float>()) sum += v;
  CHECK(std::abs(by_dy.at("loss").item() - sum) < 1e-5);
}

TEST_CASE("grad modes of batch normalization differ", "[cli]") {
  const Workshop w({.batch_norm = true});
  const double train = w.grad({"--data", w.data}).at("loss").item();
  const double frozen = w.grad({"--data", w.data, "--bn", "frozen"}).at("loss").item();
  const double eval = w.grad({"--data", w.data, "--mode", "eval"}).at("loss").item();
  CHECK(train != frozen);
  CHECK(std::abs(frozen - eval) < 1e-6);
}

TEST_CASE("grad agrees with central differences", "[cli]") {
  const Workshop w({.dropout = true, .batch_norm = true});
  const ProgramResult r = run_trainrt({"grad", w.model, "--data", w.data, "--numeric", "--json",
                                       "--loss", "cross_entropy", "--label-smoothing", "0.1"});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("\"name\":\"fc1.weight\""));
  const ProgramResult strict =
      run_trainrt({"grad", w.model, "--data", w.data, "--numeric", "--tolerance", "1e-30"});
  CHECK(strict.code == 1);
  CHECK_THAT(strict.err, ContainsSubstring("central differences"));
}

TEST_CASE("eval prints loss and accuracy", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt({"eval", w.model, "--data", w.data, "--json", "--batch", "4",
                                       "--out", w.folder.file("y.npz")});
  INFO(r.err);
  REQUIRE(r.code == 0);
  const Json line = Json::parse(r.out);
  CHECK(line["samples"] == 6);
  CHECK(line["loss"].is_number());
  CHECK(line["accuracy"].get<double>() >= 0.0);
  CHECK(line["accuracy"].get<double>() <= 1.0);
  CHECK(read_npz(w.folder.file("y.npz")).at("y").shape() == Shape{6, 3});
}

TEST_CASE("predict needs no target", "[cli]") {
  const Workshop w;
  const std::string data = w.npz("x.npz", {{"anything", w.batch[0].second}});
  const ProgramResult r =
      run_trainrt({"predict", w.model, "--data", data, "--out", w.folder.file("y.npz")});
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.err, ContainsSubstring("'anything'"));
  const Tensor predicted = read_npz(w.folder.file("y.npz")).at("y");
  const Tensor computed = w.grad({"--data", w.data, "--mode", "eval"}).at("output/y");
  for (size_t i = 0; i < 18; ++i) {
    CHECK(std::abs(predicted.data<float>()[i] - computed.data<float>()[i]) < 1e-6f);
  }
}

TEST_CASE("check says that a good model is trainable", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt({"check", w.model, "--json"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  const Json line = Json::parse(r.out);
  CHECK(line["trainable"] == true);
  CHECK(line["problems"].empty());
  CHECK(line["parameters"] == 67);
  CHECK_THAT(run_trainrt({"check", w.model}).out, ContainsSubstring("can be trained"));
}

TEST_CASE("inspect lists parameters with reasons, buffers and ops", "[cli]") {
  const Workshop w({.batch_norm = true});
  const ProgramResult r = run_trainrt({"inspect", w.model, "--json", "--freeze", "fc1.bias"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  const Json line = Json::parse(r.out);
  CHECK(line["inputs"][0]["name"] == "x");
  CHECK(line["outputs"][0]["name"] == "y");
  REQUIRE(line["parameters"].size() == 6);
  for (const Json& p : line["parameters"]) {
    for (const char* key : {"name", "shape", "dtype", "module", "trainable", "reason"}) {
      CHECK(p.contains(key));
    }
    CHECK(p["trainable"] == (p["name"] != "fc1.bias"));
    CHECK_FALSE(p["reason"].get<std::string>().empty());
  }
  CHECK(line["buffers"].size() == 2);
  CHECK(line["ops"]["Gemm"] == 2);
  CHECK(line["cost"]["flops"].get<int64_t>() > 0);
  CHECK_THAT(run_trainrt({"inspect", w.model}).out,
             ContainsSubstring("fc1.weight") && ContainsSubstring("BatchNormalization"));
}

TEST_CASE("bench reports times and memory", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt(
      {"bench", w.model, "--batch", "16", "--seconds", "0.1", "--optimizer", "adam", "--json"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  const Json line = Json::parse(r.out);
  for (const char* key :
       {"step_ms", "forward_ms", "backward_ms", "update_ms", "plan_ms", "arena_bytes",
        "arena_lower_bound_bytes", "loaded_rss_bytes", "step_peak_rss_bytes", "step_memory_bytes",
        "planned_bytes", "recomputed_values", "peak_rss_bytes", "flops", "gflops_per_s", "loss"}) {
    CHECK(line[key].is_number());
  }
  CHECK(line["arena_lower_bound_bytes"].get<int64_t>() <= line["arena_bytes"].get<int64_t>());
}

TEST_CASE("the process grows by what the plan says", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt(
      {"bench", w.model, "--batch", "1000000", "--seconds", "0", "--optimizer", "adam", "--json"});
  INFO(r.err << r.out);
  REQUIRE(r.code == 0);
  const Json line = Json::parse(r.out);
  const auto planned = line["planned_bytes"].get<double>();
  const auto grown = line["step_memory_bytes"].get<double>();
  REQUIRE(planned > 100e6);
  // Besides the plan: code of libraries, primitives, and copies of the batch on its way.
  CHECK(grown > planned * 0.9);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(grown < planned * 1.1 + 64e6);
#endif
}

TEST_CASE("bench writes a Chrome trace", "[cli]") {
  const Workshop w;
  const std::string path = w.folder.file("t.json");
  REQUIRE(run_trainrt({"bench", w.model, "--seconds", "0", "--profile", path}).code == 0);
  const Json trace = Json::parse(TemporaryFolder::read(path));
  CHECK(trace["traceEvents"].size() > 3);
  bool product = false;
  for (const Json& event : trace["traceEvents"]) {
    CHECK(event.contains("dur"));
    for (const char* key : {"kernel", "operands", "flops", "bytes", "gflops_per_s"}) {
      CHECK(event["args"].contains(key));
    }
    product |= event["args"]["op"] == "MatMul" && event["args"]["flops"].get<int64_t>() > 0;
  }
  CHECK(product);
}

TEST_CASE("run writes a Chrome trace", "[cli]") {
  const Workshop w;
  const std::string path = w.folder.file("t.json");
  REQUIRE(run_trainrt({"run", w.model, "--steps", "2", "--profile", path}).code == 0);
  CHECK(Json::parse(TemporaryFolder::read(path))["traceEvents"].size() > 3);
}

TEST_CASE("graph prints every stage", "[cli]") {
  const Workshop w;
  const std::string stage = GENERATE("imported", "specialized", "joint", "planned");
  const ProgramResult r = run_trainrt({"graph", w.model, "--stage", stage});
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring(stage == "imported" ? "Gemm" : "MatMul"));
}

TEST_CASE("graph draws and refuses", "[cli]") {
  const Workshop w;
  const ProgramResult dot = run_trainrt({"graph", w.model, "--format", "dot"});
  CHECK(dot.code == 0);
  CHECK_THAT(dot.out, ContainsSubstring("digraph"));
  const ProgramResult onnx = run_trainrt({"graph", w.model, "--format", "onnx"});
  CHECK(onnx.code == 2);
  CHECK_THAT(onnx.err, ContainsSubstring("not supported"));
  const std::string path = w.folder.file("g.txt");
  CHECK(run_trainrt({"graph", w.model, "--out", path}).out.empty());
  CHECK_THAT(TemporaryFolder::read(path), ContainsSubstring("MatMul"));
}

}  // namespace
}  // namespace trainrt
