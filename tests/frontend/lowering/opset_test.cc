// Operators whose form or meaning changed: each version in force from opset 7 on, by values.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode node(const char* op) { return OneNode(op, 0); }

const double kInf = std::numeric_limits<double>::infinity();

// 0, 1, 2, …
Tensor counted(Shape shape) {
  Tensor t(DType::kFloat64, std::move(shape));
  std::iota(t.data<double>().begin(), t.data<double>().end(), 0.0);
  return t;
}

Tensor filled(double value, Shape shape) {
  Tensor t(DType::kFloat64, std::move(shape));
  for (double& v : t.data<double>()) v = value;
  return t;
}

std::vector<int64_t> list(std::initializer_list<int64_t> values) { return values; }
Tensor none() { return Tensor(DType::kInt64, {0}); }
Tensor int32s(std::initializer_list<int64_t> values) { return ints(values).to(DType::kInt32); }
Tensor bytes(std::initializer_list<int64_t> values) { return ints(values).to(DType::kUInt8); }
Tensor yes(std::initializer_list<bool> values) {
  return bools(values, {static_cast<int64_t>(values.size())});
}

// One opset for each version in which the form is valid.
void check(const char* what, std::initializer_list<int64_t> opsets, OneNode n,
           const std::vector<Tensor>& outputs) {
  for (const int64_t opset : opsets) {
    INFO("opset " << opset << ": " << what);
    OneNode at = n;
    const std::vector<Tensor> y = at.opset(opset).outputs(outputs.size()).run();
    for (size_t i = 0; i < outputs.size(); ++i) CHECK_SAME(y[i], outputs[i]);
  }
}

TEST_CASE("Softmax and its relatives: a matrix below opset 13, one axis since") {
  check("all from axis 1 on", {7, 11, 12}, node("Softmax").input(filled(0, {2, 2, 2})),
        {filled(0.25, {2, 2, 2})});
  check("the last axis", {13, 22}, node("Softmax").input(filled(0, {2, 2, 2})),
        {filled(0.5, {2, 2, 2})});
  check("all from axis -2 on", {11}, node("Softmax").attr("axis", -2).input(filled(0, {3, 2, 2})),
        {filled(0.25, {3, 2, 2})});
  check("all", {7, 11}, node("LogSoftmax").attr("axis", 0).input(filled(1, {2, 4})),
        {filled(-std::log(8), {2, 4})});
  check("axis 0", {13}, node("LogSoftmax").attr("axis", 0).input(filled(1, {2, 4})),
        {filled(-std::log(2), {2, 4})});
  check("one of each row of the matrix", {7, 11}, node("Hardmax").input(counted({1, 2, 2})),
        {reals({0, 0, 0, 1}, {1, 2, 2})});
  check("one along the axis", {13}, node("Hardmax").input(counted({1, 2, 2})),
        {reals({0, 1, 0, 1}, {1, 2, 2})});
}

TEST_CASE("Squeeze, Unsqueeze, Reshape, Shape: axes move from attribute to input") {
  check("axes as attribute", {7, 11},
        node("Squeeze").attr("axes", list({0})).input(counted({1, 2, 1})), {counted({2, 1})});
  check("negative axes", {11}, node("Squeeze").attr("axes", list({-1})).input(counted({1, 2, 1})),
        {counted({1, 2})});
  check("axes as input", {13, 21, 23, 24, 25},
        node("Squeeze").input(counted({1, 2, 1})).constant(ints({-1})), {counted({1, 2})});
  check("all axes of size 1", {7, 11, 13, 21}, node("Squeeze").input(counted({1, 2, 1})),
        {counted({2})});
  check("axes as attribute", {7, 11},
        node("Unsqueeze").attr("axes", list({0, 2})).input(counted({2})), {counted({1, 2, 1})});
  check("axes as input, in any order", {13, 21, 23, 24, 25},
        node("Unsqueeze").input(counted({2})).constant(ints({-1, 0})), {counted({1, 2, 1})});
  check("0 copies a dim", {7, 13, 14, 19, 21},
        node("Reshape").input(counted({2, 3})).constant(ints({0, -1, 1})), {counted({2, 3, 1})});
  check("0 is a dim", {14, 19, 21, 23, 24, 25},
        node("Reshape").attr("allowzero", 1).input(counted({0, 3})).constant(ints({3, 0})),
        {counted({3, 0})});
  check("at axis 2", {7, 9, 11, 13, 21}, node("Flatten").attr("axis", 2).input(counted({2, 2, 3})),
        {counted({4, 3})});
  check("at a negative axis", {11, 13, 21},
        node("Flatten").attr("axis", -1).input(counted({2, 2, 3})), {counted({4, 3})});
  check("whole", {7, 13, 15, 19, 21, 25}, node("Shape").input(counted({2, 3, 4})),
        {ints({2, 3, 4})});
  check("a part", {15, 19, 21, 25},
        node("Shape").attr("start", -2).attr("end", -1).input(counted({2, 3, 4})), {ints({3})});
  check("reversed", {7, 13, 21, 25}, node("Transpose").input(counted({2, 2})),
        {reals({0, 2, 1, 3}, {2, 2})});
  check("zeros", {9, 20, 21, 25}, node("ConstantOfShape").constant(ints({2})), {filled(0, {2})});
  check("with stash_type", {27},
        node("Range").attr("stash_type", 1).constant(real(1)).constant(real(2)).constant(real(0.5)),
        {reals({1, 1.5})});
}

