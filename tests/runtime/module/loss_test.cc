// Losses of the program's own: functions of formulas, and ONNX graphs.
#include "trainrt/loss.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/model_util.h"
#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::ids;
using testing::largest_difference;
using testing::numbers;

/// a = x w, b = exp(a); the loss is mean((a - t)^2) + 3 sum(|b - u|^1.5) / 4.
Expr two_terms(const LossGraph& graph) {
  const Expr off = graph.output("a") - graph.target("a");
  const Expr other = abs(graph.output(1) - graph.target("b"));
  return mean(square(off)) + 3.0 * sum(pow(other, 1.5)) / 4.0;
}

struct Truth {
  double loss = 0;
  Tensor dw{DType::kFloat64, {2}};
};

Truth two_terms_by_hand(const TensorMap& batch, const Tensor& weights) {
  Truth truth;
  const auto x = batch.at("x").data<double>(), w = weights.data<double>(),
             t = batch.at("target/a").data<double>(), u = batch.at("target/b").data<double>();
  const auto n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i] * w[i % 2], b = std::exp(a), off = b - u[i];
    truth.loss += (a - t[i]) * (a - t[i]) / n + 3 * std::pow(std::abs(off), 1.5) / 4;
    const double da =
        2 * (a - t[i]) / n + 3 * 1.5 * std::sqrt(std::abs(off)) * (off < 0 ? -1 : 1) / 4 * b;
    truth.dw.data<double>()[i % 2] += da * x[i];
  }
  return truth;
}

TensorMap two_target_batch(int64_t samples = 3) {
  return {{"x", numbers({samples, 2}, 1)},
          {"target/a", numbers({samples, 2}, 2)},
          {"target/b", numbers({samples, 2}, 3)}};
}

Module two_outputs() { return testing::load(testing::two_output_model(), exact()); }

/// w - rate dw
Tensor moved(const Tensor& weights, const Tensor& dw, double rate) {
  Tensor result = weights.clone();
  for (size_t i = 0; i < static_cast<size_t>(dw.size()); ++i) {
    result.data<double>()[i] -= rate * dw.data<double>()[i];
  }
  return result;
}

TEST_CASE("a loss of formulas over two outputs", "[attach_loss]") {
  Module model = two_outputs();
  model.attach_loss(two_terms);
  for (const int64_t samples : {3, 5}) {
    const TensorMap batch = two_target_batch(samples);
    const Truth truth = two_terms_by_hand(batch, model.get_parameter("w").value());
    model.zero_grad();
    const Outputs outputs = model.forward(batch);
    CHECK(outputs.size() == 3);
    CHECK(std::abs(outputs["loss"].item() - truth.loss) < 1e-14);
    model.backward();
    CHECK(largest_difference(model.get_parameter("w").grad(), truth.dw) < 1e-13);
  }
}

TEST_CASE("the fused steps of Module and Trainer take the attached loss",
          "[attach_loss][train_step]") {
  Module model = two_outputs(), other = two_outputs();
  model.attach_loss(two_terms);
  other.attach_loss(two_terms);
  Optimizer optimizer(model, "sgd:lr=0.1");
  TrainerOptions options;
  options.losses = {};
  options.optimizer = "sgd:lr=0.1";
  Trainer trainer(other, options);
  const TensorMap batch = two_target_batch();
  for (int step = 0; step < 3; ++step) {
    const Tensor before = model.get_parameter("w").value().clone();
    const Truth truth = two_terms_by_hand(batch, before);
    CHECK(std::abs(trainer.evaluate(batch).loss - truth.loss) < 1e-14);
    CHECK(largest_difference(trainer.grad(batch).grads.at("w"), truth.dw) < 1e-13);
    CHECK(std::abs(model.train_step(batch, optimizer).loss - truth.loss) < 1e-14);
    CHECK(std::abs(trainer.step(batch).loss - truth.loss) < 1e-14);
    const Tensor after = moved(before, truth.dw, 0.1);
    CHECK(largest_difference(model.get_parameter("w").value(), after) < 1e-14);
    CHECK(largest_difference(other.get_parameter("w").value(), model.get_parameter("w").value()) ==
          0);
  }
}

