// Cases of Dropout and of updates of state.
#ifndef TRAINRT_TESTS_KERNELS_CASES_UPDATE_H_
#define TRAINRT_TESTS_KERNELS_CASES_UPDATE_H_

#include <vector>

#include "tests/kernels/row_case.h"

namespace trainrt {

inline Operand random_key() {
  return Operand(Tensor::of_ints(std::vector<int64_t>{0x123456789ABCDEF, -5}));
}

/// The results are exact.
inline std::vector<RowCase> dropout_cases() {
  std::vector<RowCase> cases;
  for (int64_t n : {0, 1, 3, 4, 63, 64, 65, 257, 40001}) {
    for (double ratio : {0.0, 0.1, 0.5, 0.999}) {
      for (int64_t stream : {0, 7}) {
        cases.push_back({Op::kDropout, {Shape{n}, random_key()}, DropoutAttrs{ratio, stream}});
      }
    }
  }
  return cases;
}

inline constexpr Tolerance kUpdateTolerance{3e-6, true};

inline std::vector<RowCase> optimizer_cases() {
  std::vector<RowCase> cases;
  for (OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov,
        OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    for (double decay : {0.0, 0.1}) {
      for (double step : {1.0, 2.0, 1000.0}) {
        for (const Shape& shape : {Shape{}, Shape{0}, Shape{37}, Shape{50001}}) {
          OptimizerAttrs attrs;
          attrs.kind = kind;
          attrs.weight_decay = decay;
          attrs.dampening = kind == OptimizerKind::kMomentum ? 0.25 : 0;
          RowCase c{Op::kOptimizerUpdate, {}, attrs};
          c.inputs = {shape, shape, Operand(Tensor::from<double>({1e-2, step}, {2})),
                      Operand(Tensor::scalar(0.5f))};
          for (size_t i = 0; i < optimizer_slots(kind).size(); ++i) {
            c.inputs.emplace_back(shape, 0.1, 1.0);
          }
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_CASES_UPDATE_H_