TEST_CASE("Slice, Split, Pad, Tile, DepthToSpace") {
  check("attributes", {7},
        node("Slice")
            .attr("axes", list({1}))
            .attr("starts", list({-2}))
            .attr("ends", list({1000}))
            .input(counted({1, 4})),
        {reals({2, 3}, {1, 2})});
  check("inputs, backwards", {10, 11, 13},
        node("Slice")
            .input(counted({4}))
            .constant(ints({-1}))
            .constant(ints({-1000}))
            .constant(ints({0}))
            .constant(ints({-2})),
        {reals({3, 1})});
  check("negative axes", {11, 13},
        node("Slice")
            .input(counted({1, 4}))
            .constant(ints({1}))
            .constant(ints({3}))
            .constant(ints({-1})),
        {reals({1, 2}, {1, 2})});
  check("equal parts", {7, 11, 13}, node("Split").input(counted({4})),
        {reals({0, 1}), reals({2, 3})});
  check("sizes as attribute", {7, 11},
        node("Split").attr("split", list({1, 2})).input(counted({3})), {reals({0}), reals({1, 2})});
  check("sizes as input", {13, 18},
        node("Split").attr("axis", -1).input(counted({3})).constant(ints({1, 2})),
        {reals({0}), reals({1, 2})});
  check("a smaller last part", {18}, node("Split").attr("num_outputs", 2).input(counted({3})),
        {reals({0, 1}), reals({2})});
  check("attributes", {7},
        node("Pad").attr("pads", list({1, -1})).attr("value", 5.0).input(counted({3})),
        {reals({5, 0, 1})});
  check("inputs", {11, 13, 18, 19, 21, 23, 24, 25},
        node("Pad").input(counted({3})).constant(ints({1, -1})).constant(real(5)),
        {reals({5, 0, 1})});
  check("reflect", {7},
        node("Pad").attr("mode", "reflect").attr("pads", list({1, 0})).input(counted({3})),
        {reals({1, 0, 1, 2})});
  check("edge", {11, 18},
        node("Pad").attr("mode", "edge").input(counted({3})).constant(ints({0, 2})),
        {reals({0, 1, 2, 2, 2})});
  check("axes", {18, 19, 21},
        node("Pad").input(counted({1, 2})).constant(ints({1, 0})).absent().constant(ints({-1})),
        {reals({0, 0, 1}, {1, 3})});
  check("wrap", {19, 21},
        node("Pad").attr("mode", "wrap").input(counted({3})).constant(ints({1, 2})),
        {reals({2, 0, 1, 2, 0, 1})});
  check("repeats", {7, 13}, node("Tile").input(counted({2})).constant(ints({2})),
        {reals({0, 1, 0, 1})});
  check("depth first", {7, 11, 13, 28},
        node("DepthToSpace").attr("blocksize", 2).input(counted({1, 8, 1, 1})),
        {reals({0, 2, 4, 6, 1, 3, 5, 7}, {1, 2, 2, 2})});
  check("depth last", {11, 13, 28},
        node("DepthToSpace").attr("mode", "CRD").attr("blocksize", 2).input(counted({1, 8, 1, 1})),
        {counted({1, 2, 2, 2})});
  check("depth first", {7, 13, 28},
        node("SpaceToDepth").attr("blocksize", 2).input(counted({1, 2, 2, 2})),
        {reals({0, 4, 1, 5, 2, 6, 3, 7}, {1, 8, 1, 1})});
  check("depth last", {28},
        node("SpaceToDepth").attr("mode", "CRD").attr("blocksize", 2).input(counted({1, 2, 2, 2})),
        {counted({1, 8, 1, 1})});
}

