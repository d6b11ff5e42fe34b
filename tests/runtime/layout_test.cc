#include "runtime/layout.h"

#include <catch2/catch_test_macros.hpp>

#include "graph/builder.h"
#include "graph/verify.h"
#include "tests/runtime/count_nodes.h"

namespace trainrt {
namespace {

/// Builds convolutions of float32 images.
struct Net {
  Graph graph;
  Builder b{graph};
  int weights = 0;

  Var image(Shape shape) {
    return b.input({"x", InputRole::kData, DType::kFloat32, std::move(shape)});
  }
  Var parameter(Shape shape) {
    return b.input({"w" + std::to_string(weights++), InputRole::kParameter, DType::kFloat32,
                    std::move(shape)});
  }
  Var conv(Var x, int64_t filters) {
    ConvAttrs attrs;
    attrs.strides = attrs.dilations = attrs.pads_begin = attrs.pads_end = {1, 1};
    return b.add(Op::kConv, {x, parameter({filters, x.dim(1), 3, 3})}, attrs);
  }
  Var norm(Var x) {
    return b.add(Op::kBatchNorm, {x, parameter({x.dim(1)}), parameter({x.dim(1)})}, NormAttrs{});
  }
  void finish(Var y) {
    graph.add_output("y", y.id());
    assign_layouts(graph, RowTable(kernel_lists(false)));
    verify(graph);
  }
  int64_t count(Op op) const { return testing::count_nodes(graph, op); }
  Layout layout(Op op) const {
    for (const Node& n : graph.nodes()) {
      if (n.op == op) return graph.type(n.outputs[0]).layout;
    }
    throw Error(ErrorCode::kInternal, "no such node");
  }
};

TEST_CASE("layout: one blocked region from the image to the end") {
  Net net;
  const Var x = net.conv(net.image({2, 3, 12, 12}), 32);
  const Var y = relu(net.norm(net.conv(x, 32)) + x);
  net.finish(net.conv(y, 16));
  // The image is read as it comes; only what leaves the graph is reordered.
  CHECK(net.count(Op::kReorder) == 1);
  for (Op op : {Op::kConv, Op::kBatchNorm, Op::kRelu, Op::kAdd}) {
    CHECK(net.layout(op) == Layout::kNChw16c);
  }
  CHECK(net.graph.type(net.graph.outputs()[0].value).layout == Layout::kPlain);
}

TEST_CASE("layout: a value is reordered once for all its plain readers") {
  Net net;
  const Var x = net.conv(net.image({1, 16, 8, 8}), 16);
  const Var a = transpose(x, {0, 2, 3, 1}), c = softmax(x, 1);
  net.finish(concat(std::vector<Var>{a, transpose(c, {0, 2, 3, 1})}, 3));
  // The convolution's operand and its result.
  CHECK(net.count(Op::kReorder) == 2);
}

TEST_CASE("layout: graphs without convolutions and reference kernels stay as they are") {
  Net net;
  net.finish(relu(net.norm(net.image({2, 32, 8, 8}))));
  CHECK(net.count(Op::kReorder) == 0);

  Net reference;
  const Var y = relu(reference.conv(reference.image({2, 32, 8, 8}), 32));
  reference.graph.add_output("y", y.id());
  assign_layouts(reference.graph, RowTable(kernel_lists(true)));
  CHECK(reference.count(Op::kReorder) == 0);
}

TEST_CASE("layout: pooling, channel sums and per-channel factors stay in the region") {
  Net net;
  const Var x = net.conv(net.image({2, 3, 8, 8}), 32);
  PoolAttrs pool;
  pool.kernel = pool.strides = {2, 2};
  pool.dilations = {1, 1};
  pool.pads_begin = pool.pads_end = {0, 0};
  pool.output = {4, 4};
  const Var p = net.b.add(Op::kMaxPool, {x}, pool);
  const Var gate = sigmoid(reduce_mean(p, {2, 3}, true));
  net.finish(reduce_mean(net.conv(p * gate, 16), {2, 3}));
  CHECK(net.count(Op::kReorder) == 0);
  CHECK(net.layout(Op::kMul) == Layout::kNChw16c);
}

}  // namespace
}  // namespace trainrt
