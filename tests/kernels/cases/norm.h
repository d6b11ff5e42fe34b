// Cases of losses and norms.
#ifndef TRAINRT_TESTS_KERNELS_CASES_NORM_H_
#define TRAINRT_TESTS_KERNELS_CASES_NORM_H_

#include <vector>

#include "tests/kernels/row_case.h"

namespace trainrt {

struct CheckedCase {
  RowCase c;
  Tolerance tolerance;
};

inline std::vector<CheckedCase> cross_entropy_cases() {
  struct Row {
    Shape logits, ids;
    int64_t axis;
  };
  const Row rows[] = {
      {{64, 10}, {64}, 1},        {{5, 37}, {5}, 1},       {{7, 2}, {7}, 1},
      {{7, 1}, {7}, 1},           {{2, 3, 11}, {2, 3}, 2}, {{2, 5, 4, 7}, {2, 4, 7}, 1},
      {{2, 3, 300}, {2, 300}, 1}, {{200, 300}, {200}, 1},  {{6, 4}, {4}, 0}};
  std::vector<CheckedCase> cases;
  for (const Row& r : rows) {
    const int64_t classes = r.logits[static_cast<size_t>(r.axis)];
    for (double range : {3.0, 50.0}) {
      const Operand x(r.logits, -range, range), target = ids(r.ids, 0, classes - 1);
      for (int64_t ignored : {-100, 0}) {
        const LossAttrs attrs{r.axis, ignored, {}};
        cases.push_back({{Op::kCrossEntropy, {x, target}, attrs}, kClose});
        cases.push_back({{Op::kCrossEntropyGrad, {r.ids, x, target}, attrs}, kClose});
      }
    }
  }
  return cases;
}

/// LayerNorm, RmsNorm and their gradients, with and without scale.
inline std::vector<CheckedCase> layer_norm_cases() {
  const std::pair<Shape, int64_t> shapes[] = {{{5, 37}, 1},   {{2, 3, 64}, 2}, {{2, 3, 5, 7}, 2},
                                              {{300, 96}, 1}, {{1, 20}, 1},    {{6}, 0},
                                              {{4, 1}, 1}};
  std::vector<CheckedCase> cases;
  for (const auto& [shape, axis] : shapes) {
    const NormAttrs attrs{axis, 1e-5};
    const Shape tail(shape.begin() + axis, shape.end());
    for (double shift : {0.0, 30.0}) {
      const Operand x(shape, shift - 2, shift + 2);
      cases.push_back({{Op::kLayerNorm, {x}, attrs}, {3e-5, false}});
      cases.push_back({{Op::kLayerNorm, {x, tail, tail}, attrs}, {3e-5, false}});
    }
    Shape statistics = shape;
    std::fill(statistics.begin() + axis, statistics.end(), 1);
    const Operand mean(statistics, -0.2, 0.2), inverse(statistics, 0.5, 2);
    cases.push_back({{Op::kLayerNormGrad, {shape, shape, mean, inverse}, attrs}, kClose});
    cases.push_back({{Op::kLayerNormGrad, {shape, shape, mean, inverse, tail}, attrs}, kClose});
    cases.push_back({{Op::kRmsNorm, {shape}, attrs}, kClose});
    cases.push_back({{Op::kRmsNorm, {shape, tail}, attrs}, kClose});
    cases.push_back({{Op::kRmsNormGrad, {shape, shape, inverse}, attrs}, kClose});
    cases.push_back({{Op::kRmsNormGrad, {shape, shape, inverse, tail}, attrs}, kClose});
  }
  return cases;
}

/// BatchNorm and its gradient on plain tensors, with every activation, with and without residual.
inline std::vector<CheckedCase> batch_norm_cases() {
  std::vector<CheckedCase> cases;
  for (const Shape& shape : {Shape{16, 37}, Shape{300, 300}, Shape{4, 6, 5, 7}, Shape{2, 3, 400},
                             Shape{2, 5, 1, 1}, Shape{2, 3, 2, 3, 4}, Shape{1, 19}}) {
    const Shape channels = {shape[1]};
    const Operand variance(channels, 0.2, 2);
    for (const Activation a : {Activation::kNone, Activation::kRelu, Activation::kClip}) {
      const bool clip = a == Activation::kClip;
      const NormAttrs attrs{1, 1e-5, a, clip ? -0.5 : 0, clip ? 0.8 : 0};
      for (double shift : {0.0, 30.0}) {
        const Operand x(shape, shift - 2, shift + 2);
        cases.push_back({{Op::kBatchNorm, {x, channels, channels}, attrs}, {3e-5, false}});
      }
      RowCase gradient{Op::kBatchNormGrad, {shape, shape, channels, channels, variance}, attrs};
      if (a != Activation::kNone) gradient.inputs.emplace_back(channels);
      cases.push_back({gradient, kClose});
      if (clip) continue;
      cases.push_back({{Op::kBatchNorm, {shape, channels, channels, shape}, attrs}, {3e-5, false}});
      if (a != Activation::kRelu) continue;
      gradient.inputs.back() = shape;
      cases.push_back({gradient, kClose});
    }
  }
  return cases;
}

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_CASES_NORM_H_
