#include "runtime/norm_conv.h"

#include <catch2/catch_test_macros.hpp>

#include "graph/builder.h"
#include "graph/verify.h"
#include "runtime/layout.h"
#include "tests/runtime/count_nodes.h"

namespace trainrt {
namespace {

/// conv, BatchNorm, depthwise conv, and the gradients of the last two.
struct Net {
  explicit Net(int64_t channels) : channels(channels) {
    conv.strides = conv.dilations = conv.pads_begin = conv.pads_end = {1, 1};
    conv.group = channels;
    norm.activation = Activation::kClip;
    norm.hi = 6;
    ConvAttrs dense = conv;
    dense.group = 1;
    x = b.add(Op::kConv,
              {input("x", InputRole::kData, {2, 3, 8, 8}), parameter("first", {channels, 3, 3, 3})},
              dense);
    scale = parameter("scale", {channels});
    bias = parameter("bias", {channels});
    y = b.add_all(Op::kBatchNorm, std::vector{x, scale, bias}, norm);
    running = b.add(Op::kAssign, {input("running", InputRole::kBuffer, {channels}), y[1]});
    graph.add_output("running", running.id(), OutputRole::kState);
    w = parameter("w", {channels, 1, 3, 3});
    z = b.add(Op::kConv, {y[0], w}, conv);
    graph.add_output("z", z.id());
  }

  Var input(std::string name, InputRole role, Shape shape) {
    return b.input({std::move(name), role, DType::kFloat32, std::move(shape)});
  }
  Var parameter(std::string name, Shape shape) {
    return input(std::move(name), InputRole::kParameter, std::move(shape));
  }

  void differentiate() {
    b.set_section(Section::kBackward);
    const Var dz = z * z;
    ConvAttrs data = conv, weight = conv;
    data.shape = x.shape();
    weight.shape = w.shape();
    const Var dy = b.add(Op::kConvDataGrad, {dz, w}, data);
    gradient("w", b.add(Op::kConvWeightGrad, {y[0], dz}, weight));
    const auto grads =
        b.add_all(Op::kBatchNormGrad, std::vector{dy, x, scale, y[1], y[2], bias}, norm);
    gradient("x", grads[0]);
    gradient("scale", grads[1]);
    gradient("bias", grads[2]);
  }
  void gradient(std::string name, Var v) {
    graph.add_output(std::move(name), v.id(), OutputRole::kGradient);
  }

  void fuse(bool reference = false) {
    const RowTable rows(kernel_lists(reference));
    assign_layouts(graph, rows);
    fuse_norm_conv(graph, rows);
    verify(graph);
  }
  int64_t count(Op op) const { return testing::count_nodes(graph, op); }

  int64_t channels;
  Graph graph;
  Builder b{graph};
  ConvAttrs conv;
  NormAttrs norm;
  Var x, scale, bias, w, z, running;
  std::vector<Var> y;
};

TEST_CASE("norm_conv: a normalisation and its gradient go into the depthwise convolution") {
  Net net(32);
  net.differentiate();
  net.fuse();
  CHECK(net.count(Op::kNormConv) == 1);
  CHECK(net.count(Op::kNormConvGrad) == 1);
  for (Op op : {Op::kBatchNorm, Op::kBatchNormGrad, Op::kConvDataGrad, Op::kConvWeightGrad}) {
    CHECK(net.count(op) == 0);
  }
  CHECK(net.count(Op::kConv) == 1);
  for (const Node& node : net.graph.nodes()) {
    if (node.op != Op::kNormConv && node.op != Op::kNormConvGrad) continue;
    CHECK(net.graph.type(node.outputs[0]).layout == Layout::kNChw16c);
    CHECK(node.section == (node.op == Op::kNormConv ? Section::kForward : Section::kBackward));
  }
}

TEST_CASE("norm_conv: a forward pass alone") {
  Net net(32);
  net.fuse();
  CHECK(net.count(Op::kNormConv) == 1);
  CHECK(net.count(Op::kBatchNorm) == 0);
}

TEST_CASE("norm_conv: nothing happens where the result is seen") {
  Net output(32);
  output.graph.add_output("y", output.y[0].id());
  output.fuse();
  CHECK(output.count(Op::kNormConv) == 0);

  Net reader(32);
  reader.graph.add_output("sum", reduce_sum(reader.y[0], {2, 3}).id());
  reader.fuse();
  CHECK(reader.count(Op::kNormConv) == 0);
}

TEST_CASE("norm_conv: nothing happens where no row takes it") {
  Net few(7);
  few.fuse();
  CHECK(few.count(Op::kNormConv) == 0);

  Net reference(32);
  reference.fuse(true);
  CHECK(reference.count(Op::kNormConv) == 0);
}

/// What is expected before layouts are known.
bool expected(const Net& net, bool reference = false) {
  for (const Node& node : net.graph.nodes()) {
    if (node.op != Op::kBatchNorm) continue;
    return joins_convolution(net.graph, node, RowTable(kernel_lists(reference)));
  }
  return false;
}

TEST_CASE("norm_conv: what will happen is known before layouts are") {
  Net net(32);
  net.differentiate();
  CHECK(expected(net));
  CHECK_FALSE(expected(net, true));
  CHECK_FALSE(expected(Net(7)));

  Net output(32);
  output.graph.add_output("y", output.y[0].id());
  CHECK_FALSE(expected(output));

  Net reader(32);
  reader.graph.add_output("sum", reduce_sum(reader.y[0], {2, 3}).id());
  CHECK_FALSE(expected(reader));

  Net twice(32);
  twice.graph.add_output(
      "v",
      twice.b.add(Op::kConv, {twice.y[0], twice.parameter("v", {32, 1, 3, 3})}, twice.conv).id());
  CHECK_FALSE(expected(twice));
  twice.fuse();
  CHECK(twice.count(Op::kNormConv) == 0);
}

TEST_CASE("norm_conv: a gradient that has other readers stays") {
  Net net(32);
  net.differentiate();
  for (const Node& node : net.graph.nodes()) {
    if (node.op == Op::kConvDataGrad) {
      net.graph.add_output("y", node.outputs[0], OutputRole::kGradient);
      break;
    }
  }
  net.fuse();
  CHECK(net.count(Op::kNormConv) == 0);
  CHECK(net.count(Op::kBatchNormGrad) == 1);
}

}  // namespace
}  // namespace trainrt
