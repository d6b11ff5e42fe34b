// Patterns that are raised to one op: what is found, what is left alone, and that values stay.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <set>

#include "graph/passes/passes.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "kernels/reference/evaluate.h"

namespace trainrt {
namespace {

/// A graph in float64 with one output.
struct Case {
  Graph graph;
  Builder b{graph};

  Var input(const std::string& name, Shape shape) {
    return b.input({name, InputRole::kData, DType::kFloat64, std::move(shape)});
  }
  Var number(double v) { return b.fill(DType::kFloat64, v); }
  void result(Var y) { graph.add_output("y", y.id()); }
};

std::map<std::string, Tensor> evaluate(const Graph& graph) {
  std::map<std::string, Tensor> inputs;
  std::mt19937 random(5);
  for (NodeId id : graph.inputs()) {
    const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
    Tensor t(attrs.dtype, attrs.shape);
    for (double& v : t.data<double>()) v = std::uniform_real_distribution<double>(-2, 2)(random);
    inputs[attrs.name] = t;
  }
  return evaluate_graph(graph, inputs);
}

std::multiset<std::string> ops(const Graph& graph) {
  std::multiset<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kInput || node.op == Op::kFill || node.op == Op::kConstant) continue;
    names.insert(std::string(op_info(node.op).name));
  }
  return names;
}

using Build = std::function<void(Case&)>;
using Ops = std::multiset<std::string>;

/// The graph after both raising passes has these ops and gives the same values.
Graph check_raised(const Build& build, const Ops& wanted) {
  Case c;
  build(c);
  Graph after = c.graph;
  make_simplify_pass(evaluate_node)->run(after);
  make_raise_pass(evaluate_node)->run(after);
  make_raise_batch_norm_pass()->run(after);
  make_dead_code_pass()->run(after);
  verify(after);
  INFO(print(c.graph) << "became\n" << print(after));
  CHECK(ops(after) == wanted);
  const auto want = evaluate(c.graph), got = evaluate(after);
  for (const auto& [name, value] : want) {
    INFO(name);
    const auto a = value.data<double>(), b = got.at(name).data<double>();
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-12);
  }
  return after;
}

TEST_CASE("raise: GELU in the ways exporters write it") {
  const double root = std::numbers::sqrt2;
  for (int form = 0; form < 4; ++form) {
    check_raised(
        [&](Case& c) {
          const Var x = c.input("x", {3, 5});
          const Var inner = form % 2 == 0 ? x / root : x * (1 / root);
          const Var bracket = erf(inner) + 1.0;
          c.result(form < 2 ? x * bracket * 0.5 : (x * 0.5) * bracket);
        },
        {"Gelu"});
  }
  const double s = std::sqrt(2 / std::numbers::pi);
  check_raised(
      [&](Case& c) {
        const Var x = c.input("x", {3, 5});
        c.result(x * 0.5 * (tanh((x + pow(x, 3.0) * 0.044715) * s) + 1.0));
      },
      {"Gelu"});
}

TEST_CASE("raise: no GELU where it is none, or where its parts are read elsewhere") {
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {4});
        c.result(x * (erf(x / 1.5) + 1.0) * 0.5);
      },
      {"Add", "Div", "Erf", "Mul", "Mul"});
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {4}), e = erf(x / std::numbers::sqrt2);
        c.graph.add_output("e", e.id());
        c.result(x * (e + 1.0) * 0.5);
      },
      {"Add", "Div", "Erf", "Mul", "Mul"});
}

TEST_CASE("raise: SiLU") {
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {4});
        c.result(sigmoid(x) * x);
      },
      {"Silu"});
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {4}), y = c.input("y", {4});
        c.result(sigmoid(x) * y);
      },
      {"Mul", "Sigmoid"});
}