TEST_CASE("Reductions: axes move to an input, at 13 for ReduceSum and 18 for the others") {
  struct Reduction {
    const char* op;
    double pair, one;  // of 1 and 2; of 2 alone
  };
  const Reduction reductions[] = {
      {"ReduceSum", 3, 2},
      {"ReduceMean", 1.5, 2},
      {"ReduceMax", 2, 2},
      {"ReduceMin", 1, 2},
      {"ReduceProd", 2, 2},
      {"ReduceL1", 3, 2},
      {"ReduceL2", std::sqrt(5), 2},
      {"ReduceSumSquare", 5, 4},
      {"ReduceLogSum", std::log(3), std::log(2)},
      {"ReduceLogSumExp", std::log(std::exp(1) + std::exp(2)), 2},
  };
  const Tensor x = reals({1, 2}, {1, 2});
  for (const Reduction& r : reductions) {
    const bool sum = std::string(r.op) == "ReduceSum";
    for (int64_t opset : sum ? list({7, 11}) : list({7, 11, 13})) {
      INFO(r.op << " of opset " << opset);
      CHECK_SAME(OneNode(r.op, opset).attr("axes", list({1})).input(x).y(), filled(r.pair, {1, 1}));
      CHECK_SAME(OneNode(r.op, opset).attr("keepdims", 0).input(x).y(), real(r.pair));
    }
    for (int64_t opset : sum ? list({13, 18, 28}) : list({18, 20, 28})) {
      INFO(r.op << " of opset " << opset);
      const auto node = [&] { return OneNode(r.op, opset).input(x); };
      CHECK_SAME(node().constant(ints({-1})).attr("keepdims", 0).y(), filled(r.pair, {1}));
      CHECK_SAME(node().constant(none()).y(), filled(r.pair, {1, 1}));
      const Tensor each =
          OneNode(r.op, opset).attr("noop_with_empty_axes", 1).input(reals({2, 2})).y();
      CHECK_SAME(each, filled(r.one, {2}));
    }
  }
}

