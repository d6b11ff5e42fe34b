// LSTM, GRU and RNN against plain loops over samples, steps and units. The loops reverse each
// sequence by its own length, as ONNX describes it; the lowering masks instead.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <functional>

#include "tests/frontend/model_util.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;
using Function = std::function<double(double)>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Net {
  std::string op = "LSTM";
  int64_t steps = 4, batch = 3, input = 2, hidden = 5, directions = 1;
  bool backwards = false;  // when there is one direction
  bool bias = true, states = true, peepholes = false, layout = false;
  bool coupled = false, linear_first = false;
  double clip = 0;
  std::vector<int64_t> lengths = {};
  std::string attributes = {};           // further ones, as text
  std::vector<Function> functions = {};  // for each direction; empty: the defaults

  int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  bool has_cell() const { return op == "LSTM"; }
};

struct Operands {
  Tensor x, w, r, b, h, c, p;
};

Operands make(const Net& n) {
  const int64_t rows = n.gates() * n.hidden, d = n.directions;
  Operands o;
  o.x = pseudo_random(
      n.layout ? Shape{n.batch, n.steps, n.input} : Shape{n.steps, n.batch, n.input}, 1);
  o.w = pseudo_random({d, rows, n.input}, 2);
  o.r = pseudo_random({d, rows, n.hidden}, 3);
  o.b = pseudo_random({d, 2 * rows}, 4);
  const Shape state = n.layout ? Shape{n.batch, d, n.hidden} : Shape{d, n.batch, n.hidden};
  o.h = pseudo_random(state, 5);
  o.c = pseudo_random(state, 6);
  o.p = pseudo_random({d, 3 * n.hidden}, 7);
  return o;
}

std::string text(const Net& n) {
  std::string inputs = "double[?,?,?] x, double[?,?,?] w, double[?,?,?] r";
  std::string args = "x, w, r, ";
  if (n.bias) inputs += ", double[?,?] b";
  if (!n.lengths.empty()) inputs += ", int32[?] lens";
  if (n.states) inputs += ", double[?,?,?] h";
  if (n.states && n.has_cell()) inputs += ", double[?,?,?] c";
  if (n.peepholes) inputs += ", double[?,?] p";
  args += std::string(n.bias ? "b" : "") + ", " + (n.lengths.empty() ? "" : "lens") + ", " +
          (n.states ? "h" : "");
  if (n.has_cell()) {
    args += std::string(", ") + (n.states ? "c" : "") + (n.peepholes ? ", p" : "");
  }
  const std::string direction = n.directions == 2 ? "bidirectional"
                                : n.backwards     ? "reverse"
                                                  : "forward";
  std::string attributes = "hidden_size: int = " + std::to_string(n.hidden) +
                           ", direction: string = \"" + direction + "\"";
  if (n.layout) attributes += ", layout: int = 1";
  if (n.coupled) attributes += ", input_forget: int = 1";
  if (n.linear_first) attributes += ", linear_before_reset: int = 1";
  if (n.clip > 0) attributes += ", clip: float = " + std::to_string(n.clip);
  const std::string outs = n.has_cell() ? "y, yh, yc" : "y, yh";
  return graph_text("g (" + inputs + ") => (double[q,s,t,u] y, double[q,s,t] yh" +
                    (n.has_cell() ? ", double[q,s,t] yc" : "") + ") { " + outs + " = " + n.op +
                    "<" + attributes + n.attributes + ">(" + args + ") }");
}

double at(const Tensor& t, std::initializer_list<int64_t> index) {
  int64_t flat = 0;
  size_t axis = 0;
  for (int64_t i : index) flat = flat * t.shape()[axis++] + i;
  return t.data<double>()[static_cast<size_t>(flat)];
}

