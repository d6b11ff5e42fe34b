// Operands of elementwise ops.
#ifndef TRAINRT_TESTS_KERNELS_CASES_ELEMENTWISE_H_
#define TRAINRT_TESTS_KERNELS_CASES_ELEMENTWISE_H_

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/kernels/row_case.h"

namespace trainrt {

/// Values at which float32 functions change their nature.
inline Tensor special_values() {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  return Tensor::from<float>(
      {0.0f,   -0.0f,   1.0f, -1.0f, inf,     -inf,     nan,   1e-30f, -1e-30f, 1e-40f,
       1e30f,  -1e30f,  0.5f, -0.5f, 2.5f,    -2.5f,    88.0f, -88.0f, 104.0f,  -104.0f,
       200.0f, -200.0f, 9.0f, -9.0f, 0.9999f, -0.9999f, 4.0f,  1e6f},
      {28});
}

/// Equal shapes, scalars, rows, columns, channels, and both operands stretched.
inline std::vector<std::pair<Shape, Shape>> broadcast_pairs() {
  return {{{5, 7}, {5, 7}},
          {{}, {}},
          {{1}, {1}},
          {{3, 0}, {3, 0}},
          {{33, 19}, {}},
          {{}, {33, 19}},
          {{33, 19}, {19}},
          {{19}, {33, 19}},
          {{33, 19}, {33, 1}},
          {{33, 1}, {33, 19}},
          {{2, 3, 4, 5}, {3, 1, 1}},
          {{3, 1, 1}, {2, 3, 4, 5}},
          {{4, 1, 6}, {5, 1}},
          {{2, 1, 3, 1}, {5, 1, 7}},
          {{200, 300}, {200, 300}},
          {{2, 40000}, {2, 1}},
          {{300, 200}, {200}},
          {{1, 1, 3}, {2, 0, 3}}};
}

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_CASES_ELEMENTWISE_H_