TEST_CASE("Comparing, choosing and counting") {
  check("bools", {20}, node("ReduceMax").attr("keepdims", 0).input(yes({false, true})),
        {bools({true}, {})});
  check("bools", {20}, node("ReduceMin").attr("keepdims", 0).input(yes({false, true})),
        {bools({false}, {})});
  check("bytes", {12, 13}, node("ReduceMax").attr("axes", list({0})).input(bytes({3, 200})),
        {bytes({200})});
  check("the first", {7, 11, 12, 13}, node("ArgMax").input(reals({1, 2, 2})), {ints({1})});
  check("the last", {12, 13}, node("ArgMax").attr("select_last_index", 1).input(reals({1, 2, 2})),
        {ints({2})});
  check("negative axis", {11, 12, 13},
        node("ArgMin").attr("axis", -1).attr("keepdims", 0).input(reals({1, 0, 0}, {1, 3})),
        {ints({1})});
  check("k as attribute", {7}, node("TopK").attr("k", 2).input(reals({1, 3, 3})),
        {reals({3, 3}), ints({1, 2})});
  check("k as input", {10, 11, 24}, node("TopK").input(reals({1, 3, 3})).constant(ints({2})),
        {reals({3, 3}), ints({1, 2})});
  check("the smallest", {11, 24},
        node("TopK").attr("largest", 0).input(reals({1, 3, 0})).constant(ints({2})),
        {reals({0, 1}), ints({2, 0})});
  check("negative indices are outside", {9},
        node("OneHot").input(ints({-1, 1})).constant(ints({2})).constant(reals({0, 5})),
        {reals({0, 0, 0, 5}, {2, 2})});
  check("negative indices count from the end", {11, 28},
        node("OneHot").input(ints({-1, 1})).constant(ints({2})).constant(reals({0, 5})),
        {reals({0, 5, 0, 5}, {2, 2})});
  check("integers", {7, 11, 13, 19}, node("Equal").input(ints({1, 2})).input(ints({1, 3})),
        {yes({true, false})});
  check("reals", {11, 13, 19}, node("Equal").input(reals({1, 2})).input(reals({1, 3})),
        {yes({true, false})});
  check("reals", {7, 9, 13}, node("Less").input(reals({1, 4})).input(reals({3})),
        {yes({true, false})});
  check("integers", {9, 13}, node("Greater").input(ints({1, 4})).input(ints({3})),
        {yes({false, true})});
  check("broadcast", {9, 16},
        node("Where").input(yes({true, false})).input(real(1)).input(reals({2, 3})),
        {reals({1, 3})});
  check("negative indices", {11, 13}, node("Gather").input(counted({3})).input(ints({-1, 0})),
        {reals({2, 0})});
  check("negative axis", {11, 28},
        node("Compress").attr("axis", -1).input(counted({1, 3})).constant(yes({false, true})),
        {reals({1}, {1, 1})});
  check("batch_dims", {12, 13},
        node("GatherND").attr("batch_dims", 1).input(counted({2, 2})).input(ints({1, 0}, {2, 1})),
        {reals({1, 2})});
  check("the last write stays", {11, 13, 16, 18},
        node("ScatterElements").input(counted({3})).input(ints({-1})).input(reals({7})),
        {reals({0, 1, 7})});
  check("its old name", {9}, node("Scatter").input(counted({3})).input(ints({2})).input(reals({7})),
        {reals({0, 1, 7})});
  check("add", {16, 18},
        node("ScatterElements")
            .attr("reduction", "add")
            .input(counted({3}))
            .input(ints({1, 1}))
            .input(reals({7, 1})),
        {reals({0, 9, 2})});
  check("mul", {16, 18},
        node("ScatterND")
            .attr("reduction", "mul")
            .input(counted({3}))
            .input(ints({2}, {1, 1}))
            .input(reals({7})),
        {reals({0, 1, 14})});
  check("max", {18},
        node("ScatterND")
            .attr("reduction", "max")
            .input(counted({3}))
            .input(ints({2}, {1, 1}))
            .input(reals({1})),
        {reals({0, 1, 2})});
  check("from the end", {11, 14},
        node("CumSum").attr("reverse", 1).input(reals({1, 2, 3})).constant(int32s({-1})),
        {reals({6, 5, 3})});
}