TEST_CASE("in eval mode the loss is there when the targets are", "[attach_loss]") {
  Module model = two_outputs();
  model.attach_loss(two_terms);
  model.eval();
  const TensorMap batch = two_target_batch();
  const Truth truth = two_terms_by_hand(batch, model.get_parameter("w").value());
  CHECK(std::abs(model.forward(batch)["loss"].item() - truth.loss) < 1e-14);
  CHECK(!model.forward({batch.at("x")}).contains("loss"));
}

TEST_CASE("losses of functions and names replace each other", "[attach_loss]") {
  Module model = two_outputs();
  const TensorMap batch = {{"x", numbers({3, 2}, 1)}, {"target", numbers({3, 2}, 2)}};
  const auto loss = [&] { return model.forward(batch)["loss"].item(); };
  model.attach_loss({"mse:a"});
  const double squared = loss();
  model.attach_loss([](const LossGraph& g) {
    return 2.0 * mean(square(g.output("a") - g.target())) + (g.has_target("a") ? 100.0 : 0.0);
  });
  CHECK(std::abs(loss() - 2 * squared) < 1e-14);
  model.attach_loss({"mse:a"});
  CHECK(loss() == squared);
}

TEST_CASE("class ids come as int64, whatever integers they were", "[attach_loss]") {
  Module model = testing::load(testing::mlp_model(), exact());
  model.attach_loss([](const LossGraph& g) {
    CHECK(g.target().dtype() == DType::kInt64);
    return mean(cross_entropy(g.output("y"), g.target()));
  });
  const Tensor x = numbers({2, 4}), y = model.forward({{"x", x}, {"target", ids({2, 0})}})["y"];
  double expected = 0;
  for (const auto& [row, id] : {std::pair(0, 2), std::pair(1, 0)}) {
    const auto scores = y.rows(row, row + 1).data<double>();
    double sum = 0;
    for (double s : scores) sum += std::exp(s);
    expected += (std::log(sum) - scores[static_cast<size_t>(id)]) / 2;
  }
  for (const Tensor& target : {ids({2, 0}), ids({2, 0}).to(DType::kInt32)}) {
    CHECK(std::abs(model.forward({{"x", x}, {"target", target}})["loss"].item() - expected) <
          1e-14);
  }
}

