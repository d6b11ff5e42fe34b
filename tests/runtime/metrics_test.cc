#include "runtime/train/metrics.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

namespace trainrt {
namespace {

LossTerm term_of(const std::string& loss, const Tensor& output) {
  LossTerm term;
  term.spec = parse_loss(loss);
  term.output = "y";
  term.target = needs_target(term.spec.kind) ? "target" : "";
  term.output_type = {output.dtype(), output.shape()};
  return term;
}

MetricSums sums_of(const std::string& loss, const Tensor& output, const Tensor& target) {
  MetricSums sums;
  add_metrics(term_of(loss, output), output, target, sums);
  return sums;
}

TEST_CASE("accuracy and top5 count hits, ignored positions left out") {
  const Tensor y = Tensor::from<float>({9, 1, 2, 3, 4, 5, 6,  //
                                        1, 9, 2, 3, 4, 5, 6,  //
                                        1, 2, 9, 3, 4, 5, 6,  //
                                        1, 2, 3, 4, 5, 6, 9},
                                       {4, 7});
  const MetricSums s =
      sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{0, 3, -100, 0}));
  CHECK(s.classified == 3);
  CHECK(s.value("accuracy") == 1.0 / 3);
  CHECK(s.value("top5") == 2.0 / 3);
}

TEST_CASE("on a tie the lower class wins") {
  const Tensor y = Tensor::from<float>({1, 1}, {1, 2});
  CHECK(sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{0})).correct == 1);
  CHECK(sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{1})).correct == 0);
}

TEST_CASE("perplexity is the exponential of the mean cross entropy") {
  const Tensor y = Tensor::from<double>({0, 0, 0, 0, 1000, 0, 0, 0}, {2, 4});
  const MetricSums s = sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{2, 0}));
  CHECK(std::abs(s.value("perplexity") - std::exp(std::log(4.0) / 2)) < 1e-12);
}

TEST_CASE("nll reads log-probabilities") {
  const Tensor y = Tensor::from<double>({-1, -2}, {1, 2});
  CHECK(std::abs(sums_of("nll", y, Tensor::of_ints(std::vector<int64_t>{1})).value("perplexity") -
                 std::exp(2.0)) < 1e-12);
}

TEST_CASE("classes on axis 1 of images") {
  // Class 1 is larger at every pixel.
  Tensor y(DType::kFloat32, {1, 2, 2, 2});
  for (size_t i = 4; i < 8; ++i) y.data<float>()[i] = 1;
  Tensor target(DType::kInt64, {1, 2, 2});
  target.fill(1);
  CHECK(sums_of("cross_entropy", y, target).correct == 4);
}

TEST_CASE("mae of regressions, accuracy of binary decisions") {
  const Tensor y = Tensor::from<float>({1, -2}, {2}), t = Tensor::from<float>({0, 0}, {2});
  CHECK(sums_of("mse", y, t).value("mae") == 1.5);
  CHECK(sums_of("bce_with_logits", y, t).value("accuracy") == 0.5);
  const Tensor p = Tensor::from<float>({0.7f, 0.2f}, {2});
  CHECK(sums_of("bce", p, Tensor::from<float>({1, 1}, {2})).value("accuracy") == 0.5);
}

TEST_CASE("NaN is no hit") {
  const Tensor y = Tensor::from<float>({std::nanf(""), std::nanf("")}, {1, 2});
  CHECK(sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{0})).correct == 0);
}

TEST_CASE("sums of batches add up") {
  const Tensor y = Tensor::from<float>({1, 0}, {1, 2});
  MetricSums s = sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{0}));
  s += sums_of("cross_entropy", y, Tensor::of_ints(std::vector<int64_t>{1}));
  CHECK(s.value("accuracy") == 0.5);
  CHECK(s.has("perplexity"));
  CHECK_FALSE(s.has("mae"));
}

TEST_CASE("unknown metrics and those without a loss are refused") {
  const MetricSums none;
  CHECK_THROWS_AS(none.value("accuracy"), Error);
  CHECK_THROWS_AS(none.has("f1"), Error);
}

}  // namespace
}  // namespace trainrt
