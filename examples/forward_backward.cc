// The module facade step by step: forward, a loss of one's own, backward, gradients, state.
//   forward_backward MODEL.onnx BATCH.npz
#include <cmath>
#include <cstdio>

#include "trainrt/data.h"
#include "trainrt/module.h"

namespace {

void run(const char* model, const char* file) {
  trainrt::ModuleOptions options;
  options.seed = 7;
  options.freeze = {"conv1.*"};  // shell patterns over parameter names
  trainrt::Module module(model, options);

  trainrt::TensorMap batch = trainrt::load_npz(file);
  const trainrt::Tensor x = batch.at("x").rows(0, 16);

  module.train();
  const trainrt::Outputs outputs = module.forward({x});
  const trainrt::Tensor& logits = outputs["logits"];

  // Any function of the outputs can be the loss: give backward() its gradient. Here: sum(y^2) / 2.
  trainrt::Tensor dy = logits.clone();
  module.backward({dy});

  for (const trainrt::Parameter& p : module.parameters()) {
    if (!p.requires_grad()) continue;
    const trainrt::Tensor grad = p.grad();
    double norm = 0;
    for (float g : grad.data<float>()) norm += static_cast<double>(g) * g;
    std::printf("%-16s %-12s |grad| = %.4f\n", p.name().c_str(),
                trainrt::to_string(p.shape()).c_str(), std::sqrt(norm));
  }

  // A step of plain gradient descent, written out.
  for (trainrt::Parameter& p : module.parameters()) {
    if (!p.grad().defined()) continue;
    trainrt::Tensor value = p.value();  // the parameter's own storage
    const auto g = p.grad().data<float>();
    for (size_t i = 0; i < g.size(); ++i) value.data<float>()[i] -= 0.01f * g[i];
  }
  module.zero_grad();

  // The state can be read, kept and put back.
  trainrt::StateDict state = module.state_dict();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  module.load_state_dict(state);

  module.eval();
  std::printf("eval: %s\n", trainrt::to_string(module.forward({x})[0].shape()).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: forward_backward MODEL.onnx BATCH.npz\n");
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "forward_backward: %s\n", error.what());
    return 1;
  }
}
