#include "tests/kernels/cases/norm.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "tests/kernels/cpu/row_check.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr Op kReductions[] = {Op::kReduceSum, Op::kReduceMean, Op::kReduceMax, Op::kReduceMin};

void check_reductions(const Shape& shape, const std::vector<int64_t>& axes) {
  for (Op op : kReductions) {
    const bool exact = op == Op::kReduceMax || op == Op::kReduceMin;
    for (bool keep : {false, true}) {
      check_rows({op, {shape}, ReduceAttrs{axes, keep}}, exact ? kExact : kClose);
    }
  }
}

TEST_CASE("reductions over trailing axes on CPU") {
  check_reductions({5, 37}, {1});
  check_reductions({2, 3, 5}, {1, 2});
  check_reductions({40000}, {0});
  check_reductions({3, 50000}, {0, 1});
  check_reductions({100, 1}, {1});
  check_reductions({1000, 64}, {1});
}

TEST_CASE("reductions over leading axes on CPU") {
  check_reductions({37, 5}, {0});
  check_reductions({2, 3, 300}, {0, 1});
  check_reductions({5000, 10}, {0});
  check_reductions({1024, 256}, {0});
}

TEST_CASE("reductions over channels, batches and mixed axes on CPU") {
  check_reductions({4, 6, 5, 7}, {0, 2, 3});
  check_reductions({4, 6, 5, 7}, {1});
  check_reductions({4, 6, 5, 7}, {0, 2});
  check_reductions({4, 6, 5, 7}, {1, 3});
  check_reductions({3, 2, 70, 1, 33}, {0, 2});
  check_reductions({8, 3, 60, 60}, {0, 2, 3});
}

TEST_CASE("reductions of one element, and over no axis, on CPU") {
  check_reductions({}, {});
  check_reductions({1}, {0});
  check_reductions({3, 4}, {});
  check_reductions({1, 1, 5}, {0, 1});
}

TEST_CASE("reductions hand NaN on and know infinities") {
  Tensor x(DType::kFloat32, {4, 40});
  x.fill(-INFINITY);
  x.data<float>()[45] = NAN;
  x.data<float>()[90] = 1;
  for (Op op : kReductions) {
    check_rows({op, {Operand(x)}, ReduceAttrs{{1}, false}}, kExact);
    check_rows({op, {Operand(x)}, ReduceAttrs{{0}, false}}, kExact);
  }
}

TEST_CASE("a long sum stays accurate on CPU") {
  Tensor x(DType::kFloat32, {1 << 20});
  x.fill(0.1);
  const Tensor sum = run_first_row({Op::kReduceSum, {Operand(x)}, ReduceAttrs{{0}, false}})[0];
  CHECK(std::fabs(sum.item() - 0.1f * double{1 << 20}) < 0.05);
  const Tensor columns = x.reshape({1 << 18, 4});
  const Tensor sums =
      run_first_row({Op::kReduceSum, {Operand(columns)}, ReduceAttrs{{0}, false}})[0];
  CHECK(std::fabs(sums.data<float>()[3] - 0.1f * double{1 << 18}) < 0.05);
}

TEST_CASE("Softmax, LogSoftmax and their gradients on CPU") {
  const std::vector<std::pair<Shape, int64_t>> cases = {
      {{5, 37}, 1}, {{64, 10}, 1}, {{37}, 0},   {{2, 5, 7}, 1},  {{3, 4, 300}, 1},   {{6, 5}, 0},
      {{4, 1}, 1},  {{0, 5}, 1},   {{5, 0}, 1}, {{200, 300}, 1}, {{2, 3, 4, 128}, 3}};
  for (const auto& [shape, axis] : cases) {
    for (double range : {3.0, 60.0}) {
      const Operand x(shape, -range, range);
      check_rows({Op::kSoftmax, {x}, AxisAttrs{axis}}, kClose);
      check_rows({Op::kLogSoftmax, {x}, AxisAttrs{axis}}, kClose);
    }
    check_rows({Op::kSoftmaxGrad, {shape, Operand(shape, 0, 1)}, AxisAttrs{axis}}, kClose);
    check_rows({Op::kLogSoftmaxGrad, {shape, Operand(shape, -5, 0)}, AxisAttrs{axis}}, kClose);
  }
}

TEST_CASE("Softmax on CPU gives masked positions exactly 0") {
  Tensor x(DType::kFloat32, {2, 20});
  for (size_t i = 0; i < 40; ++i)
    x.data<float>()[i] = i % 3 == 0 ? -1e30f : 0.1f * static_cast<float>(i);
  check_rows({Op::kSoftmax, {Operand(x)}, AxisAttrs{1}}, kClose);
  const Tensor y = run_first_row({Op::kSoftmax, {Operand(x)}, AxisAttrs{1}})[0];
  CHECK(y.data<float>()[0] == 0.0f);
}

TEST_CASE("cross entropy and its gradient on CPU") {
  for (const CheckedCase& c : cross_entropy_cases()) check_rows(c.c, c.tolerance);
}

