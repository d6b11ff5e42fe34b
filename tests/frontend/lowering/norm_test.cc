#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

using List = std::vector<int64_t>;

OneNode node(std::string op, int64_t opset = 17) { return OneNode(std::move(op), opset); }

// Two channels: 1 and 3 in the first, 10 and 10 in the second.
OneNode batch_norm(int64_t opset) {
  OneNode n("BatchNormalization", opset);
  n.attr("epsilon", 0.0).attr("momentum", 0.75);
  n.input(reals({1, 10, 3, 14}, {2, 2})).input(reals({2, 1})).input(reals({0, 5}));
  n.input(reals({1, 2})).input(reals({4, 16}));
  return n;
}

const Tensor kBatchForm = reals({-2, 4, 2, 6}, {2, 2});
const Tensor kRunningForm = reals({0, 7, 2, 8}, {2, 2});
const Tensor kNextMean = reals({1.25, 4.5}), kNextVariance = reals({3.25, 13});

TEST_CASE("BatchNormalization uses the batch in train mode whatever the file says") {
  for (int64_t opset : {7, 9, 14, 15}) {
    OneNode n = batch_norm(opset);
    CHECK_SAME(n.y(), kBatchForm);
    CHECK_SAME(n.buffers.at(3), kNextMean);
    CHECK_SAME(n.buffers.at(4), kNextVariance);
  }
}

TEST_CASE("BatchNormalization uses running statistics in eval mode whatever the file says") {
  OneNode n = batch_norm(15).attr("training_mode", 1).outputs(3);
  n.options.training = false;
  const auto y = n.run();
  CHECK_SAME(y[0], kRunningForm);
  CHECK_SAME(y[1], reals({1, 2}));
  CHECK(n.buffers.empty());
}

TEST_CASE("frozen BatchNormalization keeps its statistics in train mode") {
  OneNode n = batch_norm(15).attr("training_mode", 1);
  n.options.batch_norm = BatchNormMode::kFrozen;
  CHECK_SAME(n.y(), kRunningForm);
  CHECK(n.buffers.empty());
}

TEST_CASE("BatchNormalization by the file: training_mode from opset 14, outputs before") {
  const auto by_file = [](OneNode n) {
    n.options.batch_norm = BatchNormMode::kGraph;
    return n.run();
  };
  CHECK_SAME(by_file(batch_norm(14))[0], kRunningForm);
  CHECK_SAME(by_file(batch_norm(9))[0], kRunningForm);
  auto y = by_file(batch_norm(14).attr("training_mode", 1).outputs(3));
  CHECK_SAME(y[0], kBatchForm);
  CHECK_SAME(y[1], kNextMean);
  CHECK_SAME(y[2], kNextVariance);
  y = by_file(batch_norm(9).outputs(5));
  CHECK_SAME(y[0], kBatchForm);
  CHECK_SAME(y[1], kNextMean);
  CHECK_SAME(y[2], kNextVariance);
  CHECK_SAME(y[3], reals({2, 12}));
  CHECK_SAME(y[4], reals({1, 4}));
}

TEST_CASE("BatchNormalization refuses parameters of another length, and spatial = 0") {
  OneNode n("BatchNormalization", 15);
  n.input(Tensor(DType::kFloat64, {2, 3}));
  for (int i = 0; i < 4; ++i) n.input(reals({1, 1}));
  CHECK(n.refusal() == "invalid");
  CHECK(batch_norm(7).attr("spatial", 0).refusal() == "no_lowering");
}

TEST_CASE("LayerNormalization with and without bias and moments") {
  const Tensor x = reals({1, 3, 2, 6}, {2, 2}), scale = reals({1, 2}), bias = reals({10, 20});
  const auto layer_norm = [&] {
    return node("LayerNormalization").attr("epsilon", 0.0).input(x).input(scale);
  };
  CHECK_SAME(layer_norm().y(), reals({-1, 2, -1, 2}, {2, 2}));
  CHECK_SAME(layer_norm().input(bias).y(), reals({9, 22, 9, 22}, {2, 2}));
  const auto y = layer_norm().input(bias).outputs(3).run();
  CHECK_SAME(y[0], reals({9, 22, 9, 22}, {2, 2}));
  CHECK_SAME(y[1], reals({2, 4}, {2, 1}));
  CHECK_SAME(y[2], reals({1, 0.5}, {2, 1}));
}

