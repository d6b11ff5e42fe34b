#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/frontend/lowering/gradient_check.h"

namespace trainrt {
namespace {

OneNode node(std::string op) { return OneNode(std::move(op), 1, "com.microsoft"); }

TEST_CASE("FusedMatMul transposes and scales") {
  const Tensor a = reals({1, 2, 3, 4}, {2, 2}), b = reals({1, 0, 0, 2}, {2, 2});
  CHECK_SAME(node("FusedMatMul").attr("transA", 1).attr("alpha", 2.0).input(a).input(b).y(),
             reals({2, 12, 4, 16}, {2, 2}));
  CHECK_SAME(node("FusedMatMul").input(reals({1, 1})).input(a).y(), reals({4, 6}));
}

// Moves the first axis of [M, batch, K] behind the batch.
Tensor batch_first(const Tensor& x) {
  return OneNode("Transpose", 13).attr("perm", std::vector<int64_t>{1, 0, 2}).input(x).y();
}

TEST_CASE("FusedMatMul takes batches behind the rows") {
  const Tensor a = random_reals({2, 3, 4}, 1), b = random_reals({4, 3, 5}, 2);
  const auto make = [](std::span<const Tensor> x) {
    return node("FusedMatMul")
        .attr("transBatchA", 1)
        .attr("transBatchB", 1)
        .input(x[0])
        .input(x[1]);
  };
  const std::vector<Tensor> x = {a, b};
  CHECK_SAME(make(x).y(), node("FusedMatMul").input(batch_first(a)).input(batch_first(b)).y());
  CHECK(gradient_error(make, x) < 1e-7);
}

TEST_CASE("fused activations have their parameters") {
  const Tensor a = reals({1, -2}, {2, 1}), one = reals({2}, {1, 1});
  const auto gemm = [&](const char* activation) {
    return node("FusedGemm").attr("activation", activation).input(a).input(one);
  };
  CHECK_SAME(gemm("Relu").y(), reals({2, 0}, {2, 1}));
  CHECK_SAME(gemm("LeakyRelu").attr("activation_alpha", 0.5).y(), reals({2, -2}, {2, 1}));
  CHECK_SAME(gemm("HardSigmoid").attr("activation_alpha", 0.25).attr("activation_beta", 0.25).y(),
             reals({0.75, 0}, {2, 1}));
  CHECK_SAME(node("FusedGemm").input(a).input(one).attr("alpha", 3.0).y(), reals({6, -12}, {2, 1}));
  CHECK(gemm("Loop").refusal() == "no_lowering");
  CHECK_SAME(node("FusedMatMulActivation").attr("activation", "Tanh").input(a).input(one).y(),
             reals({std::tanh(2), std::tanh(-4)}, {2, 1}));
  CHECK_SAME(node("GemmFastGelu").input(a).input(one).input(reals({4})).y(),
             OneNode("Gelu", 20).attr("approximate", "tanh").input(reals({6, 0}, {2, 1})).y());
}

TEST_CASE("FusedConv adds Z before its activation") {
  const Tensor x = reals({1, 2, 3}, {1, 1, 3}), w = reals({1, -1}, {1, 1, 2});
  const auto conv = [&] { return node("FusedConv").input(x).input(w); };
  CHECK_SAME(
      conv().input(reals({1})).input(reals({-1, 5}, {1, 1, 2})).attr("activation", "Relu").y(),
      reals({0, 5}, {1, 1, 2}));
  CHECK_SAME(
      conv().attr("activation", "Clip").attr("activation_params", std::vector<double>{-0.5, 1}).y(),
      reals({-0.5, -0.5}, {1, 1, 2}));
  CHECK(conv().absent().input(reals({1}, {1, 1, 1})).refusal() == "invalid");
}

TEST_CASE("channels-last convolutions and pools") {
  const Tensor x = random_reals({2, 5, 3}, 1), w = random_reals({4, 3, 2}, 2);
  const auto to = [](const Tensor& t) {
    return OneNode("Transpose", 13).attr("perm", std::vector<int64_t>{0, 2, 1}).input(t).y();
  };
  CHECK_SAME(node("NhwcConv").input(x).input(w).y(),
             to(OneNode("Conv", 11).input(to(x)).input(w).y()));
  const Tensor z = random_reals({2, 4, 4}, 3);
  const auto fused = [&](std::span<const Tensor> v) {
    return node("NhwcFusedConv")
        .attr("activation", "Tanh")
        .input(v[0])
        .input(v[1])
        .absent()
        .input(v[2]);
  };
  CHECK(gradient_error(fused, {x, w, z}) < 1e-7);
  CHECK_SAME(
      node("NhwcMaxPool").attr("kernel_shape", std::vector<int64_t>{2}).input(x).y(),
      to(OneNode("MaxPool", 12).attr("kernel_shape", std::vector<int64_t>{2}).input(to(x)).y()));
}

TEST_CASE("ConvTransposeWithDynamicPads has pads as an input") {
  const Tensor x = random_reals({1, 2, 4}, 1), w = random_reals({2, 3, 3}, 2),
               b = random_reals({3}, 3);
  CHECK_SAME(
      node("ConvTransposeWithDynamicPads").input(x).input(w).constant(ints({1, 0})).input(b).y(),
      OneNode("ConvTranspose", 11)
          .attr("pads", std::vector<int64_t>{1, 0})
          .input(x)
          .input(w)
          .input(b)
          .y());
}

// Bytes 0x21, 0x43, …: the numbers 1, 2, 3, 4, …
Tensor nibbles(Shape shape) {
  Tensor t(DType::kUInt8, std::move(shape));
  uint8_t next = 1;
  for (uint8_t& v : t.data<uint8_t>()) {
    v = static_cast<uint8_t>((next & 15) | ((next + 1) & 15) << 4);
    next = static_cast<uint8_t>(next + 2);
  }
  return t;
}

TEST_CASE("MatMulNBits unpacks weights of 4 bits in blocks") {
  const auto make = [](std::span<const Tensor> x) {
    OneNode n = node("MatMulNBits");
    n.attr("N", 1).attr("K", 18).attr("block_size", 16).attr("bits", 4);
    return n.input(x[0]).constant(nibbles({1, 2, 8})).constant(reals({1, 10}, {1, 2}));
  };
  Tensor x(DType::kFloat64, {2, 18});
  x.data<double>()[0] = 1;        // the first of row 0: 1 - 8
  x.data<double>()[18 + 17] = 1;  // the last one, in the second block: (2 - 8) 10
  CHECK_SAME(make(std::vector{x}).y(), reals({-7, -60}, {2, 1}));
  CHECK(gradient_error(make, {random_reals({2, 18}, 1)}) < 1e-7);
  const Tensor zeros = ints({0x52}, {1, 1}).to(DType::kUInt8);
  CHECK_SAME(make(std::vector{x}).constant(zeros).y(), reals({-1, -30}, {2, 1}));
  CHECK_SAME(make(std::vector{x}).constant(reals({0.5, 1}, {1, 2})).y(), reals({0.5, 10}, {2, 1}));
  CHECK_SAME(make(std::vector{x}).absent().absent().input(reals({1})).y(),
             reals({-6, -59}, {2, 1}));
}

TEST_CASE("MatMulNBits of 2 and 8 bits, and what it refuses") {
  const auto make = [](int64_t bits, Tensor packed) {
    OneNode n = node("MatMulNBits");
    n.attr("N", 1).attr("K", 16).attr("block_size", 16).attr("bits", AttrValue(bits));
    Tensor x(DType::kFloat64, {1, 16});
    x.data<double>()[1] = 1;
    return n.input(x).constant(std::move(packed)).constant(reals({1}, {1, 1}));
  };
  CHECK_SAME(make(8, nibbles({1, 1, 16})).y(), reals({0x43 - 128}, {1, 1}));
  CHECK_SAME(make(2, nibbles({1, 1, 4})).y(), reals({0 - 2}, {1, 1}));
  CHECK(make(3, nibbles({1, 1, 6})).refusal() == "no_lowering");
  CHECK(make(4, nibbles({1, 1, 7})).refusal() == "invalid");
  CHECK(make(4, nibbles({1, 1, 8})).attr("weight_prepacked", 1).refusal() == "no_lowering");
  CHECK(make(4, nibbles({1, 1, 8}))
            .attr("K", AttrValue(std::numeric_limits<int64_t>::max()))
            .refusal() == "invalid");
}

TEST_CASE("MatMulBnb4 looks its numbers up, the first in the high bits") {
  const auto make = [](int64_t kind) {
    OneNode n = node("MatMulBnb4");
    n.attr("N", 2).attr("K", 1).attr("block_size", 16).attr("quant_type", AttrValue(kind));
    return n.input(reals({2}, {1, 1}))
        .constant(ints({0x3F}).to(DType::kUInt8))
        .constant(reals({10}));
  };
  CHECK_SAME(make(0).y(), reals({20, -5}, {1, 2}));
  CHECK_SAME(make(1).y(), reals({20 * -0.39491748809814453, 20}, {1, 2}));
  CHECK(make(2).refusal() == "invalid");
  OneNode n = make(0).attr("K", 2).attr("N", 1).attr("transB", 0);
  CHECK_SAME(n.y(), reals({20, -5}, {1, 2}));
}

}  // namespace
}  // namespace trainrt