/// y, yh and yc in layout 0.
std::vector<Tensor> plain(const Net& n, const Operands& o) {
  const int64_t hidden = n.hidden, gates = n.gates();
  std::vector<Tensor> out = {Tensor(DType::kFloat64, {n.steps, n.directions, n.batch, hidden}),
                             Tensor(DType::kFloat64, {n.directions, n.batch, hidden}),
                             Tensor(DType::kFloat64, {n.directions, n.batch, hidden})};
  const auto clipped = [&](double v) { return n.clip > 0 ? std::clamp(v, -n.clip, n.clip) : v; };
  const size_t each = n.op == "LSTM" ? 3 : n.op == "GRU" ? 2 : 1;
  const Function hyperbolic = [](double v) { return std::tanh(v); };
  std::vector<Function> defaults = {logistic, hyperbolic, hyperbolic};
  if (n.op == "RNN") defaults = {hyperbolic};
  for (int64_t d = 0; d < n.directions; ++d) {
    const bool reverse = n.directions == 2 ? d == 1 : n.backwards;
    std::vector<Function> f = defaults;
    if (!n.functions.empty()) {
      f.assign(n.functions.begin() + d * static_cast<int64_t>(each),
               n.functions.begin() + (d + 1) * static_cast<int64_t>(each));
    }
    for (int64_t s = 0; s < n.batch; ++s) {
      const auto size = static_cast<size_t>(hidden);
      std::vector<double> h(size, 0), c(size, 0);
      for (int64_t j = 0; n.states && j < hidden; ++j) {
        h[static_cast<size_t>(j)] = n.layout ? at(o.h, {s, d, j}) : at(o.h, {d, s, j});
        c[static_cast<size_t>(j)] = n.layout ? at(o.c, {s, d, j}) : at(o.c, {d, s, j});
      }
      const int64_t length = n.lengths.empty() ? n.steps : n.lengths[static_cast<size_t>(s)];
      for (int64_t k = 0; k < length; ++k) {
        const int64_t t = reverse ? length - 1 - k : k;
        const auto input_part = [&](int64_t g, int64_t j) {
          double v = n.bias ? at(o.b, {d, g * hidden + j}) : 0;
          for (int64_t i = 0; i < n.input; ++i) {
            v += (n.layout ? at(o.x, {s, t, i}) : at(o.x, {t, s, i})) *
                 at(o.w, {d, g * hidden + j, i});
          }
          return v;
        };
        const auto recurrent = [&](int64_t g, int64_t j, const std::vector<double>& state) {
          double v = n.bias ? at(o.b, {d, (gates + g) * hidden + j}) : 0;
          for (int64_t i = 0; i < hidden; ++i) {
            v += state[static_cast<size_t>(i)] * at(o.r, {d, g * hidden + j, i});
          }
          return v;
        };
        std::vector<double> next(size), cell = c, reset(size), gated(size);
        if (n.op == "GRU") {
          for (int64_t j = 0; j < hidden; ++j) {
            const auto u = static_cast<size_t>(j);
            reset[u] = f[0](clipped(input_part(1, j) + recurrent(1, j, h)));
            gated[u] = reset[u] * h[u];
          }
        }
        for (int64_t j = 0; j < hidden; ++j) {
          const auto u = static_cast<size_t>(j);
          if (n.op == "RNN") {
            next[u] = f[0](clipped(input_part(0, j) + recurrent(0, j, h)));
          } else if (n.op == "GRU") {
            const double z = f[0](clipped(input_part(0, j) + recurrent(0, j, h)));
            const double rec =
                n.linear_first ? reset[u] * recurrent(2, j, h) : recurrent(2, j, gated);
            next[u] = (1 - z) * f[1](clipped(input_part(2, j) + rec)) + z * h[u];
          } else {
            const auto p = [&](int64_t g) {
              return n.peepholes ? at(o.p, {d, g * hidden + j}) : 0;
            };
            const double i = f[0](clipped(input_part(0, j) + recurrent(0, j, h) + p(0) * c[u]));
            const double forget =
                n.coupled ? 1 - i
                          : f[0](clipped(input_part(2, j) + recurrent(2, j, h) + p(2) * c[u]));
            cell[u] = forget * c[u] + i * f[1](clipped(input_part(3, j) + recurrent(3, j, h)));
            const double gate =
                f[0](clipped(input_part(1, j) + recurrent(1, j, h) + p(1) * cell[u]));
            next[u] = gate * f[2](cell[u]);
          }
        }
        h = next;
        c = cell;
        for (int64_t j = 0; j < hidden; ++j) {
          out[0].data<double>()[static_cast<size_t>(
              ((t * n.directions + d) * n.batch + s) * hidden + j)] = h[static_cast<size_t>(j)];
        }
      }
      for (int64_t j = 0; j < hidden; ++j) {
        const auto to = static_cast<size_t>((d * n.batch + s) * hidden + j);
        out[1].data<double>()[to] = h[static_cast<size_t>(j)];
        out[2].data<double>()[to] = c[static_cast<size_t>(j)];
      }
    }
  }
  return out;
}