TEST_CASE("every formula has its value and its gradient") {
  struct Row {
    const char* name;
    Expr (*formula)(Expr);
    double (*value)(double);
  };
  const Row rows[] = {
      {"+", [](Expr x) { return x + x; }, [](double x) { return 2 * x; }},
      {"-", [](Expr x) { return 3.0 - x - 2.0 - (-x) * 4.0; },
       [](double x) { return 3 - x - 2 + x * 4; }},
      {"/", [](Expr x) { return 1.0 / (x + 3.0) + x / 2.0 + x / (x + 4.0); },
       [](double x) { return 1 / (x + 3) + x / 2 + x / (x + 4); }},
      {"exp", [](Expr x) { return exp(x); }, [](double x) { return std::exp(x); }},
      {"log", [](Expr x) { return log(x + 2.0); }, [](double x) { return std::log(x + 2); }},
      {"sqrt", [](Expr x) { return sqrt(2.0 + x); }, [](double x) { return std::sqrt(x + 2); }},
      {"square", [](Expr x) { return square(x); }, [](double x) { return x * x; }},
      {"abs", [](Expr x) { return abs(x); }, [](double x) { return std::abs(x); }},
      {"sign", [](Expr x) { return sign(x) * x; }, [](double x) { return std::abs(x); }},
      {"tanh", [](Expr x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
      {"sigmoid", [](Expr x) { return sigmoid(x); },
       [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"erf", [](Expr x) { return erf(x); }, [](double x) { return std::erf(x); }},
      {"relu", [](Expr x) { return relu(x); }, [](double x) { return std::max(x, 0.0); }},
      {"softplus", [](Expr x) { return softplus(x); },
       [](double x) { return std::log(1 + std::exp(x)); }},
      {"sin", [](Expr x) { return sin(x); }, [](double x) { return std::sin(x); }},
      {"cos", [](Expr x) { return cos(x); }, [](double x) { return std::cos(x); }},
      {"pow", [](Expr x) { return pow(x + 2.0, 2.5); },
       [](double x) { return std::pow(x + 2, 2.5); }},
      {"maximum", [](Expr x) { return maximum(x, x * x * 3.0); },
       [](double x) { return std::max(x, x * x * 3); }},
      {"minimum", [](Expr x) { return minimum(x, x * x * 3.0); },
       [](double x) { return std::min(x, x * x * 3); }},
      {"clip", [](Expr x) { return clip(x, -0.3, 0.4) * x; },
       [](double x) { return std::clamp(x, -0.3, 0.4) * x; }},
      {"where", [](Expr x) { return where(less(x, x.constant(0.1)), 2.0 * x, square(x)); },
       [](double x) { return x < 0.1 ? 2 * x : x * x; }},
      {"greater", [](Expr x) { return where(greater(x, x.constant(0.1)), 2.0 * x, square(x)); },
       [](double x) { return x > 0.1 ? 2 * x : x * x; }},
      {"equal", [](Expr x) { return cast(equal(x, x), x.dtype()) * x; },
       [](double x) { return x; }},
      {"reshape", [](Expr x) { return reshape(reshape(x, {-1}), x.shape()) * x; },
       [](double x) { return x * x; }},
      {"transpose",
       [](Expr x) {
         return transpose(square(transpose(x, {1, 0})), {1, 0});
       },
       [](double x) { return x * x; }},
      {"expand",
       [](Expr x) {
         return mean(square(expand(reshape(x, {1, 3, 2}), {4, 3, 2})), {0});
       },
       [](double x) { return x * x; }},
      {"slice",
       [](Expr x) {
         return concat(std::vector<Expr>{slice(x, 0, 0, 1),
                                         square(slice(x, 0, 1, 2)) + slice(x, 0, 1, 2)},
                       0) +
                0.0 * x;
       },
       nullptr},
      {"softmax", [](Expr x) { return log(softmax(x)) - log_softmax(x, 1) + square(x); },
       [](double x) { return x * x; }},
      {"max", [](Expr x) { return x * (max(x) - min(x, {}, true) - max(x) + min(x)) + exp(x); },
       [](double x) { return std::exp(x); }},
  };
  // a = x w [3,2] with x = 1: the loss is sum(weight f(a)).
  Tensor x(DType::kFloat64, {3, 2});
  const double inputs[] = {1, 1, 0.5, -0.5, -1.5, 0.7};
  std::copy(std::begin(inputs), std::end(inputs), x.data<double>().begin());
  const Tensor weight = numbers({3, 2}, 4);
  for (const Row& row : rows) {
    INFO(row.name);
    Module model = two_outputs();
    model.attach_loss([&](const LossGraph& g) {
      const Expr a = g.output("a");
      return sum(row.formula(a) * a.constant(weight));
    });
    const auto w = model.get_parameter("w").value().data<double>();
    const auto value_at = [&](size_t i, double v) {
      if (row.value != nullptr) return row.value(v);
      return i < 2 ? v : v * v + v;  // slice: its first row, and the others
    };
    double expected = 0, dw[2] = {};
    for (size_t i = 0; i < 6; ++i) {
      const double a = inputs[i] * w[i % 2], h = 1e-6, c = weight.data<double>()[i];
      expected += c * value_at(i, a);
      dw[i % 2] += c * inputs[i] * (value_at(i, a + h) - value_at(i, a - h)) / (2 * h);
    }
    CHECK(std::abs(model.forward({x})["loss"].item() - expected) < 1e-13);
    model.backward();
    const Tensor grad = model.get_parameter("w").grad();
    for (size_t k = 0; k < 2; ++k) CHECK(std::abs(grad.data<double>()[k] - dw[k]) < 1e-8);
  }
}

TEST_CASE("products, gathered rows and stopped gradients in a loss") {
  Module model = two_outputs();
  const Tensor x = numbers({3, 2}), m = numbers({2, 2}, 5);
  model.attach_loss([&](const LossGraph& g) {
    const Expr a = g.output("a");
    const Expr rows = gather(a, a.constant(Tensor::of_ints(std::vector<int64_t>{2, 0})), 0);
    CHECK(rows.shape() == Shape{2, 2});
    CHECK(rows.dim(-1) == 2);
    CHECK(rows.rank() == 2);
    CHECK(rows.size() == 4);
    return sum(matmul(rows, a.constant(m)) * stop_gradient(rows));
  });
  const auto w = model.get_parameter("w").value().data<double>();
  double expected = 0, dw[2] = {};
  for (const size_t r : {2u, 0u}) {
    const double a[] = {x.data<double>()[2 * r] * w[0], x.data<double>()[2 * r + 1] * w[1]};
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        expected += a[i] * m.data<double>()[2 * i + j] * a[j];
        dw[i] += x.data<double>()[2 * r + i] * m.data<double>()[2 * i + j] * a[j];
      }
    }
  }
  CHECK(std::abs(model.forward({x})["loss"].item() - expected) < 1e-14);
  model.backward();
  for (size_t k = 0; k < 2; ++k) {
    CHECK(std::abs(model.get_parameter("w").grad().data<double>()[k] - dw[k]) < 1e-14);
  }
}

TEST_CASE("losses that make no sense are refused", "[attach_loss]") {
  Module model = two_outputs();
  const TensorMap batch = two_target_batch();
  const auto refused = [&](LossFunction loss, ErrorCode code) {
    model.attach_loss(std::move(loss));
    return failure([&] { model.forward(batch); }, code);
  };
  CHECK(contains(failure([&] { model.attach_loss(LossFunction()); }, ErrorCode::kUsage),
                 "needs a function"));
  Module hooks("tests/runtime/module/hooks_script.onnx");
  CHECK(contains(
      failure([&] { hooks.get_submodule("enc").attach_loss(two_terms); }, ErrorCode::kUsage),
      "'enc'"));
  std::string text = refused([](const LossGraph& g) { return g.output(0); }, ErrorCode::kUsage);
  CHECK(contains(text, "float64[3,2]"));
  text = refused([](const LossGraph&) { return Expr(); }, ErrorCode::kUsage);
  CHECK(contains(text, "absent"));
  text = refused([](const LossGraph& g) { return sum(g.output("c")); }, ErrorCode::kUsage);
  CHECK(contains(text, "'c'"));
  CHECK(contains(text, "a, b"));
  text = refused([](const LossGraph& g) { return sum(g.output(2)); }, ErrorCode::kUsage);
  CHECK(contains(text, "output 2 of 2"));
  text = refused([](const LossGraph& g) { return sum(g.target()); }, ErrorCode::kInput);
  CHECK(contains(text, "'target'"));
  text = refused(
      [](const LossGraph& g) { return sum(g.output(0) + g.output(0).constant(numbers({7}))); },
      ErrorCode::kInvalidModel);
  CHECK(contains(text, "[7]"));
  text = refused([](const LossGraph& g) { return sum(g.output(0).constant(1.0) + Expr()); },
                 ErrorCode::kUsage);
  CHECK(contains(text, "an absent value"));

  Module plain = two_outputs();
  TrainerOptions options;
  options.losses = {};
  text = failure([&] { Trainer(plain, options); }, ErrorCode::kUsage);
  CHECK(contains(text, "loss"));
}

// ---- ONNX graphs

Module loss_graph(const std::string& graph) {
  return testing::load(model_bytes(graph_text(graph)), exact());
}

TEST_CASE("an ONNX graph as loss: outputs by name, targets, weights as constants",
          "[attach_loss]") {
  // mean((a - t)^2) + 3 sum(|b - u|^1.5) / 4
  const std::string graph =
      "g (float[n,2] a, float[n,2] t, float[n,2] b, float[n,2] u) => (float l) "
      "<float three = {3}, float four = {4}, float power = {1.5}> {\n"
      "  off = Sub (a, t)\n  squares = Mul (off, off)\n  first = ReduceMean <keepdims = 0> "
      "(squares)\n"
      "  other = Sub (b, u)\n  size = Abs (other)\n  raised = Pow (size, power)\n"
      "  total = ReduceSum <keepdims = 0> (raised)\n  scaled = Mul (three, total)\n"
      "  second = Div (scaled, four)\n  l = Add (first, second)\n}";
  Module model = two_outputs();
  {
    const Module loss = loss_graph(graph);
    model.attach_loss(loss);
  }  // the graph stays
  TensorMap batch = two_target_batch();
  const Truth truth = two_terms_by_hand(batch, model.get_parameter("w").value());
  batch = {
      {"x", batch.at("x")}, {"target/t", batch.at("target/a")}, {"target/u", batch.at("target/b")}};
  CHECK(std::abs(model.forward(batch)["loss"].item() - truth.loss) < 1e-14);
  model.backward();
  CHECK(largest_difference(model.get_parameter("w").grad(), truth.dw) < 1e-13);

  const Tensor after = moved(model.get_parameter("w").value(), truth.dw, 0.1);
  Optimizer optimizer(model, "sgd:lr=0.1");
  CHECK(std::abs(model.train_step(batch, optimizer).loss - truth.loss) < 1e-14);
  CHECK(largest_difference(model.get_parameter("w").value(), after) < 1e-14);
}

TEST_CASE("a loss graph with one target takes it as 'target'; float32 weights serve float64 models",
          "[attach_loss]") {
  const std::string graph =
      "g (float[n,2] a, float[n,2] t) => (float[1] l) <float[2] scale = {0.5, 2}> {\n"
      "  off = Sub (a, t)\n  squares = Mul (off, off)\n  scaled = Mul (squares, scale)\n"
      "  l = ReduceSum <keepdims = 0> (scaled)\n}";
  Module model = two_outputs();
  ModuleOptions plain;  // float32
  model.attach_loss(testing::load(model_bytes(graph_text(graph)), plain));
  const Tensor x = numbers({3, 2}, 1), t = numbers({3, 2}, 2);
  const auto w = model.get_parameter("w").value().data<double>();
  double expected = 0, dw[2] = {};
  for (size_t i = 0; i < 6; ++i) {
    const double off = x.data<double>()[i] * w[i % 2] - t.data<double>()[i];
    const double scale = i % 2 == 0 ? 0.5 : 2;
    expected += scale * off * off;
    dw[i % 2] += 2 * scale * off * x.data<double>()[i];
  }
  for (const char* name : {"target", "target/t"}) {
    model.zero_grad();
    CHECK(std::abs(model.forward({{"x", x}, {name, t}})["loss"].item() - expected) < 1e-14);
    model.backward();
    for (size_t k = 0; k < 2; ++k) {
      CHECK(std::abs(model.get_parameter("w").grad().data<double>()[k] - dw[k]) < 1e-14);
    }
  }
}

TEST_CASE("a loss graph with class ids", "[attach_loss]") {
  Module model = testing::load(testing::mlp_model(), exact());
  const Tensor x = numbers({2, 4});
  const TensorMap batch = {{"x", x}, {"target", ids({2, 0})}};
  model.attach_loss({"cross_entropy"});
  const double expected = model.forward(batch)["loss"].item();
  model.backward();
  const Tensor grad = model.get_parameter("fc1.weight").grad().clone();
  model.zero_grad();
  model.attach_loss(
      loss_graph("g (float[n,3] y, int64[n] id) => (float l) {\n"
                 "  l = SoftmaxCrossEntropyLoss (y, id)\n}"));
  CHECK(std::abs(model.forward(batch)["loss"].item() - expected) < 1e-14);
  model.backward();
  CHECK(largest_difference(model.get_parameter("fc1.weight").grad(), grad) < 1e-14);
}

TEST_CASE("integer targets serve as numbers in a loss graph, numbers not as ids", "[attach_loss]") {
  Module model = two_outputs();
  const Tensor x = numbers({3, 2}), whole = ids({1, 0, -2, 3, 1, 1}).reshape({3, 2});
  model.attach_loss(
      loss_graph("g (float[n,2] t, float[n,2] a) => (float l) {\n"
                 "  off = Sub (a, t)\n  size = Abs (off)\n"
                 "  l = ReduceSum <keepdims = 0> (size)\n}"));
  double expected = 0;
  for (size_t i = 0; i < 6; ++i) {
    const double w = model.get_parameter("w").value().data<double>()[i % 2];
    expected += std::abs(x.data<double>()[i] * w - static_cast<double>(whole.data<int64_t>()[i]));
  }
  CHECK(std::abs(model.forward({{"x", x}, {"target", whole}})["loss"].item() - expected) < 1e-14);
  CHECK(std::abs(model.forward({{"x", x}, {"target", whole.to(DType::kFloat64)}})["loss"].item() -
                 expected) < 1e-14);

  model.attach_loss(
      loss_graph("g (float[n,2] a, int64[n] id) => (float l) {\n"
                 "  l = SoftmaxCrossEntropyLoss (a, id)\n}"));
  const std::string text = failure(
      [&] {
        model.forward({{"x", x}, {"target", numbers({3})}});
      },
      ErrorCode::kInput);
  CHECK(contains(text, "id: expected int64[n], given float64[3]"));
}

TEST_CASE("loss graphs that do not fit are refused", "[attach_loss]") {
  Module model = two_outputs();
  const TensorMap batch = {{"x", numbers({3, 2})}, {"target", numbers({3, 2}, 2)}};
  std::string text = failure(
      [&] {
        model.attach_loss(
            loss_graph("g (float[n,2] a) => (float[n,2] l, float[n,2] m) {\n"
                       "  l = Relu (a)\n  m = Relu (l)\n}"));
      },
      ErrorCode::kUsage);
  CHECK(contains(text, "one output, this one has 2"));
  model.attach_loss(loss_graph("g (float[n,2] a) => (float[n,2] l) {\n  l = Relu (a)\n}"));
  text = failure([&] { model.forward(batch); }, ErrorCode::kUsage);
  CHECK(contains(text, "float64[3,2]"));
  model.attach_loss(
      loss_graph("g (float[n,2] a, float[n,2] t, float[n,2] u) => (float l) {\n"
                 "  s = Sum (a, t, u)\n  l = ReduceSum <keepdims = 0> (s)\n}"));
  text = failure([&] { model.forward(batch); }, ErrorCode::kInput);
  CHECK(contains(text, "target/t"));
  model.attach_loss(
      loss_graph("g (float[n,2] a) => (float l) {\n"
                 "  s = Nowhere (a)\n  l = ReduceSum <keepdims = 0> (s)\n}"));
  text = failure([&] { model.forward(batch); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "Nowhere"));
  model.attach_loss(
      loss_graph("g (float[n,2] a, float[k,5] t) => (float l) {\n"
                 "  s = MatMul (a, t)\n  l = ReduceSum <keepdims = 0> (s)\n}"));
  text = failure([&] { model.forward(batch); }, ErrorCode::kInput);
  CHECK(contains(text, "t: expected"));
  CHECK(contains(text, "[k,5], given float64[3,2]"));
  model.attach_loss(
      loss_graph("g (float[n,2] a, float[k,m] t) => (float l) {\n"
                 "  s = MatMul (a, t)\n  l = ReduceSum <keepdims = 0> (s)\n}"));
  text = failure([&] { model.forward(batch); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "MatMul"));
}

TEST_CASE("a run with a loss of the program's own goes on from its checkpoint", "[attach_loss]") {
  TemporaryFolder folder;
  const TensorMap batch = {{"x", numbers({2, 4})}, {"target", numbers({2, 3}, 2)}};
  TrainerOptions options;
  options.losses = {};
  options.optimizer = "adam:lr=0.1";
  const auto make = [] {
    Module model = testing::load(testing::mlp_model(), exact());
    // Each is another function to the library.
    model.attach_loss([](const LossGraph& g) { return mean(square(g.output(0) - g.target())); });
    return model;
  };
  Module model = make(), again = make();
  Trainer trainer(model, options), resumed(again, options);
  trainer.step(batch);
  trainer.save_checkpoint(folder / "run");
  resumed.load_checkpoint(folder / "run");
  CHECK(trainer.step(batch).loss == resumed.step(batch).loss);
  CHECK(largest_difference(model.parameters()[0].value(), again.parameters()[0].value()) == 0);
  options.losses = {"mse"};
  Trainer other(again, options);
  failure([&] { other.load_checkpoint(folder / "run"); }, ErrorCode::kInput);
}

}  // namespace
}  // namespace trainrt
