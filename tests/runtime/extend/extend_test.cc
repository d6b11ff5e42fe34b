// Operators, gradients and kernels that a program registers. They hold for the whole process: every
// test has names of its own.
#include "trainrt/extend.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/model_util.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

Module load_graph(const std::string& graph, ModuleOptions options = exact(), int opset = 1) {
  return testing::load(model_bytes("<ir_version: 8, opset_import: [\"\" : 17, \"my\" : " +
                                   std::to_string(opset) + "]>\n" + graph),
                       options);
}

/// y = NODE(s) of s = x * w, both [n,3].
std::string between(const std::string& node) {
  return "g (float[n,3] x) => (float[n,3] y) <float[3] w = {0.5, -1.25, 2}> {\n"
         "  s = Mul(x, w)\n  " +
         node + "\n}";
}

Tensor times_w(const Tensor& x, Tensor factors) {
  const double w[] = {0.5, -1.25, 2};
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    factors.data<double>()[i] = x.data<double>()[i] * w[i % 3];
  }
  return factors;
}

Tensor mapped(const Tensor& x, double (*f)(double)) {
  Tensor y = x.clone();
  for (double& v : y.data<double>()) v = f(v);
  return y;
}

/// The gradient of sum(dy * output) to w, element by element from d output / d s.
Tensor weight_gradient(const Tensor& x, const Tensor& dy, const Tensor& slope) {
  Tensor dw(DType::kFloat64, {3});
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    dw.data<double>()[i % 3] +=
        x.data<double>()[i] * dy.data<double>()[i] * slope.data<double>()[i];
  }
  return dw;
}

OpKernel cube_kernel() {
  return [](const KernelNode& node) {
    const auto cube = [&](auto sample) {
      using T = decltype(sample);
      for (size_t i = 0; i < node.inputs[0].data<T>().size(); ++i) {
        const T x = node.inputs[0].data<T>()[i];
        node.outputs[0].data<T>()[i] = x * x * x;
      }
    };
    node.inputs[0].dtype() == DType::kFloat64 ? cube(double()) : cube(float());
  };
}

PlannedKernel plan_cube(OpNode& node) {
  return {{{node.input(0).dtype(), node.input(0).shape()}}, cube_kernel()};
}

TEST_CASE("an operator by formulas is computed and differentiated") {
  register_op("my", "Cube", [](OpNode& node) {
    CHECK(node.input_count() == 1);
    CHECK(node.output_count() == 1);
    CHECK(node.working_type() == DType::kFloat64);
    CHECK(!node.input(1));
    const Expr x = node.input(0);
    return std::vector<Expr>{node.attr_float("scale", 1) * x * x * x};
  });
  Module model = load_graph(between("y = my.Cube <scale = 2.0> (s)"));
  REQUIRE(model.parameters().size() == 1);
  const Tensor x = numbers({2, 3}), dy = numbers({2, 3}, 2);
  const Tensor s = times_w(x, x.clone());
  CHECK(largest_difference(model.forward({x})[0],
                           mapped(s, [](double v) { return 2 * v * v * v; })) < 1e-15);
  model.backward({dy});
  const Tensor slope = mapped(s, [](double v) { return 6 * v * v; });
  CHECK(largest_difference(model.get_parameter("w").grad(), weight_gradient(x, dy, slope)) < 1e-14);
}

TEST_CASE("a lowering reads attributes, and refuses what it cannot do by name") {
  int calls = 0;
  register_op("my", "Attributes", [&calls](OpNode& node) {
    ++calls;
    CHECK(node.attr_int("count", 7) == 3);
    CHECK(node.attr_int("absent", 7) == 7);
    CHECK(node.attr_string("name", "") == "text");
    CHECK(node.attr_ints("axes", {}) == std::vector<int64_t>{1, -2});
    CHECK(node.attr_floats("taps", {}) == std::vector<double>{0.5, 2});
    CHECK(node.has_attr("taps"));
    CHECK(!node.has_attr("other"));
    if (node.input(0).dim(0) == 4) node.refuse("batches of four are not allowed");
    return std::vector<Expr>{node.input(0)};
  });
  Module model = load_graph(
      between("y = my.Attributes <count = 3, name = \"text\", axes = [1, -2], taps = [0.5, 2.0]>"
              " (s)"));
  model.forward({numbers({2, 3})});
  CHECK(calls >= 1);
  const std::string text = failure(
      [&] {
        model.forward({numbers({4, 3})});
      },
      ErrorCode::kUnsupported);
  CHECK(contains(text, "Attributes"));
  CHECK(contains(text, "batches of four are not allowed"));
}