Tensor permuted(const Tensor& t, const std::vector<size_t>& perm) {
  Shape shape;
  for (size_t axis : perm) shape.push_back(t.shape()[axis]);
  Tensor out(DType::kFloat64, shape);
  std::vector<int64_t> index(perm.size(), 0);
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t rest = i;
    for (size_t k = perm.size(); k-- > 0;) {
      index[perm[k]] = rest % shape[k];
      rest /= shape[k];
    }
    int64_t flat = 0;
    for (size_t k = 0; k < perm.size(); ++k) flat = flat * t.shape()[k] + index[k];
    out.data<double>()[static_cast<size_t>(i)] = t.data<double>()[static_cast<size_t>(flat)];
  }
  return out;
}

Tensors inputs_of(const Net& n, const Operands& o) {
  Tensors inputs = {{"x", o.x}, {"w", o.w}, {"r", o.r}};
  if (n.bias) inputs["b"] = o.b;
  if (n.states) inputs["h"] = o.h;
  if (n.states && n.has_cell()) inputs["c"] = o.c;
  if (n.peepholes) inputs["p"] = o.p;
  if (!n.lengths.empty()) {
    std::vector<int32_t> lengths(n.lengths.begin(), n.lengths.end());
    inputs["lens"] = Tensor::from<int32_t>(std::span<const int32_t>(lengths), {n.batch});
  }
  return inputs;
}

void check(const Net& n) {
  const Operands o = make(n);
  const Tensors out = run(model_of(text(n)), inputs_of(n, o));
  const std::vector<Tensor> expected = plain(n, o);
  const auto state = [&](const Tensor& t) { return n.layout ? permuted(t, {1, 0, 2}) : t; };
  CHECK(max_difference(out.at("y"), n.layout ? permuted(expected[0], {2, 0, 1, 3}) : expected[0]) <
        1e-12);
  CHECK(max_difference(out.at("yh"), state(expected[1])) < 1e-12);
  if (n.has_cell()) CHECK(max_difference(out.at("yc"), state(expected[2])) < 1e-12);
}

TEST_CASE("LSTM forward") { check({}); }
TEST_CASE("LSTM reverse") { check({.backwards = true}); }
TEST_CASE("LSTM bidirectional") { check({.directions = 2}); }
TEST_CASE("LSTM without bias and initial states") { check({.bias = false, .states = false}); }
TEST_CASE("LSTM of one step") { check({.steps = 1}); }
TEST_CASE("LSTM with peepholes") { check({.directions = 2, .peepholes = true}); }
TEST_CASE("LSTM with coupled gates") { check({.coupled = true}); }
TEST_CASE("LSTM clipped") { check({.clip = 0.5}); }
TEST_CASE("LSTM batch first") { check({.directions = 2, .layout = true}); }
TEST_CASE("LSTM with sequence lengths") { check({.lengths = {4, 2, 1}}); }
TEST_CASE("LSTM with sequence lengths, reverse") {
  check({.backwards = true, .lengths = {1, 4, 3}});
}
TEST_CASE("LSTM with sequence lengths, both ways, batch first") {
  check({.directions = 2, .layout = true, .lengths = {3, 2, 4}});
}
TEST_CASE("LSTM with an empty sequence keeps its state") { check({.lengths = {0, 4, 2}}); }
TEST_CASE("LSTM with given activations") {
  check({.attributes = ", activations: strings = [\"HardSigmoid\", \"Softsign\", \"Relu\"],"
                       " activation_alpha: floats = [0.5], activation_beta: floats = [0.25]",
         .functions = {[](double v) { return std::clamp(0.5 * v + 0.25, 0.0, 1.0); },
                       [](double v) { return v / (1 + std::abs(v)); },
                       [](double v) { return std::max(v, 0.0); }}});
}

