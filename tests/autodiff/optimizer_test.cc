// Several steps of each optimizer against PyTorch's formulas, written out here on their own.
#include "autodiff/optimizer.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "graph/verify.h"
#include "kernels/reference/evaluate.h"

namespace trainrt::test {
namespace {

const std::vector<double> kStart = {1.0, -2.0, 0.5};

double gradient_at(int step, size_t i) { return std::sin(1.7 * step + static_cast<double>(i)); }

/// Runs `steps` updates through the graph.
std::vector<double> run(const OptimizerAttrs& attrs, double lr, int steps, double scale = 1) {
  Graph graph;
  Builder b(graph);
  const Var w = b.input({"w", InputRole::kParameter, DType::kFloat64, {3}});
  const Var g = b.input({"g", InputRole::kGradient, DType::kFloat64, {3}});
  const Var hyper = b.input({"hyper", InputRole::kHyper, DType::kFloat64, {2}});
  add_updates(b, attrs, {{"w", w, g}}, hyper, scale == 1 ? Var() : b.fill(DType::kFloat64, scale));
  CHECK(b.section() == Section::kForward);
  verify(graph);
  std::map<std::string, Tensor> inputs = {{"w", Tensor::from<double>(std::span(kStart), {3})}};
  for (const std::string& slot : optimizer_slots(attrs.kind)) {
    inputs[slot + "/w"] = Tensor(DType::kFloat64, {3});
  }
  for (int step = 1; step <= steps; ++step) {
    inputs["hyper"] = Tensor::from<double>({lr, static_cast<double>(step)}, {2});
    inputs["g"] = Tensor::from<double>(
        {gradient_at(step, 0), gradient_at(step, 1), gradient_at(step, 2)}, {3});
    evaluate_graph(graph, inputs);
  }
  const auto data = inputs["w"].data<double>();
  return {data.begin(), data.end()};
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("element " << i << ": found " << found[i] << ", expected " << expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= 1e-13 * std::max(1.0, std::abs(expected[i])));
  }
}

std::vector<double> sgd_by_hand(double lr, int steps, double decay, double momentum,
                                double dampening, bool nesterov, double scale = 1) {
  std::vector<double> w = kStart, buffer(3, 0);
  for (int step = 1; step <= steps; ++step) {
    for (size_t i = 0; i < 3; ++i) {
      const double g = scale * gradient_at(step, i) + decay * w[i];
      double move = g;
      if (momentum != 0) {
        buffer[i] = step == 1 ? g : momentum * buffer[i] + (1 - dampening) * g;
        move = nesterov ? g + momentum * buffer[i] : buffer[i];
      }
      w[i] -= lr * move;
    }
  }
  return w;
}

std::vector<double> adam_by_hand(double lr, int steps, const OptimizerAttrs& a) {
  std::vector<double> w = kStart, m(3, 0), v(3, 0);
  const bool decoupled = a.kind == OptimizerKind::kAdamW;
  for (int t = 1; t <= steps; ++t) {
    for (size_t i = 0; i < 3; ++i) {
      double g = gradient_at(t, i);
      if (decoupled) {
        w[i] *= 1 - lr * a.weight_decay;
      } else {
        g += a.weight_decay * w[i];
      }
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * g;
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
      const double mean = m[i] / (1 - std::pow(a.beta1, t));
      const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(a.beta2, t));
      w[i] -= lr * mean / (root + a.epsilon);
    }
  }
  return w;
}

OptimizerAttrs of_kind(OptimizerKind kind) {
  OptimizerAttrs attrs;
  attrs.kind = kind;
  return attrs;
}

std::string message_of(const std::string& text) {
  try {
    double lr = 0;
    parse_optimizer(text, &lr);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUsage);
    return e.what();
  }
  return "";
}

TEST_CASE("sgd") {
  check_close(run(of_kind(OptimizerKind::kSgd), 0.1, 4), sgd_by_hand(0.1, 4, 0, 0, 0, false));
}

TEST_CASE("sgd with weight decay") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kSgd);
  attrs.weight_decay = 0.2;
  check_close(run(attrs, 0.1, 4), sgd_by_hand(0.1, 4, 0.2, 0, 0, false));
}

TEST_CASE("momentum: the first step takes the plain gradient") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kMomentum);
  attrs.dampening = 0.5;
  check_close(run(attrs, 0.1, 1), sgd_by_hand(0.1, 1, 0, 0.9, 0.5, false));
}

TEST_CASE("momentum over several steps") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kMomentum);
  check_close(run(attrs, 0.1, 5), sgd_by_hand(0.1, 5, 0, 0.9, 0, false));
  attrs.dampening = 0.3;
  attrs.weight_decay = 0.1;
  attrs.momentum = 0.8;
  check_close(run(attrs, 0.1, 5), sgd_by_hand(0.1, 5, 0.1, 0.8, 0.3, false));
}

TEST_CASE("nesterov over several steps") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kNesterov);
  attrs.weight_decay = 0.1;
  check_close(run(attrs, 0.1, 5), sgd_by_hand(0.1, 5, 0.1, 0.9, 0, true));
}

TEST_CASE("adam over several steps: bias correction and coupled decay") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kAdam);
  check_close(run(attrs, 0.01, 1), adam_by_hand(0.01, 1, attrs));
  attrs.weight_decay = 0.1;
  attrs.beta1 = 0.8;
  attrs.beta2 = 0.95;
  attrs.epsilon = 1e-3;
  check_close(run(attrs, 0.01, 6), adam_by_hand(0.01, 6, attrs));
}

TEST_CASE("adamw over several steps: decoupled decay") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kAdamW);
  attrs.weight_decay = 0.1;
  check_close(run(attrs, 0.01, 6), adam_by_hand(0.01, 6, attrs));
}