TEST_CASE("LayerNormalization over several axes with a scale that broadcasts") {
  const Tensor x = reals({1, 3, 1, 3}, {2, 2});
  CHECK_SAME(node("LayerNormalization")
                 .attr("axis", 0)
                 .attr("epsilon", 0.0)
                 .input(x)
                 .input(reals({2, 3}))
                 .y(),
             reals({-2, 3, -2, 3}, {2, 2}));
  CHECK(node("LayerNormalization").input(x).input(Tensor(DType::kFloat64, {2, 2, 2})).refusal() ==
        "invalid");
}

TEST_CASE("LayerNormalization's moments carry gradients") {
  OneNode n =
      node("LayerNormalization").input(reals({1, 3}, {1, 2})).input(reals({1, 1})).outputs(2);
  const auto dx = n.gradients({{0, reals({0, 0}, {1, 2})}, {1, reals({1}, {1, 1})}});
  CHECK_SAME(dx.at(0), reals({0.5, 0.5}, {1, 2}));
}

TEST_CASE("InstanceNormalization normalises each channel of each sample") {
  CHECK_SAME(node("InstanceNormalization")
                 .attr("epsilon", 0.0)
                 .input(reals({1, 3, 2, 6}, {1, 2, 2}))
                 .input(reals({1, 2}))
                 .input(reals({0, 1}))
                 .y(),
             reals({-1, 1, -1, 3}, {1, 2, 2}));
}

TEST_CASE("GroupNormalization scales groups before opset 21, channels from then on") {
  const Tensor x = reals({1, 3, 2, 6}, {1, 4, 1});
  const auto group_norm = [&](int64_t opset) {
    return node("GroupNormalization", opset).attr("num_groups", 2).attr("epsilon", 0.0).input(x);
  };
  CHECK_SAME(group_norm(18).input(reals({1, 2})).input(reals({0, 1})).y(),
             reals({-1, 1, -1, 3}, {1, 4, 1}));
  CHECK_SAME(group_norm(21).input(reals({1, 2, 3, 4})).input(reals({0, 0, 0, 1})).y(),
             reals({-1, 2, -3, 5}, {1, 4, 1}));
  CHECK(group_norm(21).input(reals({1, 2})).input(reals({0, 1})).refusal() == "invalid");
  CHECK(node("GroupNormalization", 21)
            .attr("num_groups", 3)
            .input(x)
            .input(reals({1}))
            .input(reals({1}))
            .refusal() == "invalid");
}

TEST_CASE("RMSNormalization and its older name") {
  const Tensor x = reals({3, 4}, {1, 2}), scale = reals({1, 2});
  const double rms = std::sqrt(12.5);
  CHECK_SAME(node("RMSNormalization", 23).attr("epsilon", 0.0).input(x).input(scale).y(),
             reals({3 / rms, 8 / rms}, {1, 2}));
  const auto y = node("SimplifiedLayerNormalization")
                     .attr("epsilon", 0.0)
                     .input(x)
                     .input(scale)
                     .outputs(2)
                     .run();
  CHECK_SAME(y[0], reals({3 / rms, 8 / rms}, {1, 2}));
  CHECK_SAME(y[1], reals({1 / rms}, {1, 1}));
}

TEST_CASE("MeanVarianceNormalization over given axes") {
  CHECK_SAME(
      node("MeanVarianceNormalization").attr("axes", List{1}).input(reals({0, 4}, {1, 2})).y(),
      reals({-2 / (2 + 1e-9), 2 / (2 + 1e-9)}, {1, 2}));
}

TEST_CASE("LpNormalization leaves zero vectors at zero, gradient too") {
  const Tensor x = reals({3, 4, 0, 0}, {2, 2});
  CHECK_SAME(node("LpNormalization").input(x).y(), reals({0.6, 0.8, 0, 0}, {2, 2}));
  CHECK_SAME(node("LpNormalization").attr("p", 1).input(x).y(),
             reals({3.0 / 7, 4.0 / 7, 0, 0}, {2, 2}));
  CHECK_SAME(node("LpNormalization").input(reals({0, 0})).gradient(0, reals({1, 2})),
             reals({0, 0}));
  CHECK(node("LpNormalization").attr("p", 3).input(x).refusal() == "invalid");
}