TEST_CASE("contents that a lowering asks for become part of the plan") {
  register_op("my", "Repeat", [](OpNode& node) {
    const int64_t times = node.constant_input(1).to_ints().at(0);
    Expr sum = node.input(0);
    for (int64_t i = 1; i < times; ++i) sum = sum + node.input(0);
    return std::vector<Expr>{sum};
  });
  Module model = load_graph(
      "g (float[n,3] x, int64[1] k) => (float[n,3] y) <float[3] w = {0.5, -1.25, 2}> {\n"
      "  s = Mul(x, w)\n  y = my.Repeat (s, k)\n}");
  const Tensor x = numbers({1, 3}), s = times_w(x, x.clone());
  const auto at = [&](int64_t k) {
    return model.forward({x, Tensor::of_ints(std::vector<int64_t>{k})})[0];
  };
  CHECK(largest_difference(at(2), mapped(s, [](double v) { return 2 * v; })) < 1e-15);
  CHECK(largest_difference(at(3), mapped(s, [](double v) { return v + v + v; })) < 1e-15);
}

TEST_CASE("a later registration wins, also over an operator of ONNX") {
  register_op("my", "Twice", [](OpNode& n) { return std::vector<Expr>{n.input(0)}; });
  Module before = load_graph(between("y = my.Twice (s)"));
  register_op("my", "Twice", [](OpNode& n) { return std::vector<Expr>{n.input(0) * 2.0}; });
  const Tensor x = numbers({2, 3}), s = times_w(x, x.clone());
  CHECK(largest_difference(load_graph(between("y = my.Twice (s)")).forward({x})[0],
                           mapped(s, [](double v) { return 2 * v; })) < 1e-15);
  register_op("", "HardSwish", [](OpNode& n) { return std::vector<Expr>{n.input(0) + 1.0}; });
  CHECK(largest_difference(load_graph(between("y = HardSwish (s)")).forward({x})[0],
                           mapped(s, [](double v) { return v + 1; })) < 1e-15);
}

TEST_CASE("the newest registration that an opset knows is taken") {
  register_op(
      "my", "Since", [](OpNode& n) { return std::vector<Expr>{n.input(0) * 2.0}; }, 2);
  register_op(
      "my", "Since", [](OpNode& n) { return std::vector<Expr>{n.input(0) * 4.0}; }, 4);
  const Tensor x = numbers({2, 3}), s = times_w(x, x.clone());
  const auto at = [&](int opset) {
    return load_graph(between("y = my.Since (s)"), exact(), opset).forward({x})[0];
  };
  CHECK(largest_difference(at(3), mapped(s, [](double v) { return 2 * v; })) < 1e-15);
  CHECK(largest_difference(at(5), mapped(s, [](double v) { return 4 * v; })) < 1e-15);
  const std::string text = failure([&] { at(1); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "my::Since"));
}

TEST_CASE("a kernel without a gradient runs, and training through it is refused by name") {
  register_kernel("my", "KernelOnly", plan_cube);
  Module model = load_graph(between("y = my.KernelOnly (s)"));
  const Tensor x = numbers({2, 3}), s = times_w(x, x.clone());
  model.eval();
  CHECK(largest_difference(model.forward({x})[0], mapped(s, [](double v) { return v * v * v; })) <
        1e-15);
  model.train();
  const std::string text = failure([&] { model.forward({x}); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "KernelOnly"));
  const std::vector<Problem> problems = model.check();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].kind == "no_gradient");
  CHECK(problems[0].op == "KernelOnly");
  CHECK(problems[0].domain == "my");

  // What nobody trains through needs no gradient.
  model.requires_grad_(false);
  CHECK(largest_difference(model.forward({x})[0], mapped(s, [](double v) { return v * v * v; })) <
        1e-15);
}

