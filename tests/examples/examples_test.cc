// The programs of examples/ on the digits data: they run, and do what they are for.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/examples/program.h"
#include "trainrt/data.h"
#include "trainrt/module.h"

namespace trainrt {
namespace {

using testing::number_after;
using testing::Run;
using testing::run;
using testing::scratch;

const std::string kDigits = "examples/digits/";

TEST_CASE("train_digits learns the digits and writes the trained file, in C++ and in C") {
  const std::string program = GENERATE("train_digits", "train_digits_c");
  const std::string out = scratch("trained_digits.onnx");
  const Run result = run("examples/" + program + " " + kDigits + "digits.onnx " + kDigits +
                         "train.npz " + kDigits + "val.npz " + out);
  REQUIRE(result.code == 0);
  REQUIRE(result.lines.size() == 8);
  CHECK(number_after(result.lines.front(), "loss ") > number_after(result.lines.back(), "loss "));
  CHECK(number_after(result.lines.back(), "validation accuracy ") >= 0.97);
  const Module trained(out);
  CHECK(trained.outputs().at(0).name == "logits");
  std::filesystem::remove(out);
}

TEST_CASE("forward_backward prints a gradient for every parameter that is not frozen") {
  const Run result =
      run("examples/forward_backward " + kDigits + "digits.onnx " + kDigits + "val.npz");
  REQUIRE(result.code == 0);
  std::vector<std::string> names;
  for (const std::string& line : result.lines) {
    if (line.find("|grad| = ") == std::string::npos) continue;
    names.push_back(line.substr(0, line.find(' ')));
    INFO(line);
    const double norm = number_after(line, "|grad| = ");
    CHECK(norm >= 0);
    // The bias before BatchNormalization is the one that changes nothing.
    if (names.back() != "conv2.bias") CHECK(norm > 0);
  }
  std::vector<std::string> expected;
  for (const auto& [name, parameter] : Module(kDigits + "digits.onnx").named_parameters()) {
    if (!name.starts_with("conv1.")) expected.push_back(name);
  }
  CHECK(names == expected);
  CHECK(result.lines.back() == "eval: [16,10]");
}

TEST_CASE("pytorch_state takes PyTorch's weights and gives them back") {
  const std::string file = "tests/state/lstm.safetensors", out = scratch("lstm.safetensors");
  const Run result = run("examples/pytorch_state tests/state/lstm_script.onnx " + file + " " + out);
  REQUIRE(result.code == 0);
  std::map<std::string, Tensor> got;
  for (const auto& [key, tensor] : load_safetensors(out)) got[key] = tensor;
  const StateDict want = load_safetensors(file);
  CHECK(result.lines.size() == want.size());
  REQUIRE(got.size() == want.size());
  for (const auto& [key, tensor] : want) {
    INFO(key);
    REQUIRE(got[key].shape() == tensor.shape());
    CHECK(std::memcmp(got[key].raw(), tensor.raw(), tensor.bytes()) == 0);
  }
  std::filesystem::remove(out);
}

TEST_CASE("optimizers learns the digits with a loop, with accumulation and with fused steps") {
  const Run result = run("examples/optimizers " + kDigits + "digits.onnx " + kDigits +
                         "train.npz " + kDigits + "val.npz");
  REQUIRE(result.code == 0);
  REQUIRE(result.lines.size() == 5);
  CHECK(result.lines[0].starts_with("loop: "));
  CHECK(number_after(result.lines[0], "accuracy ") >= 0.5);
  CHECK(number_after(result.lines[1], "accuracy ") >= number_after(result.lines[0], "accuracy "));
  CHECK(number_after(result.lines[2], "accuracy ") >= 0.9);
  CHECK(number_after(result.lines[3], "accuracy ") >= 0.9);
  CHECK(number_after(result.lines[4], "rate ") > 0);
  CHECK(number_after(result.lines[4], "after ") > 0);
}

TEST_CASE("tensors go through views, Eigen, DLPack and files") {
  const std::string folder = scratch("tensors");
  std::filesystem::create_directories(folder);
  const Run result =
      run("examples/tensors " + kDigits + "digits.onnx " + kDigits + "val.npz " + folder);
  REQUIRE(result.code == 0);
  REQUIRE(result.lines.size() == 6);
  CHECK(result.lines[0] == "float32 [2,3], strides [3,1], on cpu: 7 1.5 7");
  CHECK(result.lines[1] == "view: [2,10], owned: 4");
  CHECK(result.lines[3].ends_with(", shared: yes"));
  CHECK(result.lines[4] == "files: [360,10]");
  CHECK(result.lines[5] == "refused: input x: expected float32[batch,1,8,8], given int64[2,1,8,8]");

  Module module(kDigits + "digits.onnx");
  module.eval();
  const TensorMap batch = load_npz(kDigits + "val.npz");
  const Tensor logits = module.forward({batch.at("x")})[0];
  const std::span<const float> scores = logits.data<float>();
  int64_t right = 0;
  for (size_t i = 0; i < 360; ++i) {
    const auto row = scores.subspan(10 * i, 10);
    right += std::max_element(row.begin(), row.end()) - row.begin() ==
             batch.at("target").data<int64_t>()[i];
  }
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / 3600;
  CHECK(std::abs(number_after(result.lines[3], "dlpack: mean ") - mean) < 1e-4);
  CHECK(result.lines[2] == "eigen: " + std::to_string(right) + " of 360 right");
  const auto bytes = [](const Tensor& t) {
    return std::string_view(static_cast<const char*>(t.raw()), t.bytes());
  };
  CHECK(bytes(load_npy(folder + "/logits.npy")) == bytes(logits));
  CHECK(load_npz(folder + "/both.npz").size() == 2);
  const auto saved = load_safetensors(folder + "/state.safetensors");
  const StateDict state = module.state_dict();
  REQUIRE(saved.size() == state.size());
  for (size_t i = 0; i < state.size(); ++i) {
    CHECK(saved[i].first == state[i].first);
    CHECK(bytes(saved[i].second) == bytes(state[i].second));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("examples without arguments explain themselves") {
  for (const std::string name :
       {"train_digits", "train_digits_c", "forward_backward", "optimizers", "pytorch_state", "tensors"}) {
    const Run result = run("examples/" + name);
    CHECK(result.code == 2);
    REQUIRE(result.lines.size() == 1);
    CHECK(result.lines[0].starts_with("usage: " + name));
  }
}

TEST_CASE("examples name a file that is missing") {
  for (const std::string arguments :
       {"forward_backward nowhere.onnx nowhere.npz",
        "train_digits_c nowhere.onnx nowhere.npz nowhere.npz out.onnx"}) {
    const Run result = run("examples/" + arguments);
    CHECK(result.code == 1);
    REQUIRE(!result.lines.empty());
    CHECK(result.lines[0].find("nowhere.") != std::string::npos);
  }
}

}  // namespace
}  // namespace trainrt
