// Products and convolutions.
#ifndef TRAINRT_TESTS_KERNELS_CASES_LINEAR_H_
#define TRAINRT_TESTS_KERNELS_CASES_LINEAR_H_

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/row_case.h"

namespace trainrt {

/// Shapes, transposition, batches; without and with bias and ReLU.
inline std::vector<RowCase> matmul_cases() {
  struct Row {
    Shape a, b;
    bool trans_a = false, trans_b = false;
  };
  const Row rows[] = {{{5, 7}, {7, 3}},
                      {{7, 5}, {7, 3}, true},
                      {{5, 7}, {3, 7}, false, true},
                      {{7, 5}, {3, 7}, true, true},
                      {{1, 7}, {7, 1}},
                      {{5, 1}, {1, 3}},
                      {{1, 1}, {1, 1}},
                      {{64, 33}, {33, 128}},
                      {{2, 3, 5, 7}, {2, 3, 7, 4}},
                      {{2, 3, 5, 7}, {7, 4}},
                      {{2, 5, 7}, {4, 7}, false, true},
                      {{5, 7}, {2, 3, 7, 4}},
                      {{2, 1, 5, 7}, {3, 7, 4}},
                      {{2, 7, 5}, {7, 4}, true},
                      {{4, 1, 5, 7}, {1, 3, 7, 4}},
                      {{2, 3, 7, 5}, {2, 3, 4, 7}, true, true},
                      {{6, 1, 7}, {6, 7, 4}},
                      {{1, 5, 7}, {7, 4}},
                      {{2, 3, 1, 7}, {1, 3, 7, 1}},
                      {{100, 70}, {70, 10}}};
  std::vector<RowCase> cases;
  for (const Row& r : rows) {
    cases.push_back({Op::kMatMul, {r.a, r.b}, MatMulAttrs{r.trans_a, r.trans_b}});
    const Shape bias = {r.b[r.b.size() - (r.trans_b ? 2 : 1)]};
    for (bool relu : {false, true}) {
      cases.push_back({Op::kMatMul, {r.a, r.b, bias}, MatMulAttrs{r.trans_a, r.trans_b, relu}});
    }
  }
  return cases;
}

inline std::vector<RowCase> empty_matmuls() {
  return {{Op::kMatMul, {Shape{0, 7}, Shape{7, 3}}, MatMulAttrs{}},
          {Op::kMatMul, {Shape{5, 0}, Shape{0, 3}}, MatMulAttrs{}},
          {Op::kMatMul, {Shape{2, 0, 5}, Shape{2, 5, 4}}, MatMulAttrs{}}};
}

/// With a ReLU that keeps NaN and infinity.
inline RowCase matmul_of_nan() {
  constexpr float inf = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>({nan, inf, -inf, 1, -1, 0}, {6, 1});
  const Tensor one = Tensor::from<float>({1}, {1, 1});
  return {Op::kMatMul, {Operand(x), Operand(one)}, MatMulAttrs{false, false, true}};
}
inline RowCase conv_of_nan() {
  Tensor image(DType::kFloat32, {1, 16, 4, 4});
  image.data<float>()[20] = std::numeric_limits<float>::quiet_NaN();
  image.data<float>()[40] = std::numeric_limits<float>::infinity();
  const ConvAttrs conv{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {}, true};
  return {Op::kConv, {Operand(image), Shape{16, 16, 3, 3}}, conv};
}

struct ConvCase {
  Shape x, w;
  std::vector<int64_t> strides, dilations, begin, end;
  int64_t group = 1;
};

inline Shape output_of(const ConvCase& c) {
  Shape y = {c.x[0], c.w[0]};
  for (size_t d = 0; d < c.strides.size(); ++d) {
    const int64_t reach = (c.w[d + 2] - 1) * c.dilations[d] + 1;
    y.push_back((c.x[d + 2] + c.begin[d] + c.end[d] - reach) / c.strides[d] + 1);
  }
  return y;
}

/// The convolution without bias, with one and with a ReLU behind it, and its gradients.
inline std::vector<RowCase> conv_rows(const ConvCase& c) {
  const ConvAttrs attrs{c.strides, c.dilations, c.begin, c.end, c.group, {}};
  ConvAttrs with_relu = attrs, data = attrs, weights = attrs;
  with_relu.relu = true;
  data.shape = c.x;
  weights.shape = c.w;
  const Shape y = output_of(c);
  return {{Op::kConv, {c.x, c.w}, attrs},
          {Op::kConv, {c.x, c.w, Shape{c.w[0]}}, attrs},
          {Op::kConv, {c.x, c.w, Shape{c.w[0]}}, with_relu},
          {Op::kConvDataGrad, {y, c.w}, data},
          {Op::kConvWeightGrad, {c.x, y}, weights}};
}

inline const std::vector<ConvCase> kConvs2d = {
    {{2, 16, 12, 12}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 3, 17, 15}, {16, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {{2, 1, 14, 14}, {6, 1, 5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
    {{1, 5, 9, 8}, {7, 5, 3, 2}, {2, 1}, {1, 2}, {0, 1}, {2, 0}},
    {{2, 32, 9, 9}, {64, 32, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
};

inline const std::vector<ConvCase> kPointwiseConvs = {
    {{2, 24, 8, 8}, {16, 24, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 32, 8, 8}, {64, 32, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
};

inline const std::vector<ConvCase> kGroupedConvs = {
    {{2, 32, 14, 14}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 32},
    {{2, 20, 15, 15}, {20, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 20},
    {{2, 32, 10, 10}, {64, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4},
    {{1, 6, 7, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
};

inline const std::vector<ConvCase> kDilatedConvs = {
    {{2, 16, 13, 13}, {16, 16, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
    {{2, 16, 11, 12}, {16, 16, 3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 4, 11, 12}, {5, 4, 3, 4}, {2, 3}, {2, 1}, {0, 2}, {3, 1}},
};

inline const std::vector<ConvCase> kConvs1dAnd3d = {
    {{2, 8, 31}, {16, 8, 5}, {1}, {1}, {2}, {2}},
    {{2, 16, 30}, {16, 16, 3}, {2}, {2}, {1}, {0}},
    {{1, 3, 6, 7, 8}, {16, 3, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{2, 16, 5, 6, 7}, {16, 16, 2, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
};

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_CASES_LINEAR_H_
