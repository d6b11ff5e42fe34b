// Hooks look into a model: where a convolution saw what made the decision (Grad-CAM), and the
// statistics of every module's results.
//   hooks MODEL.onnx DATA.npz [SAMPLE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "examples/cpp/digits.h"
#include "trainrt/data.h"
#include "trainrt/module.h"

namespace {

using trainrt::Module;
using trainrt::Tensor;
using trainrt::TensorMap;
using trainrt::Values;

/// backward() follows a forward in train mode: the model is in train mode, its parts are not.
void eval_parts(Module& module) {
  module.train();
  for (Module& part : module.children()) part.eval();
}

/// Prints values of at least 0, as squares of eight by eight characters.
void print_map(const char* title, const Tensor& map) {
  const int64_t height = map.shape()[0], width = map.shape()[1];
  const auto values = map.data<float>();
  const float largest = *std::max_element(values.begin(), values.end());
  const std::string shades = " .:-=+*#%@";
  std::printf("%s\n", title);
  for (int64_t y = 0; y < 8; ++y) {
    std::string line;
    for (int64_t x = 0; x < 8; ++x) {
      const float v = values[static_cast<size_t>(y * height / 8 * width + x * width / 8)];
      line.append(2, shades[static_cast<size_t>(largest > 0 ? 9 * v / largest : 0)]);
    }
    std::printf("|%s|\n", line.c_str());
  }
}

/// Channels weighted by their mean gradient; what speaks against the class is cut off.
Tensor heat_map(const Tensor& features, const Tensor& gradient) {
  const int64_t channels = features.shape()[1], height = features.shape()[2],
                width = features.shape()[3];
  const auto pixels = static_cast<size_t>(height * width);
  Tensor map(trainrt::DType::kFloat32, {height, width});
  const auto heat = map.data<float>();
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const auto feature = features.data<float>().subspan(c * pixels, pixels);
    float weight = 0;
    for (float g : gradient.data<float>().subspan(c * pixels, pixels)) weight += g;
    for (size_t i = 0; i < pixels; ++i) {
      heat[i] += weight / static_cast<float>(pixels) * feature[i];
    }
  }
  for (float& h : heat) h = std::max(h, 0.0f);
  return map;
}

void grad_cam(Module& module, const Tensor& image) {
  Module conv = module;
  for (const Module& part : module.modules()) {
    if (part.type_name().starts_with("Conv")) conv = part;
  }
  Tensor features, gradient;
  trainrt::RemovableHandle keep = conv.register_forward_hook(
      [&](Module&, const Values&, const Values& outputs) { features = outputs[0]; });
  trainrt::RemovableHandle keep_gradient = conv.register_full_backward_hook(
      [&](Module&, const Values&, const Values& grad_outputs) { gradient = grad_outputs[0]; });

  eval_parts(module);
  const Tensor scores = module.forward({image})[0];
  const auto found = static_cast<size_t>(digits::best(scores)[0]);
  Tensor dy(scores.dtype(), scores.shape());
  dy.data<float>()[found] = 1;
  module.backward({dy});
  keep.remove();
  keep_gradient.remove();

  std::printf("class %zu, by %s %s\n", found, conv.path().c_str(),
              trainrt::to_string(features.shape()).c_str());
  print_map("image", image.reshape({image.shape()[2], image.shape()[3]}));
  print_map("heat", heat_map(features, gradient));

  // A forward hook may replace what it sees. A small step along the gradient shows that it is one.
  double squares = 0;
  for (float g : gradient.data<float>()) squares += static_cast<double>(g) * g;
  const double predicted = 0.01;
  const auto step = static_cast<float>(predicted / squares);
  trainrt::RemovableHandle move =
      conv.register_forward_hook([&](Module&, const Values&, const Values& outputs) {
        Tensor moved = outputs[0].clone();
        for (size_t i = 0; i < moved.data<float>().size(); ++i) {
          moved.data<float>()[i] += step * gradient.data<float>()[i];
        }
        return std::vector<Tensor>{moved};
      });
  const double change =
      module.forward({image})[0].data<float>()[found] - scores.data<float>()[found];
  move.remove();
  std::printf("a step along the gradient: predicted %.6f, measured %.6f\n", predicted, change);
}

/// Mean and variance of each channel over all samples so far.
struct Statistics {
  double count = 0;
  std::vector<double> mean, squares;  // sums of squared distances from the mean

  void add(const Tensor& values) {  // [n, channels, …]
    const auto channels = static_cast<size_t>(values.shape()[1]);
    const size_t inner = static_cast<size_t>(values.size() / values.shape()[0]) / channels;
    mean.resize(channels);
    squares.resize(channels);
    const auto data = values.data<float>();
    const double before = count;
    for (size_t c = 0; c < channels; ++c) {
      count = before;
      for (size_t n = 0; n < static_cast<size_t>(values.shape()[0]); ++n) {
        for (float v : data.subspan((n * channels + c) * inner, inner)) {
          const double off = v - mean[c];
          mean[c] += off / ++count;
          squares[c] += off * (v - mean[c]);
        }
      }
    }
  }
};

void feature_statistics(Module& module, const TensorMap& data) {
  std::map<std::string, Statistics> seen;
  std::vector<trainrt::RemovableHandle> handles;
  for (Module& part : module.modules()) {
    handles.push_back(part.register_forward_hook(
        [&](Module& m, const Values&, const Values& outputs) { seen[m.path()].add(outputs[0]); }));
  }
  module.eval();
  const Tensor& x = data.at("x");
  for (int64_t begin = 0; begin < x.shape()[0]; begin += 120) {
    module.forward({x.rows(begin, std::min(begin + 120, x.shape()[0]))});
  }
  for (trainrt::RemovableHandle& handle : handles) handle.remove();
  for (const auto& [path, s] : seen) {
    std::printf("%s: %zu channels, %.0f values each; channel 0: mean %.4f, variance %.4f\n",
                path.empty() ? "model" : path.c_str(), s.mean.size(), s.count, s.mean[0],
                s.squares[0] / s.count);
  }
}

void run(const char* model, const char* file, int64_t sample) {
  const TensorMap data = trainrt::load_npz(file);
  Module module(model);
  grad_cam(module, data.at("x").rows(sample, sample + 1));
  feature_statistics(module, data);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: hooks MODEL.onnx DATA.npz [SAMPLE]\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argc == 4 ? std::atoll(argv[3]) : 0);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "hooks: %s\n", error.what());
    return 1;
  }
}
