#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/kernels/row_check.h"

namespace trainrt {
namespace {

TEST_CASE("regions of interest on CUDA") {
  const Operand rois(Tensor::from<float>(
      {0, 0, 7, 9, 2.5f, 1.25f, 6, 4, -3, -2, 20, 30, 4, 4, 4, 4, 1, 1, 1.5f, 8}, {5, 4}));
  for (const RoiMode mode : {RoiMode::kAverage, RoiMode::kMax, RoiMode::kCellMax}) {
    for (const bool half : {false, true}) {
      for (const int64_t ratio : {0, 2}) {
        for (const DType type : {DType::kInt64, DType::kInt32}) {
          RoiAttrs attrs;
          attrs.mode = mode;
          attrs.height = 3;
          attrs.width = 2;
          attrs.sampling_ratio = ratio;
          attrs.scale = 0.75;
          attrs.half_pixel = half;
          const Operand x({2, 3, 8, 10}), images({5}, type, 0, 1);
          check_cuda_rows({Op::kRoiPool, {x, rois, images}, attrs}, kClose);
          check_cuda_rows({Op::kRoiPoolGrad, {Shape{5, 3, 3, 2}, x, rois, images}, attrs}, kClose);
        }
      }
    }
  }
}

TEST_CASE("a roi on no image is reported on CUDA") {
  RoiAttrs attrs;
  const Operand rois(Tensor::from<float>({0, 0, 3, 3}, {1, 4}));
  for (const int64_t image : {int64_t{2}, int64_t{-1}}) {
    int32_t reported = 0;
    run_cuda_row({Op::kRoiPool,
                  {Shape{2, 1, 4, 4}, rois, Operand(Tensor::of_ints(std::vector<int64_t>{image}))},
                  attrs},
                 &reported);
    CHECK(reported == 7);
  }
}

}  // namespace
}  // namespace trainrt