TEST_CASE("Arithmetic and activations") {
  check("bounds as attributes", {7, 10}, node("Clip").attr("min", 1.0).input(counted({3})),
        {reals({1, 1, 2})});
  check("bounds as inputs", {11, 12, 13},
        node("Clip").input(counted({3})).absent().constant(real(1)), {reals({0, 1, 1})});
  check("integers", {12, 13}, node("Clip").input(ints({0, 5})).constant(ints({2}, {})),
        {ints({2, 5})});
  check("the upper bound wins", {12, 13},
        node("Clip").input(counted({2})).constant(real(5)).constant(real(-1)), {reals({-1, -1})});
  check("one slope per channel", {7, 9, 16},
        node("PRelu").input(filled(-1, {1, 2, 1})).input(reals({2, 3}, {2, 1})),
        {reals({-2, -3}, {1, 2, 1})});
  check("equal types", {7, 12, 13, 15}, node("Pow").input(reals({2, 3})).input(reals({3, 2})),
        {reals({8, 9})});
  check("an integer exponent", {12, 13, 15}, node("Pow").input(reals({2, 3})).input(ints({3, 2})),
        {reals({8, 9})});
  check("an integer base", {12, 13, 15}, node("Pow").input(ints({2, 3})).input(reals({3, 2})),
        {ints({8, 9})});
  check("sign of the divisor", {10, 13, 28}, node("Mod").input(ints({-5, 5})).input(ints({3, -3})),
        {ints({1, -1})});
  check("fmod", {10, 13, 28},
        node("Mod").attr("fmod", 1).input(reals({-5.5, 5.5})).input(reals({3, -3})),
        {reals({-2.5, 2.5})});
  check("reals without fmod", {28},
        node("Mod").input(reals({-5.5, 5, -5})).input(reals({3, kInf, kInf})),
        {reals({0.5, 5, kInf})});
  check("bytes", {11, 28},
        node("BitShift").attr("direction", "LEFT").input(bytes({1, 200})).input(bytes({1, 1})),
        {bytes({2, 144})});
  check("signed, to the right", {28},
        node("BitShift")
            .attr("direction", "RIGHT")
            .input(ints({-8, 8, -8, 8}))
            .input(ints({1, 1, 70, -1})),
        {ints({-4, 4, -1, 0})});
  check("equal shapes", {7}, node("Max").input(reals({1, 5})).input(reals({3, 2})),
        {reals({3, 5})});
  check("broadcast", {8, 12, 13}, node("Max").input(reals({1, 5})).input(real(3)), {reals({3, 5})});
  check("broadcast", {8, 13}, node("Sum").input(reals({1, 5})).input(real(3)), {reals({4, 8})});
  check("broadcast", {8, 13}, node("Mean").input(reals({1, 5})).input(real(3)), {reals({2, 4})});
  check("to int64, towards zero", {7, 9, 13, 19, 21, 23, 24, 25, 28},
        node("Cast").attr("to", 7).input(reals({1.7, -1.7})), {ints({1, -1})});
  check("to bool", {7, 9, 13, 19}, node("Cast").attr("to", 9).input(reals({0.5, 0})),
        {yes({true, false})});
  check("to the type of another", {15, 19, 21, 25},
        node("CastLike").input(reals({1.7})).input(ints({0})), {ints({1})});
  check("one sign", {10, 20}, node("IsInf").attr("detect_negative", 0).input(reals({kInf, -kInf})),
        {yes({true, false})});
  check("integers", {14}, node("Relu").input(int32s({-1, 2})), {int32s({0, 2})});
  check("slope", {7, 16}, node("LeakyRelu").attr("alpha", 0.5).input(reals({-2, 2})),
        {reals({-1, 2})});
  check("x clip(x / 6 + 1 / 2)", {14, 22}, node("HardSwish").input(reals({-4, 3})),
        {reals({0, 3})});
  check("kink", {12, 28}, node("Celu").attr("alpha", 2.0).input(reals({-2, 2})),
        {reals({2 * (std::exp(-1) - 1), 2})});
  check("x sigmoid(alpha x)", {24}, node("Swish").attr("alpha", 2.0).input(reals({1})),
        {reals({1 / (1 + std::exp(-2))})});
  check("all three operands", {7, 9, 11, 13},
        node("Gemm")
            .attr("transB", 1)
            .attr("alpha", 2.0)
            .input(reals({1, 2}, {1, 2}))
            .input(reals({3, 4}, {1, 2}))
            .input(real(1)),
        {reals({23}, {1, 1})});
  check("no C", {11, 13}, node("Gemm").input(reals({1, 2}, {1, 2})).input(reals({3, 4}, {2, 1})),
        {reals({11}, {1, 1})});
}

