#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cases/linear.h"

namespace trainrt {
namespace {

void check_convs(const std::vector<ConvCase>& cases) {
  for (const ConvCase& c : cases) {
    for (const RowCase& row : conv_rows(c)) check_cuda_rows(row, kClose);
  }
}

/// With both factors kept as bfloat16, and the result as float32 and as bfloat16.
void check_bf16(const ConvCase& conv) {
  for (RowCase c : conv_rows(conv)) {
    c.bf16_inputs = 3;
    for (c.bf16_outputs = 0; c.bf16_outputs < 2; ++c.bf16_outputs) check_cuda_rows(c, kClose);
  }
}

TEST_CASE("2-D convolution and its gradients on CUDA") { check_convs(kConvs2d); }
TEST_CASE("pointwise convolution on CUDA") { check_convs(kPointwiseConvs); }
TEST_CASE("depthwise and grouped convolution on CUDA") { check_convs(kGroupedConvs); }
TEST_CASE("dilated convolution and asymmetric pads on CUDA") { check_convs(kDilatedConvs); }
TEST_CASE("1-D and 3-D convolution on CUDA") { check_convs(kConvs1dAnd3d); }

TEST_CASE("convolutions of few channels on CUDA") {
  // Several filters a channel, strides and dilations, a filter of more taps than a block sums at a
  // time, 1-D and 3-D, enough pixels for sums in parts.
  check_convs({{{2, 3, 9, 8}, {6, 1, 3, 2}, {2, 1}, {1, 2}, {0, 1}, {2, 0}, 3},
               {{1, 4, 11, 12}, {4, 1, 5, 4}, {3, 2}, {2, 1}, {4, 0}, {1, 3}, 4},
               {{2, 6, 20}, {6, 1, 3}, {1}, {2}, {2}, {2}, 6},
               {{1, 2, 5, 6, 7}, {2, 1, 3, 2, 3}, {1, 2, 2}, {1, 1, 1}, {1, 0, 1}, {1, 1, 0}, 2},
               {{2, 4, 24, 25}, {4, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}});
}

TEST_CASE("convolutions of several tiles on CUDA") {
  // The last one has pixels enough for the gradient of the weights to be summed in parts.
  check_convs({{{1, 70, 5, 6}, {75, 70, 2, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 0}},
               {{2, 20, 9, 5}, {140, 10, 1, 3}, {2, 1}, {1, 1}, {0, 1}, {0, 1}, 2},
               {{4, 12, 13, 14}, {10, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}});
  check_bf16({{4, 12, 13, 14}, {10, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST_CASE("convolution in bfloat16 on CUDA") {
  for (const auto* table : {&kConvs2d, &kGroupedConvs, &kConvs1dAnd3d}) {
    for (const ConvCase& c : *table) check_bf16(c);
  }
}

TEST_CASE("convolution of NaN on CUDA") {
  check_cuda_rows(conv_of_nan(), kClose);
  RowCase c = conv_of_nan();
  c.bf16_inputs = 3;
  check_cuda_rows(c, kClose);
}

TEST_CASE("convolution of nothing on CUDA") {
  check_convs({{{0, 3, 8, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
               {{0, 16, 8, 8}, {16, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
               {{2, 0, 4, 4}, {4, 0, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
               {{2, 0, 4, 4}, {16, 0, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
               {{2, 16, 4, 4}, {0, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
               {{1, 2, 0, 4}, {3, 2, 2, 2}, {1, 1}, {1, 1}, {1, 0}, {1, 0}}});
}

TEST_CASE("what convolutions refuse on CUDA") {
  const auto refuses = [](const RowCase& c, std::string_view row_name, std::string_view reason) {
    const TestNode node(c);
    for (const KernelRow& row : cuda_kernels()) {
      if (row.op == c.op && row.name == row_name) {
        CHECK(row.supports(node.view()).reason == reason);
      }
    }
  };
  const ConvAttrs attrs{{1}, {1}, {0}, {0}, 1, {}};
  RowCase c{Op::kConv, {Shape{1, 1, 4}, Shape{1, 1, 3}}, attrs};
  c.bf16_inputs = 2;
  refuses(c, "cudnn.conv", "multiplies operands of one type");
  refuses(c, "cuda.conv", "multiplies operands of one type");
  const auto wide = [](Shape s) { return Operand(std::move(s), DType::kFloat64, -1, 1); };
  refuses({Op::kConv, {wide({1, 1, 4}), wide({1, 1, 3})}, attrs}, "cudnn.conv", "takes no float64");
  refuses({Op::kConv, {Shape{0, 1, 4}, Shape{1, 1, 3}}, attrs}, "cudnn.conv",
          "takes no empty operands");
}

}  // namespace
}  // namespace trainrt
