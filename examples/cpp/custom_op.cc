// Operators of one's own: by a formula, by a kernel with a gradient, and another gradient for an
// operator of ONNX. The model is made by models/custom_op.py.
//   custom_op CUSTOM_OP.onnx
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "trainrt/extend.h"
#include "trainrt/flat.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"

namespace {

using trainrt::DType;
using trainrt::Expr;
using trainrt::Module;
using trainrt::Tensor;
using trainrt::TensorMap;

void soft_sign(const trainrt::KernelNode& node) {
  const auto compute = [&](auto sample) {
    using T = decltype(sample);
    const auto x = node.inputs[0].data<T>();
    const auto y = node.outputs[0].data<T>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] / (1 + std::abs(x[i]));
  };
  node.inputs[0].dtype() == DType::kFloat64 ? compute(double()) : compute(float());
}

void register_everything() {
  // y = x sigmoid(beta x). The gradient follows from the formula.
  trainrt::register_op("my.ops", "Swish", [](trainrt::OpNode& node) {
    const Expr x = node.input(0);
    return std::vector<Expr>{x * sigmoid(node.attr_float("beta", 1) * x)};
  });

  // y = x / (1 + |x|), computed by a function of the program …
  trainrt::register_kernel("my.ops", "SoftSign", [](trainrt::OpNode& node) {
    const Expr x = node.input(0);
    return trainrt::PlannedKernel{{{x.dtype(), x.shape()}}, soft_sign};
  });
  // … whose gradient is dx = dy (1 - |y|)^2
  trainrt::register_gradient("my.ops", "SoftSign", [](const trainrt::GradientNode& node) {
    return std::vector<Expr>{node.output_gradients[0] * square(1.0 - abs(node.outputs[0]))};
  });

  // Gradients pass Round as if it did nothing.
  trainrt::register_gradient(
      "", "Round", [](const trainrt::GradientNode& node) { return node.output_gradients; });
}

/// Some points, and a smooth function of them.
TensorMap make_batch(int64_t samples, DType dtype) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Tensor x(DType::kFloat64, {samples, 4}), target(DType::kFloat64, {samples, 2});
  for (double& v : x.data<double>()) v = uniform(random);
  for (size_t i = 0; i < static_cast<size_t>(samples); ++i) {
    const auto p = x.data<double>().subspan(4 * i, 4);
    target.data<double>()[2 * i] = std::sin(2 * p[0]) * p[1];
    target.data<double>()[2 * i + 1] = p[2] - p[3] * p[3];
  }
  return {{"x", x.to(dtype)}, {"target", target.to(dtype)}};
}

trainrt::LossFunction squared_error_of(const char* output) {
  return [output](const trainrt::LossGraph& graph) {
    return mean(square(graph.output(output) - graph.target()));
  };
}

/// Loss and gradients of all parameters, by the gradients of the operators.
std::vector<double> gradient(Module& module, const char* output, const TensorMap& batch) {
  module.attach_loss(squared_error_of(output));
  module.zero_grad();
  module.forward(batch);
  module.backward();
  std::vector<double> grad(static_cast<size_t>(trainrt::flat_size(module)));
  trainrt::get_flat_grad(module, grad);
  return grad;
}

void check_gradients(const char* model) {
  trainrt::ModuleOptions options;
  options.dtype = DType::kFloat64;
  Module module(model, options);
  const TensorMap batch = make_batch(8, DType::kFloat64);
  const std::vector<double> exact = gradient(module, "y", batch);

  std::vector<double> weights(exact.size());
  trainrt::get_flat(module, weights);
  const double step = 1e-5;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto loss_at = [&](double value) {
      std::vector<double> moved = weights;
      moved[i] = value;
      trainrt::set_flat(module, moved);
      return module.forward(batch)["loss"].item();
    };
    const double difference =
        (loss_at(weights[i] + step) - loss_at(weights[i] - step)) / (2 * step);
    worst = std::max(worst, std::abs(difference - exact[i]));
    largest = std::max(largest, std::abs(exact[i]));
  }
  trainrt::set_flat(module, weights);
  std::printf("gradients of %zu weights: largest %.4f, off central differences by %.1e\n",
              weights.size(), largest, worst);

  // d loss / d rounded = 2 (rounded - target) / n, and it passes Round unchanged: the gradients are
  // those of y with this in the place of its own.
  const std::vector<double> through = gradient(module, "rounded", batch);
  Module plain(model, options);
  const trainrt::Outputs outputs = plain.forward({batch.at("x")});
  Tensor dy = outputs["rounded"].clone();
  for (size_t i = 0; i < dy.data<double>().size(); ++i) {
    dy.data<double>()[i] = 2 * (dy.data<double>()[i] - batch.at("target").data<double>()[i]) /
                           static_cast<double>(dy.size());
  }
  plain.backward({{"y", dy}});
  std::vector<double> expected(weights.size());
  trainrt::get_flat_grad(plain, expected);
  double off = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    off = std::max(off, std::abs(expected[i] - through[i]));
  }
  std::printf("straight through Round: off by %.1e\n", off);
}

void train(const char* model) {
  Module module(model);
  module.attach_loss(squared_error_of("rounded"));
  trainrt::Optimizer optimizer(module, "adamw:lr=1e-2,weight_decay=0");
  const TensorMap batch = make_batch(256, DType::kFloat32);
  for (int step = 0; step <= 300; ++step) {
    const double loss = module.train_step(batch, optimizer).loss;
    if (step % 100 == 0) std::printf("step %d: loss %.5f\n", step, loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: custom_op CUSTOM_OP.onnx\n");
    return 2;
  }
  try {
    register_everything();
    check_gradients(argv[1]);
    train(argv[1]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "custom_op: %s\n", error.what());
    return 1;
  }
}
