// Loops with optimizers as objects: param groups, a schedule, clipping, accumulation, a moving
// average of the weights, and the fused step with the same groups.
//   optimizers MODEL.onnx TRAIN.npz VAL.npz
#include <algorithm>
#include <cstdio>
#include <string>

#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"

namespace {

using trainrt::Tensor;
using trainrt::TensorMap;

constexpr int64_t kBatch = 32;

TensorMap rows(const TensorMap& arrays, int64_t begin, int64_t end) {
  TensorMap batch;
  for (const auto& [name, array] : arrays) batch[name] = array.rows(begin, end);
  return batch;
}

double accuracy(trainrt::Module& module, const TensorMap& val) {
  module.eval();
  const trainrt::Outputs outputs = module.forward(TensorMap{{"x", val.at("x")}});
  const auto target = val.at("target").to(trainrt::DType::kInt64);
  const auto scores = outputs["logits"].data<float>();
  int64_t hits = 0;
  const int64_t samples = target.size(), classes = outputs["logits"].shape()[1];
  for (int64_t i = 0; i < samples; ++i) {
    const auto row = scores.subspan(static_cast<size_t>(i * classes), static_cast<size_t>(classes));
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    hits += best == target.data<int64_t>()[static_cast<size_t>(i)];
  }
  module.train();
  return static_cast<double>(hits) / static_cast<double>(samples);
}

void run(const char* model, const char* train_file, const char* val_file) {
  const TensorMap data = trainrt::load_npz(train_file), val = trainrt::load_npz(val_file);
  const int64_t steps = data.at("x").shape()[0] / kBatch, epochs = 4;
  trainrt::Module module(model);

  // Weights of rank 1, biases and scales of norms, take no decay and a smaller rate.
  trainrt::ParamGroup weights, others;
  for (const trainrt::Parameter& p : module.parameters()) {
    (p.shape().size() > 1 ? weights : others).params.push_back(p);
  }
  weights.weight_decay = 0.05;
  others.weight_decay = 0;
  others.lr = 1e-3;
  trainrt::Optimizer optimizer(module, "adamw:lr=2e-3", {weights, others});
  trainrt::LRScheduler scheduler(optimizer, "cosine:warmup=5", steps * epochs);
  trainrt::ExponentialMovingAverage averages(module, 0.95);

  module.attach_loss({"cross_entropy"});
  double loss = 0;
  for (int64_t i = 0; i < steps; ++i) {
    const TensorMap batch = rows(data, i * kBatch, (i + 1) * kBatch);
    optimizer.zero_grad();
    loss = module.forward(batch)["loss"].item();
    module.backward();
    trainrt::clip_grad_norm_(module.parameters(), 1.0);
    optimizer.step();
    scheduler.step();
    averages.update();
  }
  std::printf("loop: loss %.4f, accuracy %.4f\n", loss, accuracy(module, val));

  // Two batches for each update: their gradients add up, and are averaged before the update.
  for (int64_t i = 0; i + 1 < steps; i += 2) {
    optimizer.zero_grad();
    for (int64_t k = i; k < i + 2; ++k) {
      loss = module.forward(rows(data, k * kBatch, (k + 1) * kBatch))["loss"].item();
      module.backward();
    }
    trainrt::scale_grad_(module.parameters(), 0.5);
    optimizer.step();
    scheduler.step();
    averages.update();
  }
  std::printf("accumulated: loss %.4f, accuracy %.4f\n", loss, accuracy(module, val));

  // The same update in one planned run: forward, loss, backward, clipping, groups.
  trainrt::TrainStepOptions options;
  options.clip_norm = 1.0;
  for (int64_t i = 0; i < steps; ++i) {
    const TensorMap batch = rows(data, i * kBatch, (i + 1) * kBatch);
    loss = trainrt::train_step(module, optimizer, batch, options).loss;
    scheduler.step();
    averages.update();
  }
  std::printf("fused: loss %.4f, accuracy %.4f\n", loss, accuracy(module, val));

  averages.swap();
  std::printf("average: accuracy %.4f\n", accuracy(module, val));
  averages.swap();

  // Another optimizer of the same groups continues from here.
  trainrt::StateDict state = optimizer.state_dict();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  trainrt::Optimizer again(module, "adamw", {weights, others});
  again.load_state_dict(state);
  std::printf("rate %.6f, after %lld updates\n", *again.param_groups()[0].lr,
              static_cast<long long>(again.steps_done()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: optimizers MODEL.onnx TRAIN.npz VAL.npz\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "optimizers: %s\n", error.what());
    return 1;
  }
}