TEST_CASE("raise: norms and softmax from their formulas") {
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {3, 8}), g = c.input("g", {8}), b = c.input("b", {8});
        const Var d = x - reduce_mean(x, {-1}, true);
        const Var v = reduce_mean(square(d), {-1}, true);
        c.result(d / sqrt(v + 1e-5) * g + b);
      },
      {"LayerNorm"});
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {3, 8}), g = c.input("g", {8});
        c.result(x / sqrt(reduce_mean(square(x), {-1}, true) + 1e-6) * g);
      },
      {"RmsNorm"});
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {3, 8});
        const Var e = exp(x - reduce_max(x, {-1}, true));
        c.result(e / reduce_sum(e, {-1}, true));
      },
      {"Softmax"});
}

TEST_CASE("raise: a variance over other axes than the mean is no LayerNorm") {
  Case c;
  const Var x = c.input("x", {3, 8});
  const Var d = x - reduce_mean(x, {-1}, true);
  c.result(d / sqrt(reduce_mean(square(d), {0}, true) + 1e-5));
  make_raise_pass(evaluate_node)->run(c.graph);
  CHECK_FALSE(ops(c.graph).contains("LayerNorm"));
}

/// Attention over [batch, heads, tokens, size] operands.
Var attend(Var q, Var k, Var v, double scale, Var mask = {}) {
  Var scores = matmul(q, swap_last(k)) * scale;
  if (mask) scores = scores + mask;
  return matmul(softmax(scores, -1), v);
}

Var causal_mask(Builder& b, int64_t n) {
  Tensor mask(DType::kFloat64, {n, n});
  for (int64_t i = 0; i < n * n; ++i) {
    mask.data<double>()[static_cast<size_t>(i)] =
        i % n > i / n ? -std::numeric_limits<double>::infinity() : 0;
  }
  return b.constant(std::move(mask));
}

const AttentionAttrs& attention_of(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAttention) return std::get<AttentionAttrs>(node.attrs);
  }
  throw Error(ErrorCode::kInternal, "no attention");
}

TEST_CASE("raise: attention with heads first, a mask and without") {
  const Shape shape = {2, 3, 5, 4};
  // Heads in front are a batch of 6 with one head each: views, no copies.
  const Ops views = {"Attention", "Reshape", "Reshape", "Reshape", "Reshape"};
  const auto plain = check_raised(
      [&](Case& c) {
        c.result(attend(c.input("q", shape), c.input("k", shape), c.input("v", shape), 0.5));
      },
      views);
  CHECK_FALSE(attention_of(plain).causal);
  CHECK(std::abs(attention_of(plain).scale - 0.5) < 1e-15);
  const auto causal = check_raised(
      [&](Case& c) {
        c.result(attend(c.input("q", shape), c.input("k", shape), c.input("v", shape), 0.5,
                        causal_mask(c.b, 5)));
      },
      views);
  CHECK(attention_of(causal).causal);
}

TEST_CASE("raise: attention with tokens first, and of one projection") {
  const std::vector<int64_t> perm = {0, 2, 1, 3};
  const auto tokens = check_raised(
      [&](Case& c) {
        const auto heads = [&](const char* name) {
          return transpose(reshape(c.input(name, {2, 5, 12}), {2, 5, 3, 4}), perm);
        };
        const Var y = attend(heads("q"), heads("k"), heads("v"), 0.5);
        c.result(reshape(transpose(y, perm), {2, 5, 12}));
      },
      {"Attention", "Reshape", "Reshape", "Reshape", "Reshape"});
  CHECK(attention_of(tokens).token_major);
  const auto packed = check_raised(
      [&](Case& c) {
        const auto parts = split(c.input("qkv", {2, 5, 36}), 2, {12, 12, 12});
        const auto heads = [&](Var x) { return transpose(reshape(x, {2, 5, 3, 4}), perm); };
        const Var y =
            attend(heads(parts[0]), heads(parts[1]), heads(parts[2]), 0.5, causal_mask(c.b, 5));
        c.result(reshape(transpose(y, perm), {2, 5, 12}));
      },
      {"Attention", "Reshape", "Reshape"});
  CHECK(attention_of(packed).packed);
  CHECK(attention_of(packed).causal);
}

