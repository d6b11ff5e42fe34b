#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

TEST_CASE("reductions over any axes") {
  const Tensor x = counting({2, 3, 2});
  check_close(eval(Op::kReduceSum, {x}, ReduceAttrs{{1}, false}), {6, 9, 24, 27});
  check_close(eval(Op::kReduceSum, {x}, ReduceAttrs{{0, 2}, false}), {14, 22, 30});
  check_close(eval(Op::kReduceMean, {x}, ReduceAttrs{{0, 1, 2}, false}), {5.5});
  check_close(eval(Op::kReduceMax, {x}, ReduceAttrs{{0, 1}, false}), {10, 11});
  check_close(eval(Op::kReduceMin, {x}, ReduceAttrs{{2}, false}), {0, 2, 4, 6, 8, 10});
  check_close(eval(Op::kReduceProd, {x}, ReduceAttrs{{1}, false}), {0, 15, 480, 693});
  CHECK(eval(Op::kReduceSum, {x}, ReduceAttrs{{1}, true}).shape() == Shape{2, 1, 2});
  check_close(eval(Op::kReduceSum, {x}, ReduceAttrs{}), x);
  CHECK(eval(Op::kReduceSum, {Tensor::scalar(3.0)}, ReduceAttrs{}).item() == 3);
}

TEST_CASE("reductions agree with a plain sum on large inputs") {
  const Tensor x = noise({70, 9, 130}, 5);
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
    const Tensor y = eval(Op::kReduceSum, {x}, ReduceAttrs{axes, true});
    std::vector<double> want(static_cast<size_t>(y.size()));
    for (size_t i = 0; i < 70 * 9 * 130; ++i) {
      size_t index[] = {i / (9 * 130), i / 130 % 9, i % 130};
      for (int64_t axis : axes) index[axis] = 0;
      const Shape& s = y.shape();
      want[(index[0] * size_t(s[1]) + index[1]) * size_t(s[2]) + index[2]] += x.data<double>()[i];
    }
    check_close(y, want, 1e-11);
  }
}

TEST_CASE("reductions of nothing") {
  const Tensor x(DType::kFloat64, {2, 0});
  const ReduceAttrs last{{1}, false};
  check_close(eval(Op::kReduceSum, {x}, last), {0, 0});
  check_close(eval(Op::kReduceProd, {x}, last), {1, 1});
  check_close(eval(Op::kReduceMax, {x}, last), {-kInf, -kInf});
  check_close(eval(Op::kReduceMin, {x}, last), {kInf, kInf});
  check_close(eval(Op::kReduceMean, {x}, last), {kNaN, kNaN});
  CHECK(eval(Op::kReduceSum, {x}, ReduceAttrs{{0}, false}).shape() == Shape{0});
  CHECK(values<int32_t>(eval(Op::kReduceMax, {Tensor(DType::kInt32, {1, 0})}, last)) ==
        std::vector<int32_t>{std::numeric_limits<int32_t>::min()});
}

TEST_CASE("reductions of integers, and NaN in maxima") {
  const Tensor x = vec<int32_t>({-7, 2, 0});
  const ReduceAttrs all{{0}, false};
  CHECK(eval(Op::kReduceSum, {x}, all).item() == -5);
  CHECK(eval(Op::kReduceMean, {x}, all).item() == -1);
  CHECK(eval(Op::kReduceMax, {x}, all).item() == 2);
  CHECK(eval(Op::kReduceMin, {x}, all).item() == -7);
  CHECK(eval(Op::kReduceSum, {vec<uint8_t>({200, 100})}, all).item() == 44);
  CHECK(eval(Op::kReduceMean, {vec<uint8_t>({200, 100})}, all).item() == 150);
  CHECK(std::isnan(eval(Op::kReduceMax, {vec<double>({1, kNaN, 2})}, all).item()));
  CHECK(std::isnan(eval(Op::kReduceMin, {vec<double>({1, kNaN, 2})}, all).item()));
}

