#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "tests/runtime/cli/program.h"
#include "tests/runtime/cli/tiny_models.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line));
  return out;
}

std::vector<Json> of_event(const std::vector<Json>& lines, const std::string& event) {
  std::vector<Json> out;
  for (const Json& line : lines) {
    if (line["event"] == event) out.push_back(line);
  }
  return out;
}

TensorMap state_in(const std::string& path) {
  const auto tensors = read_safetensors(path);
  return {tensors.begin(), tensors.end()};
}

/// A folder with a model and n samples whose class is the largest of the first three features.
class Workshop {
 public:
  explicit Workshop(const MlpOptions& options = {}, int64_t n = 60) {
    model = folder.write("m.onnx", mlp(options).SerializeAsString());
    Tensor x(DType::kFloat32, {n, 4}), target(DType::kInt64, {n});
    uint32_t state = 12345;
    for (float& v : x.data<float>()) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    }
    for (int64_t i = 0; i < n; ++i) {
      const auto row = x.data<float>().subspan(static_cast<size_t>(4 * i), 3);
      target.data<int64_t>()[static_cast<size_t>(i)] =
          std::max_element(row.begin(), row.end()) - row.begin();
    }
    data = folder.file("d.npz");
    write_npz(data, {{"x", x}, {"target", target}});
  }

  ProgramResult run(Arguments more) const {
    Arguments all = {"run", model, "--data", data};
    all.insert(all.end(), more.begin(), more.end());
    return run_trainrt(all);
  }

  TemporaryFolder folder;
  std::string model, data;
};

