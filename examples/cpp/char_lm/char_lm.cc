// A small GPT that learns to write like a text file, one character after the other.
//   char_lm CHAR_LM.onnx TEXT [STEPS]
// The model reads 48 characters and says for each which comes next; see make.py.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "trainrt/module.h"
#include "trainrt/optimizer.h"

namespace {

using trainrt::DType;
using trainrt::Module;
using trainrt::Tensor;
using trainrt::TensorMap;

constexpr int64_t kContext = 48, kBatch = 16;

// The vocabulary: newline, then the bytes 32 to 126.
char character(int64_t id) { return static_cast<char>(id == 0 ? '\n' : id + 31); }

std::vector<int64_t> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw trainrt::Error(trainrt::ErrorCode::kFile, "cannot read " + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<int64_t> ids;
  for (char c : text) {
    if (c == '\n') ids.push_back(0);
    if (c >= 32 && c < 127) ids.push_back(c - 31);  // all other bytes are left out
  }
  if (static_cast<int64_t>(ids.size()) <= kContext) {
    throw trainrt::Error(trainrt::ErrorCode::kInput, path + " is too short");
  }
  return ids;
}

/// Pieces of the text, and the same moved on by one character.
TensorMap sample_batch(const std::vector<int64_t>& text, std::mt19937& random) {
  Tensor ids(DType::kInt64, {kBatch, kContext}), target(DType::kInt64, {kBatch, kContext});
  std::uniform_int_distribution<std::ptrdiff_t> start(
      0, static_cast<std::ptrdiff_t>(text.size()) - kContext - 1);
  for (int64_t i = 0; i < kBatch; ++i) {
    const auto at = text.begin() + start(random);
    std::copy_n(at, kContext, ids.rows(i, i + 1).data<int64_t>().begin());
    std::copy_n(at + 1, kContext, target.rows(i, i + 1).data<int64_t>().begin());
  }
  return {{"ids", ids}, {"target", target}};
}

/// Continues `prompt` by `count` characters; a lower temperature takes likelier ones.
std::string write_text(Module& module, std::vector<int64_t> prompt, int count, double temperature,
                       std::mt19937& random) {
  module.eval();
  std::string text;
  for (int n = 0; n < count; ++n) {
    // The last characters, and padding behind them: no place sees what comes after it.
    const auto length = std::min<int64_t>(static_cast<int64_t>(prompt.size()), kContext);
    Tensor ids(DType::kInt64, {1, kContext});
    std::copy_n(prompt.end() - length, length, ids.data<int64_t>().begin());
    const Tensor logits = module.forward({ids})[0];
    const auto vocabulary = static_cast<size_t>(logits.shape()[2]);
    const auto scores =
        logits.data<float>().subspan(static_cast<size_t>(length - 1) * vocabulary, vocabulary);
    const float largest = *std::max_element(scores.begin(), scores.end());
    std::vector<double> weights;
    for (float s : scores) weights.push_back(std::exp((s - largest) / temperature));
    prompt.push_back(std::discrete_distribution<int64_t>(weights.begin(), weights.end())(random));
    text += character(prompt.back());
  }
  module.train();
  return text;
}

void run(const char* model, const char* file, int64_t steps) {
  const std::vector<int64_t> text = read_text(file);
  std::mt19937 random(1);
  Module module(model);
  module.attach_loss({"cross_entropy"});

  // Matrices take weight decay; biases and scales of norms do not.
  trainrt::ParamGroup matrices, others;
  for (const trainrt::Parameter& p : module.parameters()) {
    (p.shape().size() > 1 ? matrices : others).params.push_back(p);
  }
  matrices.weight_decay = 0.1;
  others.weight_decay = 0;
  trainrt::Optimizer optimizer(module, "adamw:lr=4e-3", {matrices, others});
  trainrt::LRScheduler schedule(optimizer, "cosine:warmup=20", steps);
  trainrt::TrainStepOptions options;
  options.clip_norm = 1.0;

  const int64_t report = std::max<int64_t>(steps / 5, 1);
  double sum = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    sum += trainrt::train_step(module, optimizer, sample_batch(text, random), options).loss;
    if (step < steps) schedule.step();
    if (step % report == 0) {
      std::printf("step %lld: loss %.4f\n", static_cast<long long>(step),
                  sum / static_cast<double>(report));
      sum = 0;
    }
  }
  for (const double temperature : {0.5, 1.0}) {
    std::printf("--- temperature %.1f\n%s\n", temperature,
                write_text(module, {0}, 200, temperature, random).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc == 4 ? std::atoll(argv[3]) : 2000;
  if ((argc != 3 && argc != 4) || steps < 1) {
    std::fprintf(stderr, "usage: char_lm CHAR_LM.onnx TEXT [STEPS]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], steps);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "char_lm: %s\n", error.what());
    return 1;
  }
}
