// Fine-tuning: weights of another run, a new last layer, which is trained alone at first, then all
// layers with rates of their own.
//   finetune MODEL.onnx WEIGHTS TRAIN.npz VAL.npz OUT.onnx
// WEIGHTS: a trained .onnx file of the same architecture, or .safetensors.
#include <cstdio>
#include <string>

#include "examples/cpp/digits.h"
#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"

namespace {

using trainrt::Module;
using trainrt::TensorMap;

trainrt::StateDict read_weights(const std::string& path) {
  return path.ends_with(".onnx") ? Module(path).state_dict() : trainrt::load_safetensors(path);
}

double accuracy(Module& module, const TensorMap& val) {
  Module eval = module;  // a handle to the same module
  eval.eval();
  return digits::accuracy(eval.forward({val.at("x")})[0], val.at("target"));
}

/// What is pretrained keeps its running statistics: BatchNorm alone stays in eval mode.
void train_mode(Module& module) {
  module.train();
  module.apply([](Module& part) {
    if (part.type_name().starts_with("BatchNorm")) part.eval();
  });
}

void epochs(const char* name, int count, Module& module, trainrt::Optimizer& optimizer,
            const TensorMap& train, const TensorMap& val) {
  std::mt19937 random(1);
  for (int epoch = 1; epoch <= count; ++epoch) {
    train_mode(module);
    double loss = 0;
    const std::vector<TensorMap> batches = digits::shuffled(train, 32, random);
    for (const TensorMap& batch : batches) {
      optimizer.zero_grad();
      loss += module.forward(batch)["loss"].item();
      module.backward();
      optimizer.step();
    }
    std::printf("%s, epoch %d: loss %.4f, accuracy %.4f\n", name, epoch,
                loss / static_cast<double>(batches.size()), accuracy(module, val));
  }
}

void run(const char* model, const std::string& weights, const char* train_file,
         const char* val_file, const char* out) {
  const TensorMap train = trainrt::load_npz(train_file), val = trainrt::load_npz(val_file);
  Module module(model);

  // The last child that has weights is the head. Its weights are not taken over.
  std::string last;
  for (const auto& [name, part] : module.named_children()) {
    if (!part.parameters().empty()) last = name;
  }
  Module head = module.get_submodule(last);
  trainrt::StateDict state = read_weights(weights);
  std::erase_if(state, [&](const auto& entry) { return entry.first.starts_with(last + "."); });
  for (const std::string& key : module.load_state_dict(state, false).missing) {
    std::printf("starts afresh: %s\n", key.c_str());
  }
  std::printf("before: accuracy %.4f\n", accuracy(module, val));

  // Two groups: small steps for what is pretrained, larger ones for the head.
  trainrt::ParamGroup body, top;
  top.params = head.parameters();
  for (auto& [name, part] : module.named_children()) {
    if (name == last) continue;
    for (const trainrt::Parameter& p : part.parameters()) body.params.push_back(p);
  }
  body.lr = 3e-4;
  top.lr = 3e-3;
  trainrt::Optimizer optimizer(module, "adamw:weight_decay=0.01", {body, top});
  module.attach_loss({"cross_entropy"});

  // What is frozen costs no backward work, and the optimizer leaves it alone.
  for (auto& [name, part] : module.named_children()) {
    if (name != last) module.get_submodule(name).requires_grad_(false);
  }
  epochs("head", 3, module, optimizer, train, val);
  module.requires_grad_(true);
  epochs("all", 3, module, optimizer, train, val);

  module.eval();
  module.export_onnx(out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: finetune MODEL.onnx WEIGHTS TRAIN.npz VAL.npz OUT.onnx\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3], argv[4], argv[5]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "finetune: %s\n", error.what());
    return 1;
  }
}
