#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/cuda/kernels/row_check.h"
#include "tests/kernels/cases/norm.h"

namespace trainrt {
namespace {

const NormAttrs kRelu{1, 1e-5, Activation::kRelu};

TEST_CASE("BatchNorm and its gradient on CUDA") {
  for (const CheckedCase& c : batch_norm_cases()) check_cuda_rows(c.c, c.tolerance);
}

// Planes in several pieces, channels in several parts, nothing at all.
TEST_CASE("BatchNorm of other sizes on CUDA") {
  for (const Shape& shape : {Shape{2, 2, 10000}, Shape{70, 3, 9, 11}, Shape{3000, 2}, Shape{0, 3},
                             Shape{2, 0, 3}, Shape{2, 3, 0}, Shape{3, 4, 300}}) {
    const Shape channels = {shape[1]};
    const Operand variance(channels, 0.2, 2);
    check_cuda_rows({Op::kBatchNorm, {shape, channels, channels}, kRelu}, {3e-5, false});
    check_cuda_rows({Op::kBatchNormApply, {shape, channels, channels, channels, variance}, kRelu},
                    kClose);
    check_cuda_rows(
        {Op::kBatchNormApply, {shape, channels, channels, channels, variance, shape}, kRelu},
        kClose);
    check_cuda_rows(
        {Op::kBatchNormGrad, {shape, shape, channels, channels, variance, channels}, kRelu},
        kClose);
  }
}

TEST_CASE("BatchNorm on CUDA keeps small deviations beside large means") {
  for (const Shape& shape : {Shape{4, 16, 17, 19}, Shape{40, 2, 50, 3}, Shape{3000, 2}}) {
    const Shape channels = {shape[1]};
    check_cuda_rows(
        {Op::kBatchNorm, {Operand(shape, 1000, 1001), channels, channels}, NormAttrs{1, 1e-5}},
        {2e-4, false});
  }
}

TEST_CASE("BatchNorm on CUDA: its result once more, in the same bits") {
  for (const Shape& shape : {Shape{3, 32, 7, 5}, Shape{40, 48, 1, 1}}) {
    const Shape channels = {shape[1]};
    RowCase norm{Op::kBatchNorm, {shape, channels, channels, shape}, kRelu};
    // Given contents: others are drawn by position.
    const TestNode drawn(norm);
    for (size_t i = 0; i < 4; ++i) norm.inputs[i] = Operand(drawn.inputs[i]);
    const std::vector<Buffer> y = run_cuda_row(norm);
    const auto statistics = [&](size_t i) {
      Tensor t(DType::kFloat32, channels);
      std::memcpy(t.data<float>().data(), y[i].data(), y[i].bytes());
      return Operand(t);
    };
    norm.op = Op::kBatchNormApply;
    norm.inputs.insert(norm.inputs.begin() + 3, {statistics(1), statistics(2)});
    CHECK(run_cuda_row(norm)[0] == y[0]);
  }
}

TEST_CASE("BatchNorm of values kept as bfloat16 on CUDA") {
  for (const Shape& shape : {Shape{30, 20}, Shape{4, 6, 5, 7}}) {
    const Shape channels = {shape[1]};
    const Operand variance(channels, 0.2, 2);
    check_cuda_mixtures({Op::kBatchNorm, {shape, channels, channels, shape}, kRelu}, 0b1001, 1,
                        kClose);
    check_cuda_mixtures(
        {Op::kBatchNormApply, {shape, channels, channels, channels, variance, shape}, kRelu},
        0b100001, 1, kClose);
    check_cuda_mixtures(
        {Op::kBatchNormGrad, {shape, shape, channels, channels, variance, channels}, kRelu}, 0b11,
        1, kClose);
    check_cuda_mixtures(
        {Op::kBatchNormGrad, {shape, shape, channels, channels, variance, shape}, kRelu}, 0b100011,
        0b1001, kClose);
  }
}

}  // namespace
}  // namespace trainrt