TEST_CASE("a kernel with a gradient trains, in both working types") {
  register_kernel("my", "KernelCube", plan_cube);
  register_gradient("my", "KernelCube", [](const GradientNode& node) {
    REQUIRE(node.inputs.size() == 1);
    CHECK(node.needed == std::vector<bool>{true});
    return std::vector<Expr>{node.output_gradients[0] * 3.0 * square(node.inputs[0])};
  });
  const Tensor x = numbers({2, 3}), dy = numbers({2, 3}, 2), s = times_w(x, x.clone());
  const Tensor slope = mapped(s, [](double v) { return 3 * v * v; });
  const Tensor expected = weight_gradient(x, dy, slope);
  for (const DType type : {DType::kFloat64, DType::kFloat32}) {
    ModuleOptions options;
    options.dtype = type;
    Module model = load_graph(between("y = my.KernelCube (s)"), options);
    CHECK(model.check().empty());
    const double close = type == DType::kFloat64 ? 1e-14 : 1e-6;
    CHECK(largest_difference(model.forward({x.to(type)})[0],
                             mapped(s, [](double v) { return v * v * v; })) < close);
    model.backward({dy.to(type)});
    CHECK(largest_difference(model.get_parameter("w").grad(), expected) < close);

    // And fused: w - lr dw, of the loss sum(y).
    TrainerOptions training;
    training.losses = {"sum"};
    training.optimizer = "sgd:lr=0.5";
    Trainer trainer(model, training);
    Tensor ones = dy.clone();
    ones.fill(1);
    Tensor moved = model.get_parameter("w").value().to(DType::kFloat64);
    const Tensor dw = weight_gradient(x, ones, slope);
    for (size_t i = 0; i < 3; ++i) moved.data<double>()[i] -= 0.5 * dw.data<double>()[i];
    trainer.step({{"x", x.to(type)}});
    CHECK(largest_difference(model.get_parameter("w").value(), moved) < close);
  }
}

TEST_CASE("a kernel with several inputs and outputs, one of them integers") {
  register_kernel("my", "SplitSign", [](OpNode& node) {
    const Expr a = node.input(0);
    PlannedKernel kernel;
    kernel.outputs = {{a.dtype(), a.shape()}, {DType::kInt64, a.shape()}};
    kernel.run = [](const KernelNode& n) {
      for (size_t i = 0; i < n.inputs[0].data<double>().size(); ++i) {
        const double product = n.inputs[0].data<double>()[i] * n.inputs[1].data<double>()[i];
        n.outputs[0].data<double>()[i] = std::abs(product);
        n.outputs[1].data<int64_t>()[i] = product < 0 ? -1 : 1;
      }
    };
    return kernel;
  });
  register_gradient("my", "SplitSign", [](const GradientNode& node) {
    CHECK(node.output_gradients.size() == 2);
    CHECK(!node.output_gradients[1]);
    CHECK(node.needed == std::vector<bool>{false, true});
    const Expr slope = cast(node.outputs[1], node.inputs[0].dtype());
    return std::vector<Expr>{{}, node.output_gradients[0] * slope * node.inputs[0]};
  });
  Module model = load_graph(
      "g (float[n,3] x) => (float[n,3] y, int64[n,3] z) <float[3] w = {0.5, -1.25, 2}> {\n"
      "  s = Mul (x, w)\n  y, z = my.SplitSign (x, s)\n}");
  const Tensor x = numbers({2, 3}), dy = numbers({2, 3}, 2), s = times_w(x, x.clone());
  const Outputs outputs = model.forward({x});
  Tensor slope = x.clone();
  for (size_t i = 0; i < 6; ++i) {
    const double product = x.data<double>()[i] * s.data<double>()[i];
    CHECK(outputs["y"].data<double>()[i] == std::abs(product));
    CHECK(outputs["z"].data<int64_t>()[i] == (product < 0 ? -1 : 1));
    slope.data<double>()[i] *= product < 0 ? -1 : 1;
  }
  model.backward({{"y", dy}});
  CHECK(largest_difference(model.get_parameter("w").grad(), weight_gradient(x, dy, slope)) < 1e-15);
}

TEST_CASE("a straight-through Round makes parameters of the weights before it") {
  const std::string graph = between("y = Round (s)");
  // Without a rule nothing leads from w to an output.
  CHECK(load_graph(graph).parameters().empty());
  register_gradient("", "Round", [](const GradientNode& n) { return n.output_gradients; });
  Module model = load_graph(graph);
  REQUIRE(model.parameters().size() == 1);
  CHECK(model.check().empty());
  const Tensor x = numbers({2, 3}), dy = numbers({2, 3}, 2), s = times_w(x, x.clone());
  Tensor slope = x.clone();
  slope.fill(1);
  CHECK(largest_difference(model.forward({x})[0],
                           mapped(s, [](double v) { return std::nearbyint(v); })) == 0);
  model.backward({dy});
  CHECK(largest_difference(model.get_parameter("w").grad(), weight_gradient(x, dy, slope)) < 1e-15);
}

