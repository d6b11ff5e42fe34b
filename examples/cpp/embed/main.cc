// trainrt in a program that is built outside its tree: two training steps on the digits.
//   embed MODEL.onnx TRAIN.npz
#include <cstdio>

#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"
#include "trainrt/version.h"

namespace {

void train(const char* model, const char* file) {
  trainrt::Module module(model);
  trainrt::TrainerOptions options;
  options.losses = {"cross_entropy"};
  options.optimizer = "adamw";
  options.lr = 2e-3;
  trainrt::Trainer trainer(module, options);

  trainrt::TensorMap batch;  // the first 256 digits, for every step
  for (const auto& [name, array] : trainrt::load_npz(file)) batch[name] = array.rows(0, 256);
  std::printf("trainrt %s\n", trainrt::version());
  for (int i = 0; i < 2; ++i) {
    const trainrt::StepResult result = trainer.step(batch);
    std::printf("step %d: loss %.4f\n", static_cast<int>(result.step), result.loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed MODEL.onnx TRAIN.npz\n");
    return 2;
  }
  try {
    train(argv[1], argv[2]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return 1;
  }
}
