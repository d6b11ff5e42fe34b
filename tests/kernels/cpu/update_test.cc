#include <catch2/catch_test_macros.hpp>

#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

TEST_CASE("Dropout on CPU draws the mask of the Philox stream") {
  for (int64_t n : {0, 1, 3, 4, 63, 64, 65, 257, 40001}) {
    for (double ratio : {0.0, 0.1, 0.5, 0.999}) {
      for (int64_t stream : {0, 7}) {
        const Operand rng(Tensor::of_ints(std::vector<int64_t>{0x123456789ABCDEF, -5}));
        check_rows({Op::kDropout, {Shape{n}, rng}, DropoutAttrs{ratio, stream}}, kExact);
      }
    }
  }
}

TEST_CASE("optimizer updates on CPU") {
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
          check_rows(c, {3e-6, true});
        }
      }
    }
  }
}

TEST_CASE("AssignAdd on CPU") {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{37}, Shape{50001}}) {
    check_rows({Op::kAssignAdd, {shape, shape}}, kExact);
  }
}

}  // namespace
}  // namespace trainrt
