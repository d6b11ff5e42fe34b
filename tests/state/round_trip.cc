// round_trip MODEL.onnx STATE.safetensors [OUT.safetensors [OUT.onnx]]: loads a framework's state
// into a model (strict), writes it back under the framework's names, and the model with it.
// check_torch.py runs it.
#include <cstdio>
#include <string>

#include "trainrt/data.h"
#include "trainrt/error.h"
#include "trainrt/state.h"

int main(int argc, char** argv) {
  using namespace trainrt;
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr,
                 "usage: round_trip MODEL.onnx STATE.safetensors [OUT.safetensors [OUT.onnx]]\n");
    return 2;
  }
  try {
    Module module{std::string(argv[1])};
    module.load_state_dict(load_safetensors(argv[2]));
    const StateDict state = original_state_dict(module);
    if (argc > 3) save_safetensors(argv[3], state);
    if (argc > 4) module.export_onnx(argv[4]);
    std::printf("%zu tensors\n", state.size());
  } catch (const Error& error) {
    std::fprintf(stderr, "round_trip: %s\n", error.what());
    return 1;
  }
  return 0;
}
