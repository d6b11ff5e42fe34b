// Gradients that are taken before a max-pool instead of behind it: what is found, what is left
// alone, and that values stay.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "autodiff/autodiff.h"
#include "graph/passes/passes.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "kernels/reference/evaluate.h"

namespace trainrt {
namespace {

constexpr char kHead[] =
    "%x = Input() name=\"x\" shape=[2,3,4,6]\n"
    "%dy = Input() name=\"dy\" shape=[2,3,2,3]\n"
    "%r = Relu(%x)\n";
constexpr char kWindows[] =
    " kernel=[2,2] strides=[2,2] dilations=[1,1] pads_begin=[0,0] pads_end=[0,0] output=[2,3]\n";
// As many of them, elsewhere.
constexpr char kOthers[] =
    " kernel=[2,2] strides=[2,2] dilations=[1,1] pads_begin=[1,0] pads_end=[0,0] output=[2,3]\n";

/// "$" stands for the windows above.
std::string with_windows(const std::string& body) {
  std::string text = kHead;
  for (char c : body) text += c == '$' ? kWindows : std::string(1, c);
  return text;
}

void becomes(const std::string& body, const std::string& wanted) {
  INFO(body);
  Graph g = parse_graph(with_windows(body));
  CHECK(make_pool_grad_pass()->run(g));
  verify(g);
  Graph want = parse_graph(with_windows(wanted));
  for (Graph* each : {&g, &want}) make_dead_code_pass()->run(*each);
  CHECK(print(g) == print(want));
}

void stays(const std::string& body) {
  INFO(body);
  Graph g = parse_graph(with_windows(body));
  CHECK_FALSE(make_pool_grad_pass()->run(g));
  CHECK(print(g) == print(parse_graph(with_windows(body))));
}

TEST_CASE("pool_grad: the gradient of a ReLU is taken on the pooled image") {
  becomes(
      "%p = MaxPool(%r)$backward:\n%d = MaxPoolGrad(%dy, %r)$%g = ReluGrad(%d, %r)\n"
      "return o=%p q=%g",
      "%p = MaxPool(%r)$backward:\n%d = ReluGrad(%dy, %p)\n%g = MaxPoolGrad(%d, %r)$"
      "return o=%p q=%g");
}

TEST_CASE("pool_grad: the gradient of a ReLU stays where the image is needed") {
  const std::string back = "backward:\n%d = MaxPoolGrad(%dy, %r)$%g = ReluGrad(%d, %r)\n";
  // No maxima, those of other windows, of another image, or later.
  stays(back + "return q=%g");
  stays("%p = MaxPool(%r)" + (kOthers + back) + "return o=%p q=%g");
  stays("%p = MaxPool(%x)$" + back + "return o=%p q=%g");
  stays(back + "%p = MaxPool(%r)$return o=%p q=%g");
  stays("backward:\n%p = MaxPool(%r)$forward:\n" + back.substr(back.find('%')) +
        "return o=%p q=%g");
  stays(
      "%p = MaxPool(%r)$backward:\n%d = MaxPoolGrad(%dy, %x)$%g = ReluGrad(%d, %r)\n"
      "return o=%p q=%g");
  // The spread gradient is read by others, is put out, or is masked by something else.
  stays("%p = MaxPool(%r)$" + back + "%e = Neg(%d)\nreturn o=%p q=%g e=%e");
  stays("%p = MaxPool(%r)$" + back + "return o=%p q=%g e=%d");
  stays(
      "%p = MaxPool(%r)$backward:\n%d = MaxPoolGrad(%dy, %r)$%g = ReluGrad(%d, %x)\n"
      "return o=%p q=%g");
  // State may have changed since its maxima were taken.
  stays(
      "%p = MaxPool(%x)$backward:\n%d = MaxPoolGrad(%dy, %x)$%g = ReluGrad(%d, %x)\n"
      "return o=%p q=%g");
}

TEST_CASE("pool_grad: as many windows as pixels stay") {
  const std::string same =
      " kernel=[3,3] strides=[1,1] dilations=[1,1] pads_begin=[1,1] pads_end=[1,1] output=[4,6]\n";
  stays("%p = MaxPool(%r)" + same + "backward:\n%d = MaxPoolGrad(%x, %r)" + same +
        "%g = ReluGrad(%d, %r)\nreturn o=%p q=%g");
}

TEST_CASE("pool_grad: sums over images read the pooled gradient") {
  const std::string back = "backward:\n%d = MaxPoolGrad(%dy, %r)$";
  for (const std::string axes : {"axes=[0,2,3]", "axes=[2,3] keepdims=true", "axes=[0,1,2,3]"}) {
    becomes(back + "%s = ReduceSum(%d) " + axes + "\nreturn q=%s",
            "backward:\n%s = ReduceSum(%dy) " + axes + "\nreturn q=%s");
  }
  // Whoever else reads the spread gradient.
  becomes(back + "%s = ReduceSum(%d) axes=[0,2,3]\nreturn q=%s e=%d",
          back + "%s = ReduceSum(%dy) axes=[0,2,3]\nreturn q=%s e=%d");
  for (const std::string axes : {"", "axes=[0]", "axes=[2]", "axes=[0,1,3]"}) {
    stays(back + "%s = ReduceSum(%d) " + axes + "\nreturn q=%s");
  }
  stays(back + "%s = ReduceMean(%d) axes=[0,2,3]\nreturn q=%s");
}

/// The gradients of relu(x + bias) through max-pools, one on top of the other.
struct Net {
  Graph graph;