TEST_CASE("Pools") {
  check("padded", {7, 8, 10, 11, 12, 22},
        node("MaxPool")
            .attr("kernel_shape", list({2}))
            .attr("pads", list({1, 0}))
            .input(counted({1, 1, 3})),
        {reals({0, 1, 2}, {1, 1, 3})});
  check("indices", {8, 10, 11, 12, 22},
        node("MaxPool")
            .attr("kernel_shape", list({2}))
            .attr("strides", list({2}))
            .input(reals({1, 1, 0, 3}, {1, 1, 4})),
        {reals({1, 3}, {1, 1, 2}), ints({0, 3}, {1, 1, 2})});
  check("indices by column", {8, 12},
        node("MaxPool")
            .attr("kernel_shape", list({2, 2}))
            .attr("storage_order", 1)
            .input(reals({0, 9, 0, 0, 0, 0}, {1, 1, 2, 3})),
        {reals({9, 9}, {1, 1, 1, 2}), ints({2, 2}, {1, 1, 1, 2})});
  check("dilated", {10, 11, 12, 22},
        node("MaxPool")
            .attr("kernel_shape", list({2}))
            .attr("dilations", list({2}))
            .input(counted({1, 1, 4})),
        {reals({2, 3}, {1, 1, 2})});
  check("ceil_mode", {10, 11, 12, 22},
        node("MaxPool")
            .attr("kernel_shape", list({2}))
            .attr("strides", list({2}))
            .attr("ceil_mode", 1)
            .input(counted({1, 1, 3})),
        {reals({1, 2}, {1, 1, 2})});
  check("padding not counted", {7, 10, 11, 19, 22},
        node("AveragePool")
            .attr("kernel_shape", list({2}))
            .attr("pads", list({1, 0}))
            .input(reals({2, 4}, {1, 1, 2})),
        {reals({2, 3}, {1, 1, 2})});
  check("padding counted", {7, 10, 11, 19, 22},
        node("AveragePool")
            .attr("kernel_shape", list({2}))
            .attr("pads", list({1, 0}))
            .attr("count_include_pad", 1)
            .input(reals({2, 4}, {1, 1, 2})),
        {reals({1, 3}, {1, 1, 2})});
  check("ceil_mode", {10, 11, 19, 22},
        node("AveragePool")
            .attr("kernel_shape", list({2}))
            .attr("strides", list({2}))
            .attr("ceil_mode", 1)
            .input(counted({1, 1, 3})),
        {reals({0.5, 2}, {1, 1, 2})});
  check("dilated", {19, 22},
        node("AveragePool")
            .attr("kernel_shape", list({2}))
            .attr("dilations", list({2}))
            .input(counted({1, 1, 3})),
        {reals({1}, {1, 1, 1})});
  check("norms", {7, 11, 18, 22},
        node("LpPool").attr("kernel_shape", list({2})).input(reals({3, 4}, {1, 1, 2})),
        {reals({5}, {1, 1, 1})});
  check("dilated, ceil_mode", {18, 22},
        node("LpPool")
            .attr("kernel_shape", list({2}))
            .attr("dilations", list({2}))
            .attr("strides", list({2}))
            .attr("ceil_mode", 1)
            .input(reals({3, 0, 4, 1}, {1, 1, 4})),
        {reals({5, 4}, {1, 1, 2})});
}

TEST_CASE("Upsample and Resize") {
  check("scales as attribute", {7},
        node("Upsample").attr("scales", std::vector<double>{2}).input(counted({2})),
        {reals({0, 0, 1, 1})});
  check("scales as input", {9},
        node("Upsample").attr("mode", "linear").input(counted({2})).constant(reals({2})),
        {reals({0, 0.5, 1, 1})});
  check("asymmetric", {10},
        node("Resize").attr("mode", "linear").input(counted({2})).constant(reals({2})),
        {reals({0, 0.5, 1, 1})});
  check("shrinking takes the next cell up", {10},
        node("Resize").input(counted({4})).constant(reals({0.6})), {reals({0, 2})});
  check("half pixels", {11, 13, 18, 19},
        node("Resize").attr("mode", "linear").input(counted({2})).absent().constant(reals({2})),
        {reals({0, 0.25, 0.75, 1})});
  check("sizes", {11, 13, 18, 19},
        node("Resize")
            .attr("coordinate_transformation_mode", "align_corners")
            .attr("mode", "linear")
            .input(counted({2}))
            .absent()
            .absent()
            .constant(ints({3})),
        {reals({0, 0.5, 1})});
  check("axes", {18, 19},
        node("Resize").attr("axes", list({1})).input(counted({1, 2})).absent().constant(reals({2})),
        {reals({0, 0, 1, 1}, {1, 4})});
  check("not larger than the sizes", {18, 19},
        node("Resize")
            .attr("keep_aspect_ratio_policy", "not_larger")
            .input(filled(1, {2, 4}))
            .absent()
            .absent()
            .constant(ints({4, 4})),
        {filled(1, {2, 4})});
  check("antialias", {18, 19},
        node("Resize")
            .attr("mode", "linear")
            .attr("antialias", 1)
            .input(filled(3, {4}))
            .absent()
            .constant(reals({0.5})),
        {filled(3, {2})});
  check("half pixels, symmetric", {19},
        node("Resize")
            .attr("mode", "linear")
            .attr("coordinate_transformation_mode", "half_pixel_symmetric")
            .input(counted({2}))
            .absent()
            .constant(reals({2})),
        {reals({0, 0.25, 0.75, 1})});
}

// In float32 3 / 0.6 is 5, in float64 3 / float32(0.6) is less.
TEST_CASE("Resize finds the nearest cell in float32") {
  OneNode n("Resize", 13);
  n.attr("coordinate_transformation_mode", "asymmetric").attr("nearest_mode", "floor");
  n.input(counted({10})).absent().constant(reals({static_cast<double>(0.6f)}));
  CHECK_SAME(n.y(), reals({0, 1, 3, 5, 6, 8}));
}

