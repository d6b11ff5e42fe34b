// The programs of examples/cpp: they run, and the numbers they print are right.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <string>

#include "tests/examples/program.h"
#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::line_with;
using testing::number_after;
using testing::Run;
using testing::run;
using testing::scratch;

const std::string kDigits = "examples/digits/", kCpp = "examples/cpp/";
const std::string kModel = kDigits + "digits.onnx", kTrain = kDigits + "train.npz",
                  kVal = kDigits + "val.npz";

/// The digits model after some passes over the training data, where class i is called i + shift.
Module trained(int passes, int64_t shift = 0) {
  Module module(kModel);
  TrainerOptions options;
  options.optimizer = "adamw:lr=2e-3";
  Trainer trainer(module, options);
  TensorMap data = load_npz(kTrain);
  for (int64_t& id : data["target"].data<int64_t>()) id = (id + shift) % 10;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i + 32 <= data.at("x").shape()[0]; i += 32) {
      trainer.step(
          {{"x", data.at("x").rows(i, i + 32)}, {"target", data.at("target").rows(i, i + 32)}});
    }
  }
  return module;
}

double accuracy_of(Module module, const TensorMap& val) {
  module.eval();
  const Tensor scores = module.forward({val.at("x")})[0];
  const std::vector<int64_t> target = val.at("target").to_ints();
  double hits = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    const auto row = scores.data<float>().subspan(10 * i, 10);
    hits += std::max_element(row.begin(), row.end()) - row.begin() == target[i];
  }
  return hits / static_cast<double>(target.size());
}

bool same(const Tensor& a, const Tensor& b) {
  return std::equal(a.data<float>().begin(), a.data<float>().end(), b.data<float>().begin());
}

TEST_CASE("finetune trains the head alone, then everything, and writes the file") {
  Module pretrained = trained(2, 3);  // another task with the same images
  const std::string weights = scratch("weights.safetensors"), out = scratch("finetuned.onnx");
  save_safetensors(weights, pretrained.state_dict());
  const Run result =
      run(kCpp + "finetune " + kModel + " " + weights + " " + kTrain + " " + kVal + " " + out);
  REQUIRE(result.code == 0);
  REQUIRE(result.lines.size() == 9);
  CHECK(result.lines[0] == "starts afresh: fc2.weight");
  CHECK(result.lines[1] == "starts afresh: fc2.bias");
  const double before = number_after(line_with(result, "before: "), "accuracy ");
  const double head = number_after(line_with(result, "head, epoch 3"), "accuracy ");
  const double all = number_after(line_with(result, "all, epoch 3"), "accuracy ");
  CHECK(before < 0.5);
  CHECK(head > 0.8);
  CHECK(all >= 0.95);
  CHECK(number_after(line_with(result, "all, epoch 3"), "loss ") <
        number_after(line_with(result, "head, epoch 1"), "loss "));

  // The file holds what was trained; BatchNorm kept the statistics of the other run.
  Module written(out);
  CHECK(std::abs(accuracy_of(written, load_npz(kVal)) - all) < 1e-4);
  CHECK(same(written.get_buffer("norm.running_mean"), pretrained.get_buffer("norm.running_mean")));
  CHECK(same(written.get_buffer("norm.running_var"), pretrained.get_buffer("norm.running_var")));
  CHECK(!same(written.get_parameter("conv1.weight").value(),
              pretrained.get_parameter("conv1.weight").value()));

  // Weights of an ONNX file as well: it starts where the other ended.
  const Run again =
      run(kCpp + "finetune " + kModel + " " + out + " " + kTrain + " " + kVal + " " + out);
  REQUIRE(again.code == 0);
  CHECK(number_after(line_with(again, "head, epoch 3"), "accuracy ") > head - 0.02);
  std::filesystem::remove(weights);
  std::filesystem::remove(out);
}

TEST_CASE("custom_loss gives the same numbers by hand, by formulas and in the trainer") {
  const Run result =
      run(kCpp + "custom_loss " + kCpp + "models/two_heads.onnx " + kTrain + " " + kVal);
  REQUIRE(result.code == 0);
  size_t steps = 0;
  double first = 0, last = 0;
  for (const std::string& line : result.lines) {
    if (!line.starts_with("step ")) continue;
    INFO(line);
    last = number_after(line, "by hand ");
    if (steps++ == 0) first = last;
    CHECK(last > 0);
    CHECK(std::abs(number_after(line, "formulas ") - last) < 1e-4);
    CHECK(std::abs(number_after(line, "trainer ") - last) < 1e-4);
  }
  CHECK(steps >= 5);
  CHECK(last < 0.5 * first);
  const std::string differ = line_with(result, "weights differ by ");
  CHECK(number_after(differ, "by ") < 1e-4);
  CHECK(number_after(differ, "and ") == 0);
  REQUIRE(result.lines.size() >= 2);
  for (size_t i = result.lines.size() - 2; i < result.lines.size(); ++i) {
    CHECK(number_after(result.lines[i], "accuracy ") > 0.8);
    CHECK(number_after(result.lines[i], "off by ") < 0.2);
  }
}