  Net(const Shape& shape, std::span<const PoolAttrs> pools) {
    Builder b(graph);
    const Var x = b.input({"x", InputRole::kData, DType::kFloat64, shape});
    const Var bias = b.input({"bias", InputRole::kData, DType::kFloat64, {shape[1]}});
    Shape column(shape.size() - 1, 1);
    column[0] = shape[1];
    Var y = relu(x + reshape(bias, column));
    for (const PoolAttrs& pool : pools) y = b.add(Op::kMaxPool, {y}, pool);
    const Var dy = b.input({"dy", InputRole::kGradient, DType::kFloat64, y.shape()});
    const Seed seed{y, dy};
    const Var wrt[] = {x, bias};
    Diagnostics problems;
    const std::vector<Var> grads = differentiate(b, {&seed, 1}, wrt, problems);
    REQUIRE(problems.empty());
    graph.add_output("y", y.id());
    graph.add_output("x", grads[0].id(), OutputRole::kGradient);
    graph.add_output("bias", grads[1].id(), OutputRole::kGradient);
  }
};

/// Few distinct values, so that windows tie; among them zeros and, where asked for, no numbers.
std::map<std::string, Tensor> contents(const Graph& graph, bool special) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> images = {-2, -1, -1, -0.0, 0, 0, 1, 1, 2, kNaN, kInf, -kInf};
  std::mt19937 random(3);
  std::map<std::string, Tensor> result;
  for (NodeId id : graph.inputs()) {
    const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
    Tensor t(attrs.dtype, attrs.shape);
    for (double& v : t.data<double>()) {
      const bool is_gradient = attrs.role == InputRole::kGradient;
      v = std::uniform_real_distribution<double>(-2, 2)(random);
      if (is_gradient && special && random() % 8 == 0) v = random() % 2 == 0 ? kNaN : kInf;
      if (attrs.name == "x") v = images[random() % (images.size() - (special ? 0 : 3))];
      if (attrs.name == "bias") v = static_cast<double>(random() % 3) - 1;
    }
    result[attrs.name] = t;
  }
  return result;
}

int64_t masked(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kReluGrad) return graph.type(node.outputs[0]).size();
  }
  return 0;
}

bool sums(const Graph& graph, Op of) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return node.op == Op::kReduceSum && graph.producer(node.inputs[0]).op == of;
  });
}

void check_values(const Shape& shape, std::vector<PoolAttrs> pools) {
  const Net net(shape, pools);
  Graph after = net.graph;
  REQUIRE(make_pool_grad_pass()->run(after));
  make_dead_code_pass()->run(after);
  verify(after);
  INFO(print(net.graph) << "became\n" << print(after));
  // Both rules apply.
  CHECK(masked(after) < masked(net.graph));
  CHECK(sums(net.graph, Op::kReluGrad));
  CHECK_FALSE(sums(after, Op::kMaxPoolGrad));
  for (const bool special : {false, true}) {
    const auto inputs = contents(net.graph, special);
    auto want = evaluate_graph(net.graph, inputs), got = evaluate_graph(after, inputs);
    const auto dx = want.at("grad/x").data<double>(), new_dx = got.at("grad/x").data<double>();
    CHECK(std::memcmp(dx.data(), new_dx.data(), dx.size_bytes()) == 0);
    if (!special) CHECK(std::any_of(dx.begin(), dx.end(), [](double v) { return v != 0; }));
    const auto db = want.at("grad/bias").data<double>(),
               new_db = got.at("grad/bias").data<double>();
    REQUIRE(db.size() == new_db.size());
    for (size_t i = 0; i < db.size(); ++i) {
      INFO(i << ": " << db[i] << " became " << new_db[i]);
      const bool same = std::isfinite(db[i]) ? std::abs(db[i] - new_db[i]) < 1e-12
                                             : std::isnan(db[i]) == std::isnan(new_db[i]) &&
                                                   (std::isnan(db[i]) || db[i] == new_db[i]);
      CHECK(same);
    }
  }
}

PoolAttrs square(int64_t kernel, int64_t stride, int64_t dilation, int64_t before, int64_t after,
                 std::vector<int64_t> output) {
  const size_t n = output.size();
  PoolAttrs attrs;
  attrs.kernel.assign(n, kernel);
  attrs.strides.assign(n, stride);
  attrs.dilations.assign(n, dilation);
  attrs.pads_begin.assign(n, before);
  attrs.pads_end.assign(n, after);
  attrs.output = std::move(output);
  return attrs;
}

TEST_CASE("pool_grad: gradients keep their values") {
  check_values({3, 4, 8, 6}, {square(2, 2, 1, 0, 0, {4, 3})});
  // Windows that overlap, reach past the image on either side, leave holes, or leave pixels out.
  check_values({3, 4, 9, 7}, {square(3, 2, 1, 1, 1, {5, 4})});
  check_values({3, 4, 8, 6}, {square(3, 2, 1, 0, 0, {4, 3})});
  check_values({3, 4, 9, 9}, {square(3, 2, 2, 2, 2, {5, 5})});
  check_values({3, 4, 9, 9}, {square(2, 4, 1, 1, 0, {3, 3})});
  check_values({3, 4, 7, 7}, {square(7, 1, 1, 0, 0, {1, 1})});
  // One and three spatial dims.
  check_values({3, 4, 20}, {square(3, 2, 1, 1, 1, {10})});
  check_values({2, 3, 6, 4, 4}, {square(2, 2, 1, 0, 0, {3, 2, 2})});
}

TEST_CASE("pool_grad: pools on top of each other keep their values") {
  check_values({3, 4, 12, 8}, {square(2, 2, 1, 0, 0, {6, 4}), square(3, 2, 1, 1, 1, {3, 2})});
}

}  // namespace
}  // namespace trainrt