TEST_CASE("float32 sums are accumulated in double") {
  Tensor x(DType::kFloat32, {20000001});
  x.fill(1);
  CHECK(eval(Op::kReduceSum, {x}, ReduceAttrs{{0}, false}).item() == 20000000);  // nearest float
  CHECK(eval(Op::kReduceMean, {x}, ReduceAttrs{{0}, false}).item() == 1);
}

TEST_CASE("ArgMax and ArgMin: ties and NaN") {
  const Tensor x = tensor<double>({1, 3, 3, 0, 2, 2}, {2, 3});
  const auto arg = [&](Op op, const Tensor& t, ArgAttrs a) {
    return values<int64_t>(eval(op, {t}, a));
  };
  using V = std::vector<int64_t>;
  CHECK(arg(Op::kArgMax, x, {1, false, false}) == V{1, 1});
  CHECK(arg(Op::kArgMax, x, {1, false, true}) == V{2, 2});
  CHECK(arg(Op::kArgMin, x, {0, false, false}) == V{1, 1, 1});
  CHECK(arg(Op::kArgMin, vec<int32_t>({4, 4}), {0, true, true}) == V{1});
  const Tensor n = vec<double>({1, kNaN, 5, kNaN});
  CHECK(arg(Op::kArgMax, n, {0, false, false}) == V{1});
  CHECK(arg(Op::kArgMax, n, {0, false, true}) == V{3});
  CHECK(arg(Op::kArgMin, n, {0, false, false}) == V{1});
  CHECK(arg(Op::kArgMax, vec<double>({-kInf, -kInf}), {0, false, false}) == V{0});
}

TEST_CASE("CumSum and CumProd, exclusive and reverse") {
  const Tensor x = vec<double>({2, 3, 4});
  check_close(eval(Op::kCumSum, {x}, CumAttrs{0, false, false}), {2, 5, 9});
  check_close(eval(Op::kCumSum, {x}, CumAttrs{0, true, false}), {0, 2, 5});
  check_close(eval(Op::kCumSum, {x}, CumAttrs{0, false, true}), {9, 7, 4});
  check_close(eval(Op::kCumSum, {x}, CumAttrs{0, true, true}), {7, 4, 0});
  check_close(eval(Op::kCumProd, {x}, CumAttrs{0, false, false}), {2, 6, 24});
  check_close(eval(Op::kCumProd, {x}, CumAttrs{0, true, true}), {12, 4, 1});
  check_close(eval(Op::kCumSum, {counting({2, 3})}, CumAttrs{0, false, false}), {0, 1, 2, 3, 5, 7});
  CHECK(values<int64_t>(eval(Op::kCumSum, {vec<int64_t>({1, -2, 3})}, CumAttrs{})) ==
        std::vector<int64_t>{1, -1, 2});
  CHECK(eval(Op::kCumSum, {Tensor(DType::kFloat32, {0, 2})}, CumAttrs{}).size() == 0);
}

TEST_CASE("TopK sorts, the lowest index first among equals, NaN largest") {
  const Tensor x = vec<double>({1, 5, 5, kNaN, 2});
  auto y = eval_all(Op::kTopK, {x}, TopKAttrs{0, 4, true});
  check_close(y[0], {kNaN, 5, 5, 2});
  CHECK(values<int64_t>(y[1]) == std::vector<int64_t>{3, 1, 2, 4});
  y = eval_all(Op::kTopK, {x}, TopKAttrs{0, 5, false});
  check_close(y[0], {1, 2, 5, 5, kNaN});
  CHECK(values<int64_t>(y[1]) == std::vector<int64_t>{0, 4, 1, 2, 3});
  y = eval_all(Op::kTopK, {tensor<int32_t>({1, 9, 8, 2, 7, 3}, {3, 2})}, TopKAttrs{0, 2, true});
  CHECK(values<int32_t>(y[0]) == std::vector<int32_t>{8, 9, 7, 3});
  CHECK(values<int64_t>(y[1]) == std::vector<int64_t>{1, 0, 2, 2});
  CHECK(eval_all(Op::kTopK, {x}, TopKAttrs{0, 0, true})[1].size() == 0);
}

}  // namespace
}  // namespace trainrt::testing