TEST_CASE("a rule takes the place of the gradient that formulas have, in plans made from then on") {
  Module model = load_graph(between("y = Sigmoid (s)"));
  const Tensor x = numbers({2, 3}), dy = numbers({2, 3}, 2), s = times_w(x, x.clone());
  const auto gradient = [&] {
    model.zero_grad();
    model.forward({x});
    model.backward({dy});
    return model.get_parameter("w").grad().clone();
  };
  const auto sigmoid_slope = [](double v) {
    const double y = 1 / (1 + std::exp(-v));
    return y * (1 - y);
  };
  CHECK(largest_difference(gradient(), weight_gradient(x, dy, mapped(s, sigmoid_slope))) < 1e-15);
  register_gradient("", "Sigmoid", [](const GradientNode& n) {
    return std::vector<Expr>{n.output_gradients[0] * n.outputs[0]};
  });
  const Tensor own = mapped(s, [](double v) { return 1 / (1 + std::exp(-v)); });
  CHECK(largest_difference(gradient(), weight_gradient(x, dy, own)) < 1e-15);
  CHECK(largest_difference(model.forward({x})[0], own) < 1e-15);
}

TEST_CASE("shapes that are computed stay known under a registered gradient") {
  register_gradient("", "Neg", [](const GradientNode& n) {
    return std::vector<Expr>{n.output_gradients[0] * -3.0};
  });
  // The target shape of Reshape is -[-6].
  Module model = load_graph(
      "g (float[2,3] x) => (float[6] y) <float[3] w = {0.5, -1.25, 2}, int64[1] k = {-6}> {\n"
      "  s = Mul (x, w)\n  n = Neg (s)\n  shape = Neg (k)\n  y = Reshape (n, shape)\n}");
  const Tensor x = numbers({2, 3}), dy = numbers({6}, 2);
  CHECK(model.forward({x})[0].shape() == Shape{6});
  model.backward({dy});
  Tensor slope = x.clone();
  slope.fill(-3);
  CHECK(largest_difference(model.get_parameter("w").grad(), weight_gradient(x, dy, slope)) < 1e-15);
}

TEST_CASE("running statistics go on under a registered gradient") {
  const Tensor x = numbers({3, 2, 4}), dy = numbers({3, 2, 4}, 2);
  Module before = testing::load(testing::batch_norm_model(), exact());
  const Tensor y = before.forward({x})[0];
  register_gradient("", "BatchNormalization", [](const GradientNode& n) {
    CHECK(n.inputs.size() == 5);
    const Expr dy = n.output_gradients[0];
    return std::vector<Expr>{dy, sum(dy, {0, 2}), sum(dy, {0, 2}) * 2.0};
  });
  Module model = testing::load(testing::batch_norm_model(), exact());
  CHECK(largest_difference(model.forward({x})[0], y) == 0);
  model.backward({dy});
  for (const auto& [name, buffer] : before.named_buffers()) {
    CHECK(largest_difference(model.get_buffer(name), buffer) == 0);
  }
  const auto bias = model.get_parameter("bn.bias").grad().data<double>(),
             weight = model.get_parameter("bn.weight").grad().data<double>();
  for (size_t c = 0; c < 2; ++c) {
    double expected = 0;
    for (size_t n = 0; n < 3; ++n) {
      for (size_t k = 0; k < 4; ++k) expected += dy.data<double>()[(n * 2 + c) * 4 + k];
    }
    CHECK(std::abs(weight[c] - expected) < 1e-14);
    CHECK(bias[c] == 2 * weight[c]);
  }
}

TEST_CASE("lowerings and gradient rules call kernels") {
  register_op("my", "ByCall", [](OpNode& node) {
    const Expr x = node.input(0);
    return call_kernel("cube of ByCall", {x * 2.0}, {{x.dtype(), x.shape()}}, cube_kernel());
  });
  register_gradient("my", "ByCall", [](const GradientNode& node) {
    // d (2x)^3 / dx = 24 x^2, here as 24 (x^6)^(1/3), from a kernel's x^3.
    const Expr x = node.inputs[0];
    const Expr cube = call_kernel("cube", {x}, {{x.dtype(), x.shape()}}, cube_kernel())[0];
    return std::vector<Expr>{node.output_gradients[0] * 24.0 * pow(square(cube), 1.0 / 3)};
  });
  Module model = load_graph(between("y = my.ByCall (s)"));
  const Tensor x = numbers({2, 3}), dy = numbers({2, 3}, 2), s = times_w(x, x.clone());
  CHECK(largest_difference(model.forward({x})[0],
                           mapped(s, [](double v) { return 8 * v * v * v; })) < 1e-14);
  model.backward({dy});
  const Tensor slope = mapped(s, [](double v) { return 24 * v * v; });
  CHECK(largest_difference(model.get_parameter("w").grad(), weight_gradient(x, dy, slope)) < 1e-12);

  const std::string none = failure(
      [] {
        call_kernel("nothing", {}, {{DType::kFloat32, {1}}}, {});
      },
      ErrorCode::kUsage);
  CHECK(contains(none, "needs an input"));
}