TEST_CASE("GRU forward") { check({.op = "GRU"}); }
TEST_CASE("GRU bidirectional") { check({.op = "GRU", .directions = 2}); }
TEST_CASE("GRU with the linear part before the reset") {
  check({.op = "GRU", .directions = 2, .linear_first = true});
}
TEST_CASE("GRU with the linear part before the reset, without bias") {
  check({.op = "GRU", .bias = false, .linear_first = true});
}
TEST_CASE("GRU clipped") { check({.op = "GRU", .clip = 0.25}); }
TEST_CASE("GRU with sequence lengths, batch first") {
  check({.op = "GRU", .directions = 2, .layout = true, .lengths = {2, 4, 1}});
}

TEST_CASE("RNN forward") { check({.op = "RNN"}); }
TEST_CASE("RNN reverse, without states") {
  check({.op = "RNN", .backwards = true, .states = false});
}
TEST_CASE("RNN bidirectional with an activation for each direction") {
  check({.op = "RNN",
         .directions = 2,
         .attributes = ", activations: strings = [\"LeakyRelu\", \"ScaledTanh\"],"
                       " activation_alpha: floats = [0.25, 0.5], activation_beta: floats = [2.0]",
         .functions = {[](double v) { return v < 0 ? 0.25 * v : v; },
                       [](double v) { return 0.5 * std::tanh(2 * v); }}});
}
TEST_CASE("RNN with further activations") {
  const std::pair<const char*, Function> cases[] = {
      {"Affine", [](double v) { return 0.5 * v + 0.25; }},
      {"ThresholdedRelu", [](double v) { return v > 0.5 ? v : 0; }},
      {"Elu", [](double v) { return v < 0 ? 0.5 * std::expm1(v) : v; }},
      {"Softplus", [](double v) { return std::log1p(std::exp(v)); }},
      {"sigmoid", logistic}};
  for (const auto& [name, f] : cases) {
    INFO(name);
    check({.op = "RNN",
           .attributes = std::string(", activations: strings = [\"") + name + "\"]," +
                         " activation_alpha: floats = [0.5], activation_beta: floats = [0.25]",
           .functions = {f}});
  }
}

TEST_CASE("sequences of full length need no masks") {
  Net n;
  n.lengths = {4, 4, 4};
  const OnnxModel m = model_of(text(n));
  Tensors inputs = inputs_of(n, make(n));
  const Tensor lengths = inputs.extract("lens").mapped();
  const Lowered lowered = lower(m, inputs, {{"lens", lengths}});
  for (const Node& node : lowered.result.graph.nodes()) CHECK(node.op != Op::kWhere);
}

TEST_CASE("no steps at all") {
  Net n;
  n.steps = 0;
  check(n);
}

TEST_CASE("operands that do not fit are refused with both shapes") {
  Net n;
  Operands o = make(n);
  Tensors inputs = inputs_of(n, o);
  inputs["r"] = pseudo_random({1, 20, 4}, 1);
  const Problem p = only_problem(model_of(text(n)), inputs);
  CHECK(p.kind == "invalid");
  CHECK(p.op == "LSTM");
  inputs = inputs_of(n, o);
  inputs["b"] = pseudo_random({1, 39}, 1);
  CHECK_THAT(only_problem(model_of(text(n)), inputs).reason,
             ContainsSubstring("B has shape [1,39], expected [1,40]"));
}

TEST_CASE("an unknown activation is refused") {
  Net n;
  n.attributes = ", activations: strings = [\"Sigmoid\", \"Magic\", \"Tanh\"]";
  CHECK_THAT(only_problem(model_of(text(n)), inputs_of(n, make(n))).reason,
             ContainsSubstring("magic"));
}

}  // namespace
}  // namespace trainrt
