// Trains the digits model with the fused Trainer and writes the trained file.
//   train_digits MODEL.onnx TRAIN.npz VAL.npz OUT.onnx
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace {

using trainrt::Tensor;
using trainrt::TensorMap;

/// The samples `indices` of every array.
TensorMap take(const TensorMap& arrays, const std::vector<int64_t>& indices) {
  TensorMap batch;
  for (const auto& [name, array] : arrays) {
    trainrt::Shape shape = array.shape();
    shape[0] = static_cast<int64_t>(indices.size());
    Tensor part(array.dtype(), shape);
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      part.rows(row, row + 1).copy_from(array.rows(indices[i], indices[i] + 1));
    }
    batch[name] = part;
  }
  return batch;
}

int train(const char* model, const char* train_file, const char* val_file, const char* out) {
  const TensorMap data = trainrt::load_npz(train_file), val = trainrt::load_npz(val_file);
  const int64_t samples = data.at("x").shape()[0];

  trainrt::Module module(model);
  trainrt::TrainerOptions options;
  options.losses = {"cross_entropy"};
  options.optimizer = "adamw";
  options.lr = 2e-3;
  trainrt::Trainer trainer(module, options);

  std::mt19937 random(1);
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  for (int epoch = 1; epoch <= 8; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    double loss = 0;
    int64_t steps = 0;
    for (size_t begin = 0; begin < order.size(); begin += 32, ++steps) {
      const size_t end = std::min(order.size(), begin + 32);  // the last batch is a smaller one
      loss += trainer
                  .step(take(data, {order.begin() + static_cast<std::ptrdiff_t>(begin),
                                    order.begin() + static_cast<std::ptrdiff_t>(end)}))
                  .loss;
    }
    const trainrt::EvalResult result = trainer.evaluate(val);
    std::printf("epoch %d: loss %.4f, validation accuracy %.4f\n", epoch,
                loss / static_cast<double>(steps), result.metrics.value("accuracy"));
  }
  module.export_onnx(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: train_digits MODEL.onnx TRAIN.npz VAL.npz OUT.onnx\n");
    return 2;
  }
  try {
    return train(argv[1], argv[2], argv[3], argv[4]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
}
