// A loss of one's own over two outputs, in two ways: computed by the program with the gradients
// written by hand, and as formulas that become part of the graph.
//   custom_loss TWO_HEADS.onnx TRAIN.npz VAL.npz
// Scores of the classes take cross entropy, the amount of ink takes log cosh(ink - truth).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "examples/cpp/digits.h"
#include "trainrt/data.h"
#include "trainrt/flat.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"

namespace {

using trainrt::Expr;
using trainrt::Module;
using trainrt::Tensor;
using trainrt::TensorMap;

constexpr double kInkWeight = 0.5;
const char* const kOptimizer = "adamw:lr=1e-2";

/// How much ink there is in each image: eight times the mean grey value.
Tensor ink_of(const Tensor& images) {
  const int64_t samples = images.shape()[0], pixels = images.size() / samples;
  Tensor ink(trainrt::DType::kFloat32, {samples});
  for (int64_t i = 0; i < samples; ++i) {
    const Tensor image = images.rows(i, i + 1);
    float sum = 0;
    for (float grey : image.data<float>()) sum += grey;
    ink.data<float>()[static_cast<size_t>(i)] = 8 * sum / static_cast<float>(pixels);
  }
  return ink;
}

/// x, target/logits and target/ink.
TensorMap with_targets(const TensorMap& digits) {
  return {{"x", digits.at("x")},
          {"target/logits", digits.at("target")},
          {"target/ink", ink_of(digits.at("x"))}};
}

/// The loss of a batch; its gradients go to dlogits and dink.
double loss_by_hand(const trainrt::Outputs& outputs, const TensorMap& batch, Tensor& dlogits,
                    Tensor& dink) {
  const auto logits = outputs["logits"].data<float>(), ink = outputs["ink"].data<float>();
  const auto ids = batch.at("target/logits").data<int64_t>();
  const auto truth = batch.at("target/ink").data<float>();
  const size_t samples = ids.size(), classes = logits.size() / samples;
  const double share = 1.0 / static_cast<double>(samples);
  dlogits = Tensor(trainrt::DType::kFloat32, outputs["logits"].shape());
  dink = Tensor(trainrt::DType::kFloat32, outputs["ink"].shape());
  double loss = 0;
  for (size_t i = 0; i < samples; ++i) {
    const auto row = logits.subspan(i * classes, classes);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (float score : row) sum += std::exp(score - largest);
    const auto id = static_cast<size_t>(ids[i]);
    loss += share * (largest + std::log(sum) - row[id]);
    for (size_t k = 0; k < classes; ++k) {
      const double probability = std::exp(row[k] - largest) / sum;
      dlogits.data<float>()[i * classes + k] =
          static_cast<float>(share * (probability - (k == id ? 1 : 0)));
    }
    const double off = static_cast<double>(ink[i]) - truth[i];
    loss += share * kInkWeight * std::log(std::cosh(off));
    dink.data<float>()[i] = static_cast<float>(share * kInkWeight * std::tanh(off));
  }
  return loss;
}

/// The same as formulas. Their gradients follow from them.
Expr loss_by_formulas(const trainrt::LossGraph& graph) {
  const Expr off = graph.output("ink") - graph.target("ink");
  const Expr log_cosh = off + softplus(-2.0 * off) - std::log(2.0);
  return mean(cross_entropy(graph.output("logits"), graph.target("logits"))) +
         kInkWeight * mean(log_cosh);
}

std::vector<float> weights_of(const Module& module) {
  std::vector<float> values(static_cast<size_t>(trainrt::flat_size(module)));
  trainrt::get_flat(module, values);
  return values;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

void print_quality(Module& module, const TensorMap& val) {
  module.eval();
  const trainrt::Outputs outputs = module.forward({val.at("x")});
  double off = 0;
  const Tensor truth = ink_of(val.at("x"));
  for (int64_t i = 0; i < truth.size(); ++i) {
    off += std::abs(outputs["ink"].data<float>()[static_cast<size_t>(i)] -
                    truth.data<float>()[static_cast<size_t>(i)]);
  }
  std::printf("accuracy %.4f, ink off by %.4f\n",
              digits::accuracy(outputs["logits"], val.at("target")),
              off / static_cast<double>(truth.size()));
}

void run(const char* model, const char* train_file, const char* val_file) {
  const TensorMap train = with_targets(trainrt::load_npz(train_file));
  const TensorMap val = trainrt::load_npz(val_file);
  std::mt19937 random(1);
  std::vector<TensorMap> batches;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (TensorMap& batch : digits::shuffled(train, 32, random)) batches.push_back(batch);
  }

  Module by_hand(model), in_graph(model), in_trainer(model);
  trainrt::Optimizer hand_optimizer(by_hand, kOptimizer), graph_optimizer(in_graph, kOptimizer);
  in_graph.attach_loss(loss_by_formulas);
  in_trainer.attach_loss(loss_by_formulas);
  trainrt::TrainerOptions options;
  options.losses = {};  // the one attached to the module
  options.optimizer = kOptimizer;
  trainrt::Trainer trainer(in_trainer, options);

  for (size_t i = 0; i < batches.size(); ++i) {
    const TensorMap& batch = batches[i];
    Tensor dlogits, dink;
    hand_optimizer.zero_grad();
    const trainrt::Outputs outputs = by_hand.forward({batch.at("x")});
    const double hand = loss_by_hand(outputs, batch, dlogits, dink);
    by_hand.backward({{"logits", dlogits}, {"ink", dink}});
    hand_optimizer.step();

    const double graph = in_graph.train_step(batch, graph_optimizer).loss;
    const double fused = trainer.step(batch).loss;
    if (i % 15 == 0 || i + 1 == batches.size()) {
      std::printf("step %zu: by hand %.5f, formulas %.5f, trainer %.5f\n", i, hand, graph, fused);
    }
  }
  std::printf("weights differ by %.1e (by hand) and %.1e (trainer)\n",
              largest_difference(weights_of(by_hand), weights_of(in_graph)),
              largest_difference(weights_of(in_trainer), weights_of(in_graph)));
  print_quality(by_hand, val);
  print_quality(in_graph, val);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: custom_loss TWO_HEADS.onnx TRAIN.npz VAL.npz\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "custom_loss: %s\n", error.what());
    return 1;
  }
}