TEST_CASE("LRN sums over neighbouring channels, one more behind when size is even") {
  const auto lrn = [](int64_t size) {
    return node("LRN")
        .attr("size", AttrValue(size))
        .attr("alpha", static_cast<double>(size))
        .attr("beta", 1.0)
        .input(reals({1, 2, 3}, {1, 3, 1}))
        .y();
  };
  CHECK_SAME(lrn(1), reals({1.0 / 2, 2.0 / 5, 3.0 / 10}, {1, 3, 1}));
  CHECK_SAME(lrn(2), reals({1.0 / 6, 2.0 / 14, 3.0 / 10}, {1, 3, 1}));
  CHECK_SAME(lrn(3), reals({1.0 / 6, 2.0 / 15, 3.0 / 14}, {1, 3, 1}));
  CHECK_SAME(lrn(100), reals({1.0 / 15, 2.0 / 15, 3.0 / 15}, {1, 3, 1}));
}

TEST_CASE("Softmax flattens to a matrix before opset 13") {
  const Tensor x(DType::kFloat64, {2, 2, 2});
  CHECK(node("Softmax", 11).input(x).y().data<double>()[0] == 0.25);
  CHECK(node("Softmax", 13).input(x).y().data<double>()[0] == 0.5);
  CHECK(node("Softmax", 11).attr("axis", 0).input(x).y().data<double>()[0] == 0.125);
  CHECK_SAME(node("LogSoftmax", 13).input(reals({0, 0})).y(),
             reals({-std::log(2.0), -std::log(2.0)}));
}

TEST_CASE("Hardmax marks the first maximum") {
  CHECK_SAME(node("Hardmax").input(reals({1, 3, 3, 0, 0, 0}, {2, 3})).y(),
             reals({0, 1, 0, 1, 0, 0}, {2, 3}));
  CHECK_SAME(node("Hardmax", 11).input(reals({1, 3, 3, 0}, {1, 2, 2})).y(),
             reals({0, 1, 0, 0}, {1, 2, 2}));
}

const double kLog2 = std::log(2.0), kLog4 = std::log(4.0);

TEST_CASE("SoftmaxCrossEntropyLoss: mean, sum, none, and its log-probabilities") {
  const Tensor x(DType::kFloat64, {2, 2}), labels = ints({0, 1});
  const auto loss = [&] { return node("SoftmaxCrossEntropyLoss").input(x).input(labels); };
  CHECK_SAME(loss().y(), real(kLog2));
  CHECK_SAME(loss().attr("reduction", "sum").y(), real(2 * kLog2));
  CHECK_SAME(loss().attr("reduction", "none").y(), reals({kLog2, kLog2}));
  CHECK_SAME(loss().outputs(2).run()[1], reals({-kLog2, -kLog2, -kLog2, -kLog2}, {2, 2}));
  CHECK(loss().attr("reduction", "max").refusal() == "invalid");
}

TEST_CASE("class weights divide the mean, ignored labels do not count") {
  const Tensor x = reals({-kLog2, -kLog2, -kLog4, -kLog4, -1, -1}, {3, 2});
  const auto nll = [&](Tensor labels) {
    return node("NegativeLogLikelihoodLoss").input(x).input(labels);
  };
  CHECK_SAME(nll(ints({0, 1, 0})).input(reals({1, 3})).y(), real((kLog2 + 3 * kLog4 + 1) / 5));
  CHECK_SAME(nll(ints({0, 1, -1})).attr("ignore_index", -1).y(), real((kLog2 + kLog4) / 2));
  CHECK_SAME(nll(ints({0, 1, 7})).attr("ignore_index", 7).input(reals({1, 3})).y(),
             real((kLog2 + 3 * kLog4) / 4));
  CHECK_SAME(nll(ints({0, 1, 7}))
                 .attr("ignore_index", 7)
                 .attr("reduction", "none")
                 .input(reals({1, 3}))
                 .y(),
             reals({kLog2, 3 * kLog4, 0}));
}

TEST_CASE("losses over spatial positions") {
  const Tensor x(DType::kFloat64, {1, 2, 3});
  CHECK_SAME(node("SoftmaxCrossEntropyLoss")
                 .attr("reduction", "none")
                 .input(x)
                 .input(ints({0, 1, 1}, {1, 3}))
                 .y(),
             reals({kLog2, kLog2, kLog2}, {1, 3}));
}

}  // namespace
}  // namespace trainrt