TEST_CASE("run --json prints the lines of the contract", "[cli]") {
  const Workshop w;
  const ProgramResult r = w.run({"--steps", "25", "--batch", "20", "--json", "--lr", "0.1"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  const std::vector<Json> lines = json_lines(r.out);
  const Json& start = lines.front();
  CHECK(start["event"] == "start");
  CHECK(start["parameters"] == 4 * 8 + 8 + 8 * 3 + 3);
  CHECK(start["trainable"] == start["parameters"]);
  CHECK(start["arena_bytes"].is_number_integer());
  CHECK(start["plan_ms"].is_number());
  const std::vector<Json> steps = of_event(lines, "step");
  REQUIRE(steps.size() == 3);  // 1, 10, 20
  CHECK(steps[0]["step"] == 1);
  CHECK(steps[1]["step"] == 10);
  CHECK(steps[1]["epoch"] == 4);
  CHECK(steps[0]["lr"] == 0.1);
  CHECK(steps[0]["samples_per_s"].is_number());
  CHECK(steps[2]["loss"].get<double>() < steps[0]["loss"].get<double>());
  CHECK(of_event(lines, "epoch").size() == 9);
  const Json& done = lines.back();
  CHECK(done["event"] == "done");
  CHECK(done["steps"] == 25);
  CHECK(done["seconds"].is_number());
  CHECK(done["peak_rss_bytes"].get<int64_t>() > 0);
}

TEST_CASE("epochs count passes and validation is reported", "[cli]") {
  const Workshop w;
  const ProgramResult r = w.run({"--epochs", "3", "--batch", "16", "--val", w.data, "--json",
                                 "--metrics", "top5,perplexity", "--optimizer", "adam"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  const std::vector<Json> epochs = of_event(json_lines(r.out), "epoch");
  REQUIRE(epochs.size() == 3);
  CHECK(epochs[2]["epoch"] == 3);
  CHECK(epochs[2]["val_loss"].is_number());
  CHECK(epochs[2]["val_accuracy"].is_number());
  CHECK(epochs[2]["val_perplexity"].is_number());
  CHECK(json_lines(r.out).back()["steps"] == 12);
}

TEST_CASE("piped output is one line an epoch", "[cli]") {
  const Workshop w;
  const ProgramResult r = w.run({"--epochs", "2"});
  REQUIRE(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("67 parameters, 67 trained"));
  CHECK_THAT(r.out, ContainsSubstring("epoch 1/2  step 2  loss "));
  CHECK_THAT(r.out, ContainsSubstring("done after 4 steps"));
  CHECK_THAT(r.out, !ContainsSubstring("\r"));
  CHECK_THAT(r.err, ContainsSubstring("no --loss: cross_entropy"));
}

TEST_CASE("without data a made-up batch is trained for ten steps", "[cli]") {
  const Workshop w;
  const ProgramResult r =
      run_trainrt({"run", w.model, "--shape", "x=8,4", "--json", "--log-every", "1"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.err, ContainsSubstring("made-up inputs x float32[8,4]"));
  const std::vector<Json> steps = of_event(json_lines(r.out), "step");
  REQUIRE(steps.size() == 10);
  CHECK(steps[9]["loss"].get<double>() < steps[0]["loss"].get<double>());
}

TEST_CASE("the same seed gives the same bits, another seed others", "[cli]") {
  const Workshop w({.dropout = true});
  const auto train = [&](const char* seed, const char* out) {
    REQUIRE(w.run({"--epochs", "2", "--batch", "7", "--seed", seed, "--out", w.folder.file(out)})
                .code == 0);
    return TemporaryFolder::read(w.folder.file(out));
  };
  const std::string first = train("1", "a.onnx");
  CHECK(first == train("1", "b.onnx"));
  CHECK(first != train("2", "c.onnx"));
}

TEST_CASE("the trained model keeps its form and predicts the same", "[cli]") {
  const Workshop w({.batch_norm = true});
  const std::string out = w.folder.file("t.onnx"), state = w.folder.file("t.safetensors"),
                    checkpoint = w.folder.file("t.ckpt");
  REQUIRE(w.run({"--epochs", "2", "--out", out, "--state-out", state, "--checkpoint", checkpoint})
              .code == 0);
  onnx::ModelProto before = mlp({.batch_norm = true}), after;
  REQUIRE(after.ParseFromString(TemporaryFolder::read(out)));
  CHECK(after.graph().node_size() == before.graph().node_size());
  CHECK(after.graph().initializer_size() == before.graph().initializer_size());
  CHECK(after.graph().input(0).name() == "x");
  CHECK(after.opset_import(0).version() == 17);
  CHECK(state_in(state).contains("bn.mean"));
  REQUIRE(run_trainrt({"predict", out, "--data", w.data, "--out", w.folder.file("1.npz")}).code ==
          0);
  REQUIRE(run_trainrt({"predict", w.model, "--weights", checkpoint, "--data", w.data, "--out",
                       w.folder.file("2.npz"), "--batch", "11"})
              .code == 0);
  const Tensor one = read_npz(w.folder.file("1.npz")).at("y");
  const Tensor two = read_npz(w.folder.file("2.npz")).at("y");
  CHECK(one.shape() == Shape{60, 3});
  for (size_t i = 0; i < 180; ++i) {
    CHECK(std::abs(one.data<float>()[i] - two.data<float>()[i]) < 1e-5f);
  }
}

TEST_CASE("frozen parameters stay as they were", "[cli]") {
  const Workshop w;
  const std::string state = w.folder.file("s.safetensors");
  const ProgramResult r = w.run(
      {"--steps", "5", "--freeze", "fc1.*", "--freeze", "*bias", "--state-out", state, "--json"});
  REQUIRE(r.code == 0);
  CHECK(json_lines(r.out)[0]["trainable"] == 24);
  const TensorMap after = state_in(state);
  const onnx::ModelProto before = mlp();
  for (const auto& weight : before.graph().initializer()) {
    const bool same = after.at(weight.name()).data<float>()[0] == weight.float_data(0);
    CHECK(same == (weight.name() != "fc2.weight"));
  }
}

TEST_CASE("accumulated batches make one update", "[cli]") {
  const Workshop w;
  const auto losses = [&](Arguments more) {
    more.insert(more.end(), {"--no-shuffle", "--json", "--log-every", "1", "--steps", "4"});
    const ProgramResult r = w.run(more);
    INFO(r.err);
    REQUIRE(r.code == 0);
    std::vector<double> out;
    for (const Json& step : of_event(json_lines(r.out), "step")) out.push_back(step["loss"]);
    return out;
  };
  const std::vector<double> whole = losses({"--batch", "20"});
  const std::vector<double> parts = losses({"--batch", "10", "--accumulate", "2"});
  REQUIRE(whole.size() == 4);
  REQUIRE(parts.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(std::abs(whole[i] - parts[i]) < 1e-5);
}

TEST_CASE("early stopping ends the run", "[cli]") {
  const Workshop w;
  const ProgramResult r =
      w.run({"--epochs", "50", "--lr", "0", "--val", w.data, "--early-stop", "2", "--json"});
  REQUIRE(r.code == 0);
  CHECK(of_event(json_lines(r.out), "epoch").size() == 3);
  CHECK_THAT(r.err, ContainsSubstring("stopped early"));
}

TEST_CASE("a schedule moves the rate", "[cli]") {
  const Workshop w;
  const ProgramResult r =
      w.run({"--steps", "10", "--lr", "1", "--schedule", "linear", "--json", "--log-every", "1"});
  REQUIRE(r.code == 0);
  const std::vector<Json> steps = of_event(json_lines(r.out), "step");
  CHECK(steps[0]["lr"] == 1.0);
  CHECK(std::abs(steps[5]["lr"].get<double>() - 0.5) < 1e-12);
}

TEST_CASE("a diverging loss is still valid JSON", "[cli]") {
  const Workshop w;
  const ProgramResult r = w.run({"--steps", "60", "--lr", "1e30", "--loss", "sum", "--json"});
  REQUIRE(r.code == 0);
  CHECK(json_lines(r.out).back().contains("loss"));
}

TEST_CASE("fixed batches leave the rest out and say so", "[cli]") {
  const Workshop w({.batch = 8});
  const ProgramResult r = w.run({"--epochs", "1", "--json"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(json_lines(r.out).back()["steps"] == 7);
  CHECK_THAT(r.err, ContainsSubstring("the last 4 samples"));
}

TEST_CASE("a csv with text classes trains", "[cli]") {
  const Workshop w;
  std::string text = "a,b,c,d,kind\n";
  for (int i = 0; i < 30; ++i) {
    text += std::to_string(i % 3) + ",0.5,-1," + std::to_string(i % 2) +
            (i % 3 == 0   ? ",cat\n"
             : i % 3 == 1 ? ",dog\n"
                          : ",bird\n");
  }
  const ProgramResult r = run_trainrt(
      {"run", w.model, "--data", w.folder.write("d.csv", text), "--epochs", "2", "--json"});
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK_THAT(r.err, ContainsSubstring("0=bird, 1=cat, 2=dog"));
}

}  // namespace
}  // namespace trainrt