TEST_CASE("cross entropy on CPU refuses class ids out of range") {
  for (int64_t bad : {int64_t{-1}, int64_t{3}, int64_t{1} << 40}) {
    const Operand target(Tensor::of_ints(std::vector<int64_t>{0, bad}));
    for (const Shape& shape : {Shape{2, 3}, Shape{3, 2}}) {
      const LossAttrs attrs{shape[0] == 2 ? 1 : 0, -100, {}};
      CHECK_THROWS_AS(run_first_row({Op::kCrossEntropy, {shape, target}, attrs}), Error);
      CHECK_THROWS_AS(run_first_row({Op::kCrossEntropyGrad, {Shape{2}, shape, target}, attrs}),
                      Error);
    }
  }
}

TEST_CASE("LayerNorm, RmsNorm and their gradients on CPU") {
  for (const CheckedCase& c : layer_norm_cases()) check_rows(c.c, c.tolerance);
}

void check_attention(const std::vector<Operand>& operands, const AttentionAttrs& attrs,
                     const std::vector<Operand>& mask = {}) {
  std::vector<Operand> in = operands;
  in.insert(in.end(), mask.begin(), mask.end());
  check_rows({Op::kAttention, in, attrs}, kClose);
  const std::vector<Tensor> out = run_first_row({Op::kAttention, in, attrs});
  std::vector<Operand> grad = {Operand(out[0].shape())};
  grad.insert(grad.end(), operands.begin(), operands.end());
  grad.insert(grad.end(), {Operand(out[0]), Operand(out[1])});
  grad.insert(grad.end(), mask.begin(), mask.end());
  check_rows({Op::kAttentionGrad, grad, attrs}, {3e-5, false});
}

TEST_CASE("attention and its gradient on CPU", "[large]") {
  for (const bool causal : {false, true}) {
    for (const auto& [queries, keys] :
         {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {37, 37}, {30, 70}, {130, 130}, {60, 300}}) {
      if (causal && queries > keys) continue;
      for (const auto& [size, value_size] :
           {std::pair<int64_t, int64_t>{1, 2}, {5, 7}, {64, 64}, {80, 33}}) {
        const AttentionAttrs plain{0.2, causal, false, false}, tokens{0.2, causal, true, false};
        check_attention(
            {Shape{2, 2, queries, size}, Shape{2, 2, keys, size}, Shape{2, 2, keys, value_size}},
            plain);
        check_attention(
            {Shape{1, queries, 4, size}, Shape{1, keys, 2, size}, Shape{1, keys, 2, value_size}},
            tokens);
        check_attention(
            {Shape{queries, 3, 4, size}, Shape{keys, 3, 2, size}, Shape{keys, 3, 2, value_size}},
            {0.2, causal, true, false, true});
      }
      if (queries == keys) {
        check_attention({Shape{2, queries, 3, 2, 19}}, {0.3, causal, true, true});
        check_attention({Shape{queries, 2, 3, 2, 19}}, {0.3, causal, true, true, true});
      }
    }
  }
}

TEST_CASE("attention with masks on CPU, some of which hide every key", "[large]") {
  const Operand q(Shape{2, 3, 20, 8}), k(Shape{2, 3, 37, 8}), v(Shape{2, 3, 37, 9});
  for (const Shape& shape : {Shape{}, Shape{37}, Shape{20, 1}, Shape{20, 37}, Shape{3, 1, 37},
                             Shape{2, 1, 1, 37}, Shape{2, 3, 20, 37}}) {
    check_attention({q, k, v}, {0.3, false, false, false}, {Operand(shape)});
    Tensor hidden(DType::kFloat32, shape);
    hidden.fill(0);
    for (size_t i = 0; i < hidden.data<float>().size(); i += 3) {
      hidden.data<float>()[i] = -INFINITY;
    }
    check_attention({q, k, v}, {0.3, true, false, false}, {Operand(hidden)});
  }
  check_attention({Shape{1, 1, 5, 8}, Shape{1, 1, 3, 8}, Shape{1, 1, 3, 4}},
                  {0.3, true, false, false});
}

TEST_CASE("BatchNorm and its gradient on CPU") {
  for (const Shape& shape : {Shape{16, 37}, Shape{300, 300}, Shape{4, 6, 5, 7}, Shape{2, 3, 40},
                             Shape{8, 16, 28, 28}, Shape{2, 5, 1, 1}, Shape{2, 3, 2, 3, 4}}) {
    const NormAttrs attrs{1, 1e-5};
    const Shape channels = {shape[1]};
    for (double shift : {0.0, 30.0}) {
      const Operand x(shape, shift - 2, shift + 2);
      check_rows({Op::kBatchNorm, {x, channels, channels}, attrs}, {3e-5, false});
    }
    check_rows(
        {Op::kBatchNormGrad, {shape, shape, channels, channels, Operand(channels, 0.2, 2)}, attrs},
        kClose);
  }
}

TEST_CASE("BatchNorm on CPU, with residual and activation") {
  for (const CheckedCase& c : batch_norm_cases()) check_rows(c.c, c.tolerance);
}

}  // namespace
}  // namespace trainrt