TEST_CASE("the gradient scale multiplies gradients, not the decay") {
  OptimizerAttrs attrs = of_kind(OptimizerKind::kMomentum);
  attrs.weight_decay = 0.1;
  check_close(run(attrs, 0.1, 3, 0.25), sgd_by_hand(0.1, 3, 0.1, 0.9, 0, false, 0.25));
}

TEST_CASE("updates are state outputs of the update section, slots are named after parameters") {
  Graph graph;
  Builder b(graph);
  std::vector<UpdateTarget> targets;
  const Var hyper = b.input({"hyper", InputRole::kHyper, DType::kFloat64, {2}});
  for (const char* name : {"fc.weight", "fc.bias"}) {
    targets.push_back({name, b.input({name, InputRole::kParameter, DType::kFloat32, {2}}),
                       b.fill(DType::kFloat32, 1, {2})});
  }
  add_updates(b, of_kind(OptimizerKind::kAdam), targets, hyper, Var());
  verify(graph);
  const auto slots = optimizer_slots(OptimizerKind::kAdam);
  CHECK(graph.inputs(InputRole::kOptimizerState).size() == 2 * slots.size());
  for (const char* name : {"fc.weight", "fc.bias"}) {
    CHECK(static_cast<bool>(graph.find_output(name, OutputRole::kState)));
    for (const std::string& slot : slots) {
      const std::string full = slot + "/" + name;
      CHECK(static_cast<bool>(graph.find_input(full, InputRole::kOptimizerState)));
      CHECK(static_cast<bool>(graph.find_output(full, OutputRole::kState)));
    }
  }
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kOptimizerUpdate) CHECK(node.section == Section::kUpdate);
  }
}

TEST_CASE("parsing optimizers: defaults") {
  double lr = 0.125;
  const OptimizerAttrs adamw = parse_optimizer("adamw", &lr);
  CHECK(adamw.kind == OptimizerKind::kAdamW);
  CHECK(adamw.weight_decay == 0.01);
  CHECK(adamw.beta1 == 0.9);
  CHECK(adamw.beta2 == 0.999);
  CHECK(adamw.epsilon == 1e-8);
  CHECK(lr == 0.125);
  CHECK(parse_optimizer("adam", nullptr).weight_decay == 0);
  CHECK(parse_optimizer("momentum", nullptr).momentum == 0.9);
  CHECK(default_learning_rate(OptimizerKind::kAdam) == 1e-3);
  CHECK(default_learning_rate(OptimizerKind::kSgd) == 1e-2);
  for (auto kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov,
                    OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const OptimizerAttrs attrs = parse_optimizer(std::string(optimizer_name(kind)), nullptr);
    CHECK(attrs.kind == kind);
    CHECK(attrs.weight_decay == default_weight_decay(kind));
  }
}

TEST_CASE("parsing optimizers: keys") {
  double lr = 0;
  const OptimizerAttrs attrs =
      parse_optimizer("adam:lr=3e-4,beta1=0.8,beta2=0.99,eps=1e-6,weight_decay=0.1", &lr);
  CHECK(lr == 3e-4);
  CHECK(attrs.beta1 == 0.8);
  CHECK(attrs.beta2 == 0.99);
  CHECK(attrs.epsilon == 1e-6);
  CHECK(attrs.weight_decay == 0.1);
  CHECK(parse_optimizer("momentum:momentum=0.5,dampening=0.1", nullptr).dampening == 0.1);
}

TEST_CASE("parsing optimizers: what is wrong is named") {
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(message_of("adan"), "adan");
  contains(message_of("adan"), "adamw");
  contains(message_of("adam:momentum=0.9"), "momentum");
  contains(message_of("adam:momentum=0.9"), "beta1");
  contains(message_of("nesterov:dampening=0.9"), "dampening");
  contains(message_of("adam:lr"), "key=value");
  contains(message_of("adam:lr=fast"), "fast");
  contains(message_of("adam:lr=-1"), "-1");
  contains(message_of("adam:beta1=1"), "beta1");
  contains(message_of("adam:lr=nan"), "nan");
  contains(message_of("adam:lr=inf"), "inf");
  contains(message_of("adam:lr=1x"), "1x");
  contains(message_of("adam:"), "key=value");
  contains(message_of(""), "there is no optimizer");
}

double clipped(std::vector<double> a, std::vector<double> b, double max_norm) {
  Graph graph;
  Builder builder(graph);
  const std::vector<Var> g = {
      builder.constant(Tensor::from<double>(std::span<const double>(a), {1, 2})),
      builder.constant(Tensor::from<double>(std::span<const double>(b), {1}))};
  const Var scale = clip_scale(builder, g, max_norm);
  CHECK(scale.type() == TensorType{DType::kFloat64, {}});
  graph.add_output("scale", scale.id());
  return evaluate_graph(graph, {}).at("scale").item();
}

TEST_CASE("clipping by the global norm") {
  CHECK(std::abs(clipped({2, 3}, {6}, 3.5) - 3.5 / (7 + 1e-6)) < 1e-15);
  CHECK(clipped({2, 3}, {6}, 8) == 1);
  CHECK(clipped({0, 0}, {0}, 1) == 1);
  CHECK(clipped({2, 3}, {6}, 0) == 0);
}

TEST_CASE("a gradient that is not finite does not pass the clipping as 1") {
  CHECK(std::isnan(clipped({NAN, 3}, {6}, 1)));
  CHECK(clipped({INFINITY, 3}, {6}, 1) == 0);
}

}  // namespace
}  // namespace trainrt::test