TEST_CASE("an error of a kernel reaches the caller") {
  register_kernel("my", "Fails", [](OpNode& node) {
    return PlannedKernel{{{node.input(0).dtype(), node.input(0).shape()}}, [](const KernelNode&) {
                           throw Error(ErrorCode::kRuntime, "out of paper");
                         }};
  });
  Module model = load_graph(between("y = my.Fails (s)"));
  model.eval();
  CHECK(contains(failure(
                     [&] {
                       model.forward({numbers({2, 3})});
                     },
                     ErrorCode::kRuntime),
                 "out of paper"));
}

TEST_CASE("registrations that make no sense are refused") {
  const auto lowering = [](OpNode& n) { return std::vector<Expr>{n.input(0)}; };
  CHECK(contains(failure([&] { register_op("my", "", lowering); }, ErrorCode::kUsage), "a name"));
  CHECK(contains(failure([&] { register_op("my", "X", {}); }, ErrorCode::kUsage), "a lowering"));
  CHECK(contains(failure([&] { register_kernel("my", "", plan_cube); }, ErrorCode::kUsage),
                 "a name"));
  CHECK(contains(failure([&] { register_kernel("my", "X", {}); }, ErrorCode::kUsage), "a plan"));
  CHECK(contains(failure([&] { register_gradient("my", "X", {}); }, ErrorCode::kUsage), "a rule"));
}

TEST_CASE("what a lowering, a plan or a rule gives must fit") {
  const Tensor x = numbers({2, 3});
  register_op("my", "Nothing", [](OpNode&) { return std::vector<Expr>{}; });
  Module nothing = load_graph(between("y = my.Nothing (s)"));
  std::string text = failure([&] { nothing.forward({x}); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "Nothing"));
  CHECK(contains(text, "output 0"));

  register_kernel("my", "NoOutputs", [](OpNode&) { return PlannedKernel{}; });
  Module no_outputs = load_graph(between("y = my.NoOutputs (s)"));
  text = failure([&] { no_outputs.forward({x}); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "my::NoOutputs has no outputs"));

  register_op("my", "BadFormula", [](OpNode& n) {
    return std::vector<Expr>{n.input(0) + n.input(0).constant(Tensor(DType::kFloat64, {7}))};
  });
  Module bad = load_graph(between("y = my.BadFormula (s)"));
  text = failure([&] { bad.forward({x}); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "BadFormula"));

  register_op("my", "Absent", [](OpNode& n) { return std::vector<Expr>{n.input(0) + n.input(1)}; });
  Module absent = load_graph(between("y = my.Absent (s)"));
  text = failure([&] { absent.forward({x}); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "Absent"));
  CHECK(contains(text, "an absent value"));

  const auto identity = [](OpNode& n) { return std::vector<Expr>{n.input(0)}; };
  register_op("my", "ManyGradients", identity);
  register_gradient("my", "ManyGradients", [](const GradientNode& n) {
    return std::vector<Expr>(2, n.output_gradients[0]);
  });
  Module many = load_graph(between("y = my.ManyGradients (s)"));
  text = failure([&] { many.forward({x}); }, ErrorCode::kUsage);
  CHECK(contains(text, "ManyGradients"));
  CHECK(contains(text, "2 gradients for 1"));

  register_op("my", "OtherShape", identity);
  register_gradient("my", "OtherShape", [](const GradientNode& n) {
    return std::vector<Expr>{sum(n.output_gradients[0])};
  });
  Module shape = load_graph(between("y = my.OtherShape (s)"));
  text = failure([&] { shape.forward({x}); }, ErrorCode::kUsage);
  CHECK(contains(text, "OtherShape"));
  CHECK(contains(text, "[2,3]"));
}

}  // namespace
}  // namespace trainrt