TEST_CASE("raise: attention with the sequence first") {
  // As nn.MultiheadAttention computes it: batch and heads are one dim of 6.
  const Shape tokens_first = {5, 6, 4};
  const auto turn = [](Var x) { return transpose(x, {1, 0, 2}); };
  const auto apart = check_raised(
      [&](Case& c) {
        const auto heads = [&](const char* name) {
          return turn(reshape(c.input(name, {5, 2, 12}), tokens_first));
        };
        const Var y = attend(heads("q"), heads("k"), heads("v"), 0.5);
        c.result(reshape(turn(y), {5, 2, 12}));
      },
      {"Attention", "Reshape", "Reshape", "Reshape", "Reshape"});
  CHECK(attention_of(apart).token_major);
  const auto packed = check_raised(
      [&](Case& c) {
        const Var parts =
            transpose(reshape(c.input("qkv", {5, 2, 36}), {1, 5, 2, 3, 12}), {3, 1, 2, 0, 4});
        const auto heads = [&](int64_t i) {
          const Var part =
              c.b.add(Op::kSlice, {parts},
                      SliceAttrs{{i, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {1, 5, 2, 1, 12}, {}});
          return reshape(turn(reshape(part, tokens_first)), {2, 3, 5, 4});
        };
        const Var y = attend(heads(0), heads(1), heads(2), 0.5, causal_mask(c.b, 5));
        c.result(reshape(transpose(y, {2, 0, 1, 3}), {5, 2, 12}));
      },
      {"Attention", "Reshape", "Reshape"});
  CHECK(attention_of(packed).packed);
  CHECK(attention_of(packed).sequence_first);
  CHECK(attention_of(packed).causal);
}

TEST_CASE("raise: no attention where somebody reads the weights") {
  Case c;
  const Shape shape = {1, 2, 5, 4};
  const Var q = c.input("q", shape), k = c.input("k", shape), v = c.input("v", shape);
  const Var weights = softmax(matmul(q, swap_last(k)), -1);
  c.graph.add_output("weights", weights.id());
  c.result(matmul(weights, v));
  make_raise_pass(evaluate_node)->run(c.graph);
  CHECK_FALSE(ops(c.graph).contains("Attention"));
}

struct Norm {
  Var y, mean;
};

Norm batch_norm(Case& c, Var x, const std::string& name) {
  const Shape channels = {x.dim(1)};
  const std::vector<Var> operands = {x, c.input(name + "/scale", channels),
                                     c.input(name + "/bias", channels)};
  const auto out = c.b.add_all(Op::kBatchNorm, operands, NormAttrs{});
  return {out[0], out[1]};
}

TEST_CASE("raise: BatchNorm takes a residual and an activation") {
  const Shape shape = {2, 3, 4, 4};
  const auto with_mean = [](Case& c, const Norm& n, Var y) {
    c.graph.add_output("mean", n.mean.id());
    c.result(y);
  };
  check_raised(
      [&](Case& c) {
        const Norm n = batch_norm(c, c.input("x", shape), "n");
        with_mean(c, n, relu(n.y));
      },
      {"BatchNorm"});
  check_raised(
      [&](Case& c) {
        const Norm n = batch_norm(c, c.input("x", shape), "n");
        with_mean(c, n, clip(n.y, 0, 1));
      },
      {"BatchNorm"});
  check_raised(
      [&](Case& c) {
        const Var x = c.input("x", shape);
        const Norm n = batch_norm(c, x, "n");
        with_mean(c, n, relu(x + n.y));
      },
      {"BatchNorm"});
  // The later of two norms takes the other's result.
  check_raised(
      [&](Case& c) {
        const Norm a = batch_norm(c, c.input("x", shape), "a");
        const Norm n = batch_norm(c, c.input("z", shape), "n");
        with_mean(c, n, relu(a.y + n.y));
      },
      {"BatchNorm", "BatchNorm"});
}

TEST_CASE("raise: BatchNorm keeps to itself where its result is read elsewhere") {
  check_raised(
      [](Case& c) {
        const Norm n = batch_norm(c, c.input("x", {2, 3, 4, 4}), "n");
        c.graph.add_output("norm", n.y.id());
        c.result(relu(n.y));
      },
      {"BatchNorm", "Relu"});
  // A residual that broadcasts, and a clip behind a residual.
  check_raised(
      [](Case& c) {
        const Norm n = batch_norm(c, c.input("x", {2, 3, 4, 4}), "n");
        c.result(relu(n.y + c.input("z", {2, 3, 1, 1})));
      },
      {"Add", "BatchNorm", "Relu"});
  check_raised(
      [](Case& c) {
        const Var x = c.input("x", {2, 3, 4, 4});
        const Norm n = batch_norm(c, x, "n");
        c.result(clip(n.y + x, 0, 6));
      },
      {"BatchNorm", "Clip"});
}

TEST_CASE("raise: an embedding straight into a product becomes a table") {
  // 12 ids: from 6 rows down the product of all rows pays.
  const auto build = [](Case& c, int64_t rows, int64_t inner, bool moved, bool read) {
    const Var e = c.input("e", {rows, inner}), w = c.input("w", {5, inner}),
              bias = c.input("b", {5});
    const Var ids =
        c.b.constant(Tensor::from<int64_t>({0, 5, 2, 1, 1, 4, -1, 0, 3, 2, 2, -6}, {3, 4}));
    Var x = c.b.add(Op::kGather, {e, ids}, AxisAttrs{0});
    if (moved) {
      x = c.b.add(Op::kTranspose, {x}, PermAttrs{{1, 0, 2}});
      x = c.b.add(Op::kReshape, {x}, ShapeAttrs{{12, inner}});
    }
    const Var product = c.b.add(Op::kMatMul, {x, w}, MatMulAttrs{false, true});
    if (read) c.graph.add_output("product", product.id());
    c.result(c.b.add(Op::kAdd, {bias, product}));
  };
  const Ops table = {"Add", "Gather", "MatMul"};
  for (const bool moved : {false, true}) {
    const Graph g = check_raised([&](Case& c) { build(c, 6, 32, moved, false); }, table);
    // All of it happens to the table.
    for (const Node& node : g.nodes()) {
      if (node.op == Op::kAdd) CHECK(g.type(node.outputs[0]).shape == Shape{6, 5});
    }
    const Graph left = check_raised([&](Case& c) { build(c, 6, 32, moved, true); }, table);
    for (const Node& node : left.nodes()) {
      if (node.op == Op::kMatMul) CHECK(left.type(node.outputs[0]).shape == Shape{6, 5});
      if (node.op == Op::kAdd) CHECK(left.type(node.outputs[0]).size() == 60);
    }
  }
  const Ops as_it_was = {"Add", "Gather", "MatMul", "Reshape", "Transpose"};
  check_raised([&](Case& c) { build(c, 7, 32, true, false); }, as_it_was);
  check_raised([&](Case& c) { build(c, 6, 31, true, false); }, as_it_was);
}

TEST_CASE("raise: a bias stays behind few rows of a product") {
  const auto build = [](Case& c, int64_t rows) {
    const Var x = c.input("x", {rows, 4}), w = c.input("w", {4, 5}), bias = c.input("b", {5});
    const Var ids = c.b.constant(Tensor::from<int64_t>({0, 2, 1, 1}, {4}));
    const Var product = c.b.add(Op::kMatMul, {x, w}, MatMulAttrs{});
    c.result(c.b.add(Op::kGather, {product, ids}, AxisAttrs{0}) + bias);
  };
  // 4 ids are fewer than twice 3 rows: adding to the rows that are read costs less.
  const Graph g = check_raised([&](Case& c) { build(c, 3); }, {"Add", "Gather", "MatMul"});
  for (const Node& node : g.nodes()) {
    if (node.op == Op::kAdd) CHECK(g.type(node.outputs[0]).shape == Shape{4, 5});
  }
}

TEST_CASE("raise: patches that are read as tokens become rows of a product") {
  const auto attributes = [](std::vector<int64_t> strides) {
    ConvAttrs a;
    a.dilations.assign(strides.size(), 1);
    a.pads_begin.assign(strides.size(), 0);
    a.pads_end = a.pads_begin;
    a.strides = std::move(strides);
    return a;
  };
  const auto convolve = [](Case& c, Shape x, Shape w, bool bias, const ConvAttrs& attrs) {
    const Var image = c.input("x", std::move(x)), filters = c.input("w", w);
    return bias ? c.b.add(Op::kConv, {image, filters, c.input("b", {w[0]})}, attrs)
                : c.b.add(Op::kConv, {image, filters}, attrs);
  };
  const auto move = [](Case& c, Var y, std::vector<int64_t> perm) {
    return c.b.add(Op::kTranspose, {y}, PermAttrs{std::move(perm)});
  };
  const Shape x{2, 3, 8, 12}, w{5, 3, 4, 4};
  const ConvAttrs square = attributes({4, 4});
  Ops product = {"Add", "MatMul", "Reshape", "Reshape", "Reshape", "Reshape", "Transpose"};
  check_raised(
      [&](Case& c) {
        const Var y = convolve(c, x, w, true, square);
        c.result(move(c, c.b.add(Op::kReshape, {y}, ShapeAttrs{{2, 5, 6}}), {0, 2, 1}));
      },
      product);
  check_raised(
      [&](Case& c) {
        const Var y = convolve(c, x, {5, 3, 4, 6}, true, attributes({4, 6}));
        c.result(move(c, y, {0, 2, 3, 1}));
      },
      product);
  product.erase("Add");
  check_raised(
      [&](Case& c) {
        const Var y = convolve(c, {2, 2, 48}, {5, 2, 16}, false, attributes({16}));
        c.result(move(c, y, {0, 2, 1}));
      },
      product);

  const auto stays = [&](const Shape& image, const Shape& filters, const ConvAttrs& attrs,
                         const std::vector<int64_t>& perm) {
    check_raised(
        [&](Case& c) { c.result(move(c, convolve(c, image, filters, true, attrs), perm)); },
        {"Conv", "Transpose"});
  };
  const std::vector<int64_t> last{0, 2, 3, 1};
  stays(x, w, attributes({2, 4}), last);             // windows overlap
  stays({2, 3, 9, 12}, w, square, last);             // pixels are left out
  stays({2, 1, 8, 12}, {5, 1, 4, 4}, square, last);  // short windows
  stays(x, w, square, {0, 3, 2, 1});                 // pixels move too
  ConvAttrs padded = square, grouped = square;
  padded.pads_end = {0, 4};
  stays({2, 3, 8, 8}, w, padded, last);
  grouped.group = 2;
  stays({2, 4, 8, 12}, {6, 2, 4, 4}, grouped, last);
}

TEST_CASE("raise: no table where rows are not moved as wholes") {
  check_raised(
      [](Case& c) {
        const Var e = c.input("e", {3, 64}), w = c.input("w", {32, 5});
        const Var ids = c.b.constant(Tensor::from<int64_t>({0, 1, 2, 1, 1, 0}, {6}));
        const Var x = c.b.add(Op::kGather, {e, ids}, AxisAttrs{0});
        c.result(c.b.add(Op::kMatMul, {c.b.add(Op::kReshape, {x}, ShapeAttrs{{12, 32}}), w},
                         MatMulAttrs{}));
      },
      {"Gather", "MatMul", "Reshape"});
  check_raised(
      [](Case& c) {
        const Var e = c.input("e", {32, 3}), w = c.input("w", {32, 5});
        const Var ids = c.b.constant(Tensor::from<int64_t>({0, 1, 2, 1, 1, 0}, {6}));
        const Var x = c.b.add(Op::kGather, {e, ids}, AxisAttrs{1});
        c.result(c.b.add(Op::kMatMul, {c.b.add(Op::kTranspose, {x}, PermAttrs{{1, 0}}), w},
                         MatMulAttrs{}));
      },
      {"Gather", "MatMul"});
}

}  // namespace
}  // namespace trainrt