TEST_CASE("Normalisation, Dropout and losses") {
  const Tensor x = reals({-1, 1}, {2, 1, 1}), third = reals({3});
  const auto batch_norm = [&](int64_t opset) {
    OneNode n("BatchNormalization", opset);
    n.options.batch_norm = BatchNormMode::kGraph;
    n.attr("epsilon", 0.0).attr("momentum", 0.75).input(x).input(reals({2})).input(reals({1}));
    return n.input(reals({1})).input(reals({4}));
  };
  for (int64_t opset : {7, 9, 14, 15}) {
    INFO("BatchNormalization of opset " << opset);
    CHECK_SAME(batch_norm(opset).y(), reals({-1, 1}, {2, 1, 1}));
    OneNode n = batch_norm(opset).outputs(opset < 14 ? 5 : 3);
    if (opset >= 14) n.attr("training_mode", 1);
    const auto y = n.run();
    CHECK_SAME(y[0], reals({-1, 3}, {2, 1, 1}));
    CHECK_SAME(y[1], reals({0.75}));
    CHECK_SAME(y[2], reals({3.25}));
    if (opset < 14) CHECK_SAME(y[3], reals({0}));
    if (opset < 14) CHECK_SAME(y[4], reals({1}));
  }
  for (int64_t opset : {7, 10, 12, 13, 22}) {
    INFO("Dropout of opset " << opset);
    OneNode n("Dropout", opset);
    n.options.training = false;
    const auto y = n.input(third).outputs(2).run();
    CHECK_SAME(y[0], third);
    CHECK_SAME(y[1], opset < 10 ? reals({1}) : yes({true}));
  }
  const auto groups = [](int64_t opset, Tensor scale) {
    OneNode n("GroupNormalization", opset);
    n.attr("num_groups", 1).attr("epsilon", 0.0).input(reals({-1, 1}, {1, 2, 1}));
    return n.input(scale).input(scale);
  };
  CHECK_SAME(groups(18, reals({2})).y(), reals({0, 4}, {1, 2, 1}));
  CHECK_SAME(groups(21, reals({2, 3})).y(), reals({0, 6}, {1, 2, 1}));
  CHECK(groups(18, reals({2, 3})).refusal() == "invalid");
  CHECK(groups(21, reals({2})).refusal() == "invalid");
  for (int64_t opset : {12, 13, 22}) {
    OneNode n("NegativeLogLikelihoodLoss", opset);
    n.attr("ignore_index", -1).input(reals({-1, -2, -3, -4}, {2, 2})).input(ints({1, -1}));
    CHECK_SAME(n.y(), real(2));
    OneNode m("SoftmaxCrossEntropyLoss", opset);
    const auto y =
        m.attr("reduction", "sum").input(filled(0, {2, 2})).input(ints({1, 0})).outputs(2).run();
    CHECK_SAME(y[0], real(2 * std::log(2)));
    CHECK_SAME(y[1], filled(-std::log(2), {2, 2}));
  }
}

TEST_CASE("recurrent layers: layout since opset 14") {
  // h = tanh(x) with no recurrence.
  const auto rnn = [](int64_t opset, Shape shape) {
    OneNode n("RNN", opset);
    n.attr("hidden_size", 1)
        .input(reals({0.5, 1, 2, 3}, std::move(shape)))
        .input(reals({1}, {1, 1, 1}));
    return n.input(reals({0}, {1, 1, 1})).outputs(2);
  };
  const auto h = [](double v) { return std::tanh(v); };
  for (int64_t opset : {7, 14, 22}) {
    const auto y = rnn(opset, {2, 2, 1}).run();  // [time, batch]
    CHECK_SAME(y[0], reals({h(0.5), h(1), h(2), h(3)}, {2, 1, 2, 1}));
    CHECK_SAME(y[1], reals({h(2), h(3)}, {1, 2, 1}));
  }
  for (int64_t opset : {14, 22}) {
    const auto y = rnn(opset, {2, 2, 1}).attr("layout", 1).run();  // [batch, time]
    CHECK_SAME(y[0], reals({h(0.5), h(1), h(2), h(3)}, {2, 2, 1, 1}));
    CHECK_SAME(y[1], reals({h(1), h(3)}, {2, 1, 1}));
  }
}

}  // namespace
}  // namespace trainrt