TEST_CASE("hooks shows where a convolution looked, and statistics that are right") {
  const Module module = trained(3);
  const std::string file = scratch("hooks_digits.onnx");
  module.export_onnx(file);
  const Run result = run(kCpp + "hooks " + file + " " + kVal + " 3");
  REQUIRE(result.code == 0);
  CHECK(line_with(result, "class ").ends_with("by conv2 [1,32,4,4]"));
  for (const char* title : {"image", "heat"}) {
    const auto at = std::find(result.lines.begin(), result.lines.end(), title);
    REQUIRE(result.lines.end() - at > 8);
    std::string all;
    for (auto line = at + 1; line != at + 9; ++line) {
      CHECK(line->size() == 18);
      all += *line;
    }
    CHECK(all.find('@') != std::string::npos);
    CHECK(all.find_first_not_of("@|") != std::string::npos);
  }
  // The gradient is one: a step along it changes the score as it says.
  const std::string step = line_with(result, "a step along");
  const double predicted = number_after(step, "predicted ");
  CHECK(predicted == 0.01);
  CHECK(std::abs(number_after(step, "measured ") - predicted) < 0.02 * predicted);

  // The last module's results are the model's.
  const TensorMap val = load_npz(kVal);
  Module eval(file);
  eval.eval();
  const Tensor logits = eval.forward({val.at("x")})[0];
  double mean = 0, squares = 0;
  for (size_t i = 0; i < 360; ++i) mean += logits.data<float>()[10 * i] / 360.0;
  for (size_t i = 0; i < 360; ++i) {
    const double off = logits.data<float>()[10 * i] - mean;
    squares += off * off / 360;
  }
  for (const char* name : {"model: 10 channels, 360 values", "fc2: 10 channels, 360 values"}) {
    const std::string line = line_with(result, name);
    CHECK(std::abs(number_after(line, "mean ") - mean) < 1e-3);
    CHECK(std::abs(number_after(line, "variance ") - squares) < 1e-3 * squares + 1e-4);
  }
  line_with(result, "conv1: 16 channels, 23040 values");
  line_with(result, "norm: 32 channels, 5760 values");
  std::filesystem::remove(file);
}

TEST_CASE("federated averages become better than the clients") {
  const Run result = run(kCpp + "federated " + kModel + " " + kTrain + " " + kVal);
  REQUIRE(result.code == 0);
  REQUIRE(result.lines.size() == 10);
  double samples = 0;
  for (int k = 0; k < 4; ++k) {
    samples +=
        number_after(result.lines[static_cast<size_t>(k)], "client " + std::to_string(k) + ": ");
  }
  CHECK(samples == 1437);
  const double first = number_after(line_with(result, "round 0"), "accuracy ");
  const std::string last = line_with(result, "round 5");
  CHECK(first < 0.3);
  CHECK(number_after(last, "accuracy ") > 0.85);
  CHECK(number_after(last, "accuracy ") > number_after(last, "clients "));
}

TEST_CASE("custom_op has exact gradients and learns through Round") {
  const Run result = run(kCpp + "custom_op " + kCpp + "models/custom_op.onnx");
  REQUIRE(result.code == 0);
  const std::string gradients = line_with(result, "gradients of 112 weights");
  CHECK(number_after(gradients, "largest ") > 0.01);
  CHECK(number_after(gradients, "differences by ") < 1e-8);
  CHECK(number_after(line_with(result, "straight through Round"), "off by ") < 1e-12);
  const double first = number_after(line_with(result, "step 0:"), "loss ");
  const double last = number_after(line_with(result, "step 300:"), "loss ");
  CHECK(last > 0);
  CHECK(last < 0.1 * first);
}

TEST_CASE("char_lm learns to write") {
  const Run result =
      run(kCpp + "char_lm/char_lm " + kCpp + "char_lm/char_lm.onnx docs/design.md 800");
  REQUIRE(result.code == 0);
  const double first = number_after(line_with(result, "step 160:"), "loss ");
  const double last = number_after(line_with(result, "step 800:"), "loss ");
  CHECK(first < std::log(96.0));
  CHECK(last > 0);
  CHECK(last < 2.4);
  CHECK(last < first);
  // 200 characters at each of two temperatures, of which most are those of words.
  const auto start = std::find_if(result.lines.begin(), result.lines.end(), [](const auto& line) {
    return line.starts_with("--- temperature 0.5");
  });
  REQUIRE(start != result.lines.end());
  int64_t letters = 0, all = 0;
  for (auto line = start + 1; line != result.lines.end() && !line->starts_with("--- "); ++line) {
    for (char c : *line) letters += (c >= 'a' && c <= 'z') || c == ' ';
    all += static_cast<int64_t>(line->size()) + 1;
  }
  CHECK(all >= 200);
  CHECK(letters > all / 2);

  const Run missing = run(kCpp + "char_lm/char_lm " + kCpp + "char_lm/char_lm.onnx nowhere.txt");
  CHECK(missing.code == 1);
  CHECK(line_with(missing, "char_lm: ").find("nowhere.txt") != std::string::npos);
}

TEST_CASE("programs without arguments explain themselves") {
  for (const std::string name :
       {"char_lm/char_lm", "custom_loss", "custom_op", "federated", "finetune", "hooks"}) {
    const Run result = run(kCpp + name);
    CHECK(result.code == 2);
    REQUIRE(result.lines.size() == 1);
    CHECK(result.lines[0].starts_with("usage: " + name.substr(name.find('/') + 1)));
  }
}

}  // namespace
}  // namespace trainrt
