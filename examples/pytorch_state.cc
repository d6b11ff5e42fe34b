// Weights between PyTorch and trainrt: a module's state_dict into its export, and back.
//   pytorch_state MODEL.onnx STATE.safetensors OUT.safetensors
#include <cstdio>

#include "trainrt/data.h"
#include "trainrt/state.h"

namespace {

void run(const char* model, const char* file, const char* out) {
  trainrt::Module module(model);

  // Saved from the module in PyTorch, under its names and in its layout.
  module.load_state_dict(trainrt::load_safetensors(file));

  // … train …

  // And back, for the module's load_state_dict in PyTorch.
  const trainrt::StateDict state = trainrt::original_state_dict(module);
  trainrt::save_safetensors(out, state);

  for (const auto& [key, tensor] : state) {
    std::printf("%-24s %s\n", key.c_str(), trainrt::to_string(tensor.shape()).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: pytorch_state MODEL.onnx STATE.safetensors OUT.safetensors\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "pytorch_state: %s\n", error.what());
    return 1;
  }
}
